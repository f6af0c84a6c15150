//! The journals of fjall, checked before fjall opens them.
//!
//! fjall cuts a journal at the first record that it cannot read, whatever follows. That is right for an end that a
//! crash left half written. It is wrong for damage in the middle: the acknowledged commits after it would be lost. So
//! each journal is read here first. A torn end is cut off and kept in another folder. Damage that is followed by
//! complete batches is refused.
//!
//! Every batch contains the number of its commit, tagged with the key of the directory: bytes that tenants write cannot
//! pass for a commit.

mod batch;
mod cut;
mod tail;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use self::batch::{Batch, BatchCommit, Input};
pub(crate) use self::cut::{cut_after, empty};
use super::commit_tag::{Commit, CommitKey};
use crate::files::IoContext as _;

/// The maximum distance between the numbers of two consecutive batches.
const MAX_STEP: u64 = 1 << 40;
/// The maximum distance between a batch's sequence number and the one that its commit recorded: flushes use some.
const MAX_SEQUENCE_GAP: u64 = 1 << 20;

/// The content of the journals of a directory.
#[derive(Debug)]
pub(crate) struct Journals {
    directory: PathBuf,
    pub(crate) files: Vec<Journal>,
    /// The first complete commit, with the sequence number of its batch.
    pub(crate) first: Option<Commit>,
    /// The number of the last complete commit.
    pub(crate) last_commit: Option<u64>,
}

/// The content of one journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) path: PathBuf,
    /// The number of complete batches from the beginning on.
    pub(crate) batches: u64,
    /// The offset after the last of them.
    pub(crate) end: u64,
    pub(crate) tail: JournalTail,
}

/// What follows the last complete batch of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalTail {
    /// Nothing, or preallocated zeros.
    Empty,
    /// Bytes that are no complete batch, without a later commit after them.
    Torn { bytes: u64 },
    /// Damage: later commits follow.
    Damaged { next: u64 },
}

/// Acknowledged commits that the journals do not contain any more.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}. Nothing was changed. `nagaya store recover` shows what can be saved; a backup may have more",
    self.summary()
)]
pub(crate) struct JournalDamage {
    path: PathBuf,
    offset: u64,
    what: String,
}

impl JournalDamage {
    /// Where the damage is, and what it is.
    pub(crate) fn summary(&self) -> String {
        format!("{} is damaged at byte {}: {}", self.path.display(), self.offset, self.what)
    }
}

impl Journals {
    /// Reads the journals of a directory, the oldest first.
    pub(crate) fn read(directory: &Path, key: Option<&CommitKey>) -> Result<Self, Error> {
        let mut journals =
            Journals { directory: directory.to_path_buf(), files: Vec::new(), first: None, last_commit: None };
        let mut last_sequence = None;
        for (_, path) in paths(directory).context("read", directory)? {
            let journal = journals.read_one(&path, key, &mut last_sequence).context("read", &path)?;
            journals.files.push(journal);
        }
        Ok(journals)
    }

    fn read_one(
        &mut self,
        path: &Path,
        key: Option<&CommitKey>,
        last_sequence: &mut Option<u64>,
    ) -> io::Result<Journal> {
        let mut journal = Journal { path: path.to_path_buf(), batches: 0, end: 0, tail: JournalTail::Empty };
        let mut input = Input::open(path)?;
        while let Some(batch) = batch::read(&mut input, key)? {
            if !self.continues(&batch, *last_sequence) {
                journal.tail = JournalTail::Damaged { next: journal.end };
                return Ok(journal);
            }
            *last_sequence = Some(batch.sequence);
            if let BatchCommit::Valid(Commit { number, .. }) = batch.commit {
                self.first.get_or_insert(Commit { number, sequence: batch.sequence });
                self.last_commit = Some(number);
            }
            journal.batches += 1;
            journal.end = input.offset;
        }
        journal.tail = tail::read(path, journal.end, key.zip(self.last_commit))?;
        Ok(journal)
    }

    /// Whether a batch can follow the ones that have been read. Its checksum does not cover the sequence number, so
    /// that must increase.
    fn continues(&self, batch: &Batch, last_sequence: Option<u64>) -> bool {
        let grows = last_sequence.is_none_or(|last| batch.sequence > last && batch.sequence - last < MAX_STEP);
        let numbered = match (batch.commit, self.last_commit) {
            (BatchCommit::Invalid, _) | (BatchCommit::Missing, Some(_)) => false,
            // Batches before the first numbered commit have no number.
            (BatchCommit::Missing, None) => true,
            (BatchCommit::Valid(commit), last) => {
                let gap = batch.sequence.checked_sub(commit.sequence);
                last.is_none_or(|last| commit.number == last + 1) && gap.is_some_and(|gap| gap < MAX_SEQUENCE_GAP)
            }
        };
        grows && numbered
    }

    /// The first place where acknowledged commits are damaged. `acknowledged` is the number of the last commit that is
    /// known to be acknowledged.
    pub(crate) fn damage(&self, acknowledged: u64) -> Option<JournalDamage> {
        if self.files.is_empty() {
            let what = "its journals are gone".to_owned();
            return Some(JournalDamage { path: self.directory.clone(), offset: 0, what });
        }
        let (newest, sealed) = self.written().split_last()?;
        // A journal is synced before a batch is written to the next one.
        let torn = sealed.iter().find(|journal| journal.tail != JournalTail::Empty);
        let damaged = torn.or_else(|| Some(newest).filter(|newest| matches!(newest.tail, JournalTail::Damaged { .. })));
        if let Some(journal) = damaged {
            let what = match journal.tail {
                JournalTail::Damaged { next } if next == journal.end => {
                    "the batch there does not follow the one before".to_owned()
                }
                JournalTail::Damaged { next } => format!("later commits follow at byte {next}"),
                _ => "the journals after it are intact".to_owned(),
            };
            return Some(JournalDamage { path: journal.path.clone(), offset: journal.end, what });
        }
        let missing = self.last_commit.map(|last| acknowledged.saturating_sub(last)).filter(|missing| *missing > 0)?;
        let what = format!("{missing} acknowledged commits are missing after commit {}", acknowledged - missing);
        Some(JournalDamage { path: newest.path.clone(), offset: newest.end, what })
    }

    /// The journals without the unused ones at the end.
    fn written(&self) -> &[Journal] {
        let last = self.files.iter().rposition(|journal| journal.batches > 0 || journal.tail != JournalTail::Empty);
        &self.files[..last.map_or(0, |last| last + 1)]
    }
}

/// The journals of a directory with their numbers, the oldest first.
fn paths(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let unknown = || io::Error::other(format!("{} is not a journal of this store", path.display()));
            found.push((number.ok_or_else(unknown)?, path));
        }
    }
    found.sort();
    Ok(found)
}
