//! What follows the last complete batch of a journal: nothing, a torn end, or damage.

use std::{
    fs::File,
    io::{self, Read, Seek as _, SeekFrom},
    path::Path,
};

use super::{
    JournalTail, MAX_STEP,
    batch::{self, Input, START},
};
use crate::{
    layout,
    storage::commit_tag::{Commit, CommitKey},
};

/// Reads the tail after `end`. `known`: the key of the commits, and the number of the last one before the tail.
pub(super) fn read(path: &Path, end: u64, known: Option<(&CommitKey, u64)>) -> io::Result<JournalTail> {
    let data_end = data_end(path)?;
    if data_end <= end {
        return Ok(JournalTail::Empty);
    }
    let mut tail = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(end))?;
    file.take(data_end - end).read_to_end(&mut tail)?;
    let next = match known {
        // The record of the very next commit may be the rest of a torn batch. A later one was written after that batch
        // had been synced.
        Some((key, last)) => find_later_commit(&tail, key, last),
        // Without numbers, any complete batch counts.
        None => find_batch(&tail)?,
    };
    Ok(match next {
        Some(at) => JournalTail::Damaged { next: end + at as u64 },
        None => JournalTail::Torn { bytes: data_end - end },
    })
}

/// The offset of a commit record with a number above `last + 1`.
fn find_later_commit(bytes: &[u8], key: &CommitKey, last: u64) -> Option<usize> {
    // The record directly follows its key, which is a zero byte.
    let offsets = bytes.iter().enumerate().filter(|(_, byte)| **byte == layout::COMMIT_KEY[0]).map(|(at, _)| at + 1);
    let is_later = |at: &usize| {
        let stored = bytes.get(*at..at + Commit::LENGTH)?;
        // Checked before the tag, which is expensive: most offsets are zeros among zeros.
        Commit::decode_unverified(stored)
            .filter(|commit| commit.number > last + 1 && commit.number - last < MAX_STEP)?;
        key.decode(stored)
    };
    offsets.into_iter().find(|at| is_later(at).is_some())
}

/// The offset of the first complete batch, which may start at any byte.
fn find_batch(bytes: &[u8]) -> io::Result<Option<usize>> {
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == START) {
        if batch::read(&mut Input::from_bytes(&bytes[at..]), None)?.is_some() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The offset after the last byte of a file that is not zero.
pub(super) fn data_end(path: &Path) -> io::Result<u64> {
    const BLOCK: u64 = 1024 * 1024;
    let mut file = File::open(path)?;
    let mut end = allocated_end(&file)?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        Read::by_ref(&mut file).take(end - start).read_to_end(&mut block)?;
        if let Some(last) = block.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The end of the allocated part of a file: a journal starts as a hole of 64 MiB, which need not be read.
#[cfg(target_os = "linux")]
fn allocated_end(file: &File) -> io::Result<u64> {
    use rustix::{fs, io::Errno};
    let length = file.metadata()?.len();
    let mut at = 0;
    loop {
        match fs::seek(file, fs::SeekFrom::Data(at)) {
            Ok(data) => at = fs::seek(file, fs::SeekFrom::Hole(data))?,
            // No data follows.
            Err(Errno::NXIO) => return Ok(at),
            // The file system does not support holes.
            Err(_) => return Ok(length),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn allocated_end(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}
