//! Cutting journals. The bytes that are cut off are kept in another folder.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use super::{
    JournalTail, Journals,
    batch::{self, BatchCommit, Input},
    paths,
    tail::data_end,
};
use crate::{
    files::{self, private_file, private_folder, sync_folder},
    storage::commit_tag::CommitKey,
};

impl Journals {
    /// Rewrites the newest journal: bytes that a process wrote and did not sync before it ended may look complete, and
    /// still never reach the disk.
    pub(crate) fn rewrite_newest(&self) -> io::Result<()> {
        self.written().last().map_or(Ok(()), |journal| truncate_copy(&journal.path, journal.end))
    }

    /// Replaces the journal that was being written by a copy: a thread that still has the former file open does not
    /// write to this one.
    pub(crate) fn detach_newest(&self) -> io::Result<()> {
        self.files.last().map_or(Ok(()), |journal| truncate_copy(&journal.path, journal.end))
    }

    /// Cuts off the torn end of the newest journal, and returns the file with the bytes that were cut off.
    pub(crate) fn cut_torn(&self, kept: &Path) -> io::Result<Option<PathBuf>> {
        match self.written().last() {
            Some(journal) if matches!(journal.tail, JournalTail::Torn { .. }) => {
                cut(&journal.path, journal.end, kept).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Cuts off everything from the first damage on: the store is then as it was before the damaged commit. Returns the
    /// files with the bytes that were cut off.
    pub(crate) fn cut_damaged(&self, kept: &Path) -> io::Result<Vec<PathBuf>> {
        let intact = self.files.iter().take_while(|journal| journal.tail == JournalTail::Empty).count();
        let mut files = Vec::new();
        for (at, journal) in self.files.iter().enumerate().skip(intact) {
            // Journals after the damaged one are cut off completely.
            files.push(cut(&journal.path, if at == intact { journal.end } else { 0 }, kept)?);
            if at > intact {
                fs::remove_file(&journal.path)?;
            }
        }
        Ok(files)
    }
}

/// Cuts off commits that were never acknowledged. A commit whose sync failed would otherwise count as written, although
/// it may never have reached the disk.
pub(crate) fn cut_after(directory: &Path, key: &CommitKey, acknowledged: u64, kept: &Path) -> io::Result<()> {
    for (_, path) in paths(directory)? {
        let mut input = Input::open(&path)?;
        let mut end = 0;
        while let Some(batch) = batch::read(&mut input, Some(key))? {
            if matches!(batch.commit, BatchCommit::Valid(commit) if commit.number > acknowledged) {
                cut(&path, end, kept)?;
                break;
            }
            end = input.offset;
        }
    }
    Ok(())
}

/// Leaves one empty journal in a directory that is not open. Without any journal, fjall would restart its sequence
/// numbers at zero and show none of the data.
pub(crate) fn empty(directory: &Path) -> io::Result<()> {
    let mut paths = paths(directory)?;
    let newest = paths.pop();
    // The oldest first: what is left at any moment continues the sorted files.
    for (_, path) in paths {
        fs::remove_file(path)?;
    }
    match newest {
        Some((_, newest)) => truncate_copy(&newest, 0)?,
        None => private_file().create_new(true).open(directory.join("0.jnl"))?.sync_all()?,
    }
    sync_folder(directory)
}

/// Cuts a file, after the bytes that are cut off have been synced to a file in the folder `kept`.
fn cut(path: &Path, end: u64, kept: &Path) -> io::Result<PathBuf> {
    private_folder().recursive(true).create(kept)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (copy, mut out) = (0..)
        .find_map(|nth: u32| {
            let copy = kept.join(format!("{name}-{end}-{nth}"));
            match private_file().create_new(true).open(&copy) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                created => Some(created.map(|file| (copy, file))),
            }
        })
        .ok_or_else(|| io::Error::other("no name is free"))??;
    let mut input = File::open(path)?;
    input.seek(SeekFrom::Start(end))?;
    // Preallocated zeros are not kept.
    let length = data_end(path)?.saturating_sub(end);
    io::copy(&mut input.take(length), &mut out)?;
    out.sync_all()?;
    sync_folder(kept)?;
    truncate_copy(path, end)?;
    Ok(copy)
}

/// Replaces a file by a copy of its first bytes. A process that has the former file open does not write to the copy.
fn truncate_copy(path: &Path, end: u64) -> io::Result<()> {
    files::replace(path, |out| io::copy(&mut File::open(path)?.take(end), out).map(drop))
}
