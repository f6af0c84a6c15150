//! Recovery of a directory that has lost acknowledged commits.

use std::path::{Path, PathBuf};

use nagaya_store::{Error, ErrorKind};

use crate::{
    Options,
    files::IoContext as _,
    lock::DirectoryLock,
    storage::{
        Acknowledged, AcknowledgedFile, Disk, JournalTail, Journals, LostCommits, Storage, data_folder, torn_folder,
    },
    upgrade,
};

/// What can be recovered of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The journals, the oldest first.
    pub journals: Vec<JournalState>,
    /// The number of the last commit that can be read.
    pub last_commit: Option<u64>,
    /// The number of the last commit that is known to be acknowledged.
    pub acknowledged: u64,
    /// Where the damage is, and what it is; `None` if there is none.
    pub damage: Option<String>,
}

impl Recovery {
    /// Whether the directory cannot be opened without recovery.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// The number of acknowledged commits that cannot be read, if known.
    pub fn lost(&self) -> Option<u64> {
        self.acknowledged.checked_sub(self.last_commit?).filter(|lost| *lost > 0)
    }
}

/// The readable part of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalState {
    /// The file.
    pub path: PathBuf,
    /// The number of complete batches from its beginning on.
    pub batches: u64,
    /// The offset after the last of them.
    pub end: u64,
    /// The number of torn bytes after it; 0 if complete batches follow.
    pub torn_bytes: u64,
}

/// Checks the journals of a directory. If they are intact, it is opened as well: sorted files may show a loss that the
/// journals do not.
pub fn inspect_damage(directory: &Path) -> Result<Recovery, Error> {
    let _lock = DirectoryLock::acquire(directory)?;
    inspect(directory).map(|(recovery, _)| recovery)
}

fn inspect(directory: &Path) -> Result<(Recovery, Journals), Error> {
    let Acknowledged { commit: acknowledged, key } = AcknowledgedFile::read(directory)?;
    let journals = Journals::read(&data_folder(directory), key.as_ref())?;
    let states = journals.files.iter().map(|journal| JournalState {
        path: journal.path.clone(),
        batches: journal.batches,
        end: journal.end,
        torn_bytes: match journal.tail {
            JournalTail::Torn { bytes } => bytes,
            JournalTail::Empty | JournalTail::Damaged { .. } => 0,
        },
    });
    let damage = journals.damage(acknowledged).map(|damage| damage.summary());
    let last_commit = journals.last_commit;
    let mut recovery = Recovery { journals: states.collect(), last_commit, acknowledged, damage };
    if recovery.damage.is_none()
        && let Some(lost) = lost_commits(directory)?
    {
        recovery.damage = Some(lost.summary());
        (recovery.last_commit, recovery.acknowledged) = (Some(lost.found), lost.acknowledged);
    }
    Ok((recovery, journals))
}

/// The commits that are missing although the journals are intact.
fn lost_commits(directory: &Path) -> Result<Option<LostCommits>, Error> {
    let Err(error) = Disk::open(directory, &Options::default()) else { return Ok(None) };
    let lost = match error.kind() {
        ErrorKind::Engine(cause) => cause.downcast_ref::<LostCommits>(),
        _ => None,
    };
    lost.cloned().map(Some).ok_or(error)
}

/// Discards the damaged commits and all commits after them, unless they are already in sorted files. Returns the files
/// with the bytes that were cut off. Indexes may need a repair afterwards.
pub fn discard_damaged_commits(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let _lock = DirectoryLock::acquire(directory)?;
    let (_, journals) = inspect(directory)?;
    let kept = journals.cut_damaged(&torn_folder(directory)).context("cut the journals of", directory)?;
    // Sorted files may contain later commits than the rest of the journals. So the rest is written to sorted files too,
    // and numbering continues from there. The store gets a new identity: subscribers and backups have seen the
    // discarded commits.
    Disk::empty_journals(directory, upgrade::new_incarnation()?)?;
    // Opening must not miss the discarded commits again. This is the last step: if this function is interrupted before
    // it, the directory is still refused and can be recovered again.
    AcknowledgedFile::reset(directory)?;
    let storage = Storage::open(directory, &Options { sweep_interval: None, ..Options::default() })?;
    upgrade::to_current_format(&storage)?;
    Ok(kept)
}
