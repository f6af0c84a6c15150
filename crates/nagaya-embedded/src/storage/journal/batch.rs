//! The batches of a journal, in the format of fjall.
//!
//! A batch is a start (1, count, sequence number), items (2, …) or clears (4, …), and an end (3, checksum, magic). The
//! checksum covers the items only.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use xxhash_rust::xxh3::Xxh3;

use crate::{
    layout,
    storage::commit_tag::{Commit, CommitKey},
};

pub(super) const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8] = b"FJL\x03";

/// What matters of a batch here.
pub(super) struct Batch {
    pub(super) sequence: u64,
    pub(super) commit: BatchCommit,
}

/// The commit record of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchCommit {
    /// The batch was written by a version that did not number commits.
    Missing,
    Valid(Commit),
    /// The record has no tag of this directory's key.
    Invalid,
}

/// Bytes, with the number of bytes read so far.
pub(super) struct Input<R> {
    inner: R,
    pub(super) offset: u64,
    length: u64,
}

impl Input<BufReader<File>> {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Input { inner: BufReader::with_capacity(256 * 1024, file), offset: 0, length })
    }
}

impl<'b> Input<&'b [u8]> {
    pub(super) fn from_bytes(bytes: &'b [u8]) -> Self {
        Input { inner: bytes, offset: 0, length: bytes.len() as u64 }
    }
}

impl<R: Read> Input<R> {
    /// The next bytes; `None` at the end of the input.
    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        Ok(self.fill(&mut bytes)?.then_some(bytes))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {
                self.offset += bytes.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Reads the next batch; `None` if it is not complete. Without a key, tags are not checked.
pub(super) fn read(input: &mut Input<impl Read>, key: Option<&CommitKey>) -> io::Result<Option<Batch>> {
    let Some([START]) = input.take()? else { return Ok(None) };
    let (Some(count), Some(sequence)) = (input.take()?, input.take()?) else { return Ok(None) };
    let mut batch = Batch { sequence: u64::from_le_bytes(sequence), commit: BatchCommit::Missing };
    let mut hash = Xxh3::new();
    let mut buffer = Vec::new();
    for _ in 0..u32::from_le_bytes(count) {
        match input.take()? {
            Some([ITEM]) => {
                let Some(record) = read_item(input, &mut hash, &mut buffer)? else { return Ok(None) };
                if let Some(stored) = record {
                    let commit = key.map_or_else(|| Commit::decode_unverified(stored), |key| key.decode(stored));
                    batch.commit = commit.map_or(BatchCommit::Invalid, BatchCommit::Valid);
                }
            }
            Some([CLEAR]) => {
                let Some(keyspace) = input.take::<8>()? else { return Ok(None) };
                hash.update(&[CLEAR]);
                hash.update(&keyspace);
            }
            _ => return Ok(None),
        }
    }
    let (Some([END]), Some(checksum), Some(magic)) = (input.take()?, input.take()?, input.take()?) else {
        return Ok(None);
    };
    let magic: [u8; MAGIC.len()] = magic;
    Ok((magic == *MAGIC && u64::from_le_bytes(checksum) == hash.digest()).then_some(batch))
}

/// Reads the rest of an item; `None` if it is not complete. The inner value is the commit record, if the item is one.
fn read_item<'b>(
    input: &mut Input<impl Read>,
    hash: &mut Xxh3,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Option<Option<&'b [u8]>>> {
    // Kind, compression, keyspace, and the lengths of the key, the value, and the value as written.
    let Some(head) = input.take::<20>()? else { return Ok(None) };
    let key_length = usize::from(u16::from_le_bytes([head[10], head[11]]));
    let value_length = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
    // A damaged length must not allocate memory.
    if (key_length + value_length) as u64 > input.length.saturating_sub(input.offset) {
        return Ok(None);
    }
    buffer.resize(key_length + value_length, 0);
    if !input.fill(buffer)? {
        return Ok(None);
    }
    hash.update(&[ITEM]);
    hash.update(&head);
    hash.update(buffer);
    let (key, value) = buffer.split_at(key_length);
    Ok(Some((key == layout::COMMIT_KEY).then_some(value)))
}
