//! The frames of a backup, which make every damage detectable.
//!
//! A file is a magic number and frames. A frame is the length of its content, the content (one byte for its kind, then
//! the body) and a digest of its position, length and content. The last frame contains a hash of all bytes before it.
//! So every changed byte, every missing, moved or duplicate frame, every truncation and every byte after the end is
//! detected.

use std::io::{self, ErrorKind, Read, Write};

use nagaya_store::Error;

use super::damage::BackupDamage;
use crate::files::describe;

/// The first bytes of a backup; the digits are the version of this format.
pub(super) const MAGIC: &[u8; 8] = b"NAGAYA02";

/// The maximum length of a frame's content: a change with two items of the maximum size fits. A larger length is
/// damage, and allocates no memory.
pub(super) const MAX_CONTENT: usize = 4 * 1024 * 1024;

/// Bytes of a digest.
const DIGEST: usize = 16;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    Header = 1,
    Snapshot = 2,
    Table = 3,
    Item = 4,
    Change = 5,
    StoreEnd = 6,
    Object = 7,
    ObjectPart = 8,
    Keys = 9,
    End = 10,
    /// Only in a stream: the sender failed.
    Failed = 11,
}

impl FrameKind {
    const ALL: [FrameKind; 11] = [
        FrameKind::Header,
        FrameKind::Snapshot,
        FrameKind::Table,
        FrameKind::Item,
        FrameKind::Change,
        FrameKind::StoreEnd,
        FrameKind::Object,
        FrameKind::ObjectPart,
        FrameKind::Keys,
        FrameKind::End,
        FrameKind::Failed,
    ];

    fn from_byte(byte: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Writes frames.
pub(super) struct FrameWriter<W> {
    out: W,
    position: u64,
    running: blake3::Hasher,
}

impl<W: Write> FrameWriter<W> {
    pub(super) fn new(mut out: W) -> Result<Self, Error> {
        let mut running = blake3::Hasher::new();
        out.write_all(MAGIC).map_err(write_error)?;
        running.update(MAGIC);
        Ok(FrameWriter { out, position: 0, running })
    }

    /// Writes a frame whose body is given in pieces.
    pub(super) fn put(&mut self, kind: FrameKind, pieces: &[&[u8]]) -> Result<(), Error> {
        let length = 1 + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let length = u32::try_from(length).ok().filter(|length| *length as usize <= MAX_CONTENT);
        let length = length.ok_or_else(|| Error::engine("a record is too large for a backup"))?.to_be_bytes();
        let mut digest = start_digest(self.position, length);
        let kind = [kind as u8];
        for piece in [kind.as_slice()].into_iter().chain(pieces.iter().copied()) {
            digest.update(piece);
        }
        let digest = digest.finalize();
        let whole = [length.as_slice(), &kind].into_iter().chain(pieces.iter().copied());
        for piece in whole.chain([&digest.as_bytes()[..DIGEST]]) {
            self.out.write_all(piece).map_err(write_error)?;
            self.running.update(piece);
        }
        self.position += 1;
        Ok(())
    }

    /// Writes the last frame; returns the hash of everything before it, and the output.
    pub(super) fn end(mut self) -> Result<([u8; 32], W), Error> {
        let hash = *self.running.finalize().as_bytes();
        self.put(FrameKind::End, &[&hash])?;
        self.out.flush().map_err(write_error)?;
        Ok((hash, self.out))
    }
}

/// A frame that matches its digest.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) body: Vec<u8>,
}

/// Reads frames and verifies them.
pub(super) struct FrameReader<R> {
    input: R,
    position: u64,
    offset: u64,
    /// `None` if reading started in the middle.
    running: Option<blake3::Hasher>,
}

impl<R: Read> FrameReader<R> {
    /// Reads from after the magic number.
    pub(super) fn after_magic(input: R) -> Self {
        let mut running = blake3::Hasher::new();
        running.update(MAGIC);
        FrameReader { input, position: 0, offset: MAGIC.len() as u64, running: Some(running) }
    }

    /// Continues at an offset from [`FrameReader::offset`], in a file that has been verified before.
    pub(super) fn resume(input: R, offset: FrameOffset) -> Self {
        FrameReader { input, position: offset.position, offset: offset.bytes, running: None }
    }

    /// Where the next frame starts.
    pub(super) fn offset(&self) -> FrameOffset {
        FrameOffset { position: self.position, bytes: self.offset }
    }

    /// The next frame. The last one is returned only if the hash of everything before it is right.
    pub(super) fn next(&mut self) -> Result<Frame, Error> {
        let expected = self.running.as_ref().map(|running| *running.finalize().as_bytes());
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let size = u32::from_be_bytes(length) as usize;
        if size == 0 || size > MAX_CONTENT {
            return Err(self.damaged("the length of a record is impossible"));
        }
        let mut content = vec![0; size];
        self.fill(&mut content)?;
        let mut digest = [0; DIGEST];
        self.fill(&mut digest)?;
        if start_digest(self.position, length).update(&content).finalize().as_bytes()[..DIGEST] != digest {
            return Err(self.damaged("a record has been changed"));
        }
        let Some(kind) = FrameKind::from_byte(content[0]) else {
            return Err(self.damaged("a record has a kind that this version does not know"));
        };
        content.remove(0);
        if let Some(running) = &mut self.running {
            running.update(&length).update(&[kind as u8]).update(&content).update(&digest);
        }
        if kind == FrameKind::End && expected.is_some_and(|expected| content != expected) {
            return Err(self.damaged("the records are not the ones that were written"));
        }
        self.position += 1;
        self.offset += (length.len() + size + DIGEST) as u64;
        Ok(Frame { kind, body: content })
    }

    pub(super) fn input(&self) -> &R {
        &self.input
    }

    /// Checks that no byte follows.
    pub(super) fn expect_end(&mut self) -> Result<(), Error> {
        match self.input.read(&mut [0]).map_err(read_error)? {
            0 => Ok(()),
            _ => Err(self.damaged("something follows the end")),
        }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> Error {
        BackupDamage::error(format!("{} (record {}, byte {})", what.into(), self.position, self.offset))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        match self.input.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(self.damaged("it ends too early")),
            // An encrypted file that does not decrypt.
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(self.damaged(error.to_string())),
            other => other.map_err(read_error),
        }
    }
}

/// Where a frame starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameOffset {
    /// The number of frames before it.
    position: u64,
    /// The number of bytes before it.
    pub(super) bytes: u64,
}

fn write_error(error: io::Error) -> Error {
    Error::engine(format!("cannot write the backup: {}", describe(&error)))
}

pub(super) fn read_error(error: io::Error) -> Error {
    Error::engine(format!("cannot read the backup: {}", describe(&error)))
}

fn start_digest(position: u64, length: [u8; 4]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&position.to_be_bytes()).update(&length);
    hasher
}
