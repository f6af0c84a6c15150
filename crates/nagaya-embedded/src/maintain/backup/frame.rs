//! The frames of a backup: what shows that every byte is as it was written, and in its place.
//!
//! A file is a magic number and frames. A frame is the length of its content, the content (one byte that says what it is, then
//! the rest) and a digest of its position, length and content. The last frame holds a hash of every byte before it. So a byte
//! that changed, a frame that is missing, moved or there twice, and a file that was cut or has something behind its end are
//! all noticed.

use std::io::{ErrorKind, Read, Write};

use nagaya_store::Error;

use super::damage::Damage;

/// The first bytes of a backup; the digits are the version of this format.
pub(super) const MAGIC: &[u8; 8] = b"NAGAYA02";

/// The largest content of a frame: a change with both images of the largest item fits. A larger one is damage, and takes no
/// memory.
pub(super) const MAX_CONTENT: usize = 4 * 1024 * 1024;

/// Bytes of a digest.
const DIGEST: usize = 16;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
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
    /// In a stream only: whoever sends it could not go on.
    Failed = 11,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Header,
        Kind::Snapshot,
        Kind::Table,
        Kind::Item,
        Kind::Change,
        Kind::StoreEnd,
        Kind::Object,
        Kind::ObjectPart,
        Kind::Keys,
        Kind::End,
        Kind::Failed,
    ];

    fn of(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == byte)
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
        out.write_all(MAGIC).map_err(Error::engine)?;
        running.update(MAGIC);
        Ok(FrameWriter { out, position: 0, running })
    }

    /// Writes a frame whose content comes in pieces.
    pub(super) fn put(&mut self, kind: Kind, pieces: &[&[u8]]) -> Result<(), Error> {
        let length = 1 + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let length = u32::try_from(length).ok().filter(|length| *length as usize <= MAX_CONTENT);
        let length = length.ok_or_else(|| Error::engine("a record is larger than a backup can hold"))?.to_be_bytes();
        let mut digest = start_digest(self.position, length);
        let kind = [kind as u8];
        for piece in [kind.as_slice()].into_iter().chain(pieces.iter().copied()) {
            digest.update(piece);
        }
        let digest = digest.finalize();
        let whole = [length.as_slice(), &kind].into_iter().chain(pieces.iter().copied());
        for piece in whole.chain([&digest.as_bytes()[..DIGEST]]) {
            self.out.write_all(piece).map_err(Error::engine)?;
            self.running.update(piece);
        }
        self.position += 1;
        Ok(())
    }

    /// Writes the last frame; gives the hash of everything before it, and what was written to.
    pub(super) fn end(mut self) -> Result<([u8; 32], W), Error> {
        let hash = *self.running.finalize().as_bytes();
        self.put(Kind::End, &[&hash])?;
        self.out.flush().map_err(Error::engine)?;
        Ok((hash, self.out))
    }
}

/// A frame that has been read and agrees with its digest.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) body: Vec<u8>,
}

/// Reads frames, and refuses what is not as it was written.
pub(super) struct FrameReader<R> {
    input: R,
    position: u64,
    offset: u64,
    /// `None` where reading began in the middle.
    running: Option<blake3::Hasher>,
}

impl<R: Read> FrameReader<R> {
    /// Reads from behind the magic number.
    pub(super) fn after_magic(input: R) -> Self {
        let mut running = blake3::Hasher::new();
        running.update(MAGIC);
        FrameReader { input, position: 0, offset: MAGIC.len() as u64, running: Some(running) }
    }

    /// Reads on from a place that [`FrameReader::place`] has given, in a file that has been checked before.
    pub(super) fn resume(input: R, place: Place) -> Self {
        FrameReader { input, position: place.position, offset: place.offset, running: None }
    }

    /// Where the next frame begins.
    pub(super) fn place(&self) -> Place {
        Place { position: self.position, offset: self.offset }
    }

    /// The next frame. The last one is given only if the hash of everything before it is right.
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
            return Err(self.damaged("a record is not as it was written"));
        }
        let Some(kind) = Kind::of(content[0]) else {
            return Err(self.damaged("a record is of a kind that this version does not know"));
        };
        content.remove(0);
        if let Some(running) = &mut self.running {
            running.update(&length).update(&[kind as u8]).update(&content).update(&digest);
        }
        if kind == Kind::End && expected.is_some_and(|expected| content != expected) {
            return Err(self.damaged("the records are not those that were written"));
        }
        self.position += 1;
        self.offset += (length.len() + size + DIGEST) as u64;
        Ok(Frame { kind, body: content })
    }

    /// Makes sure that nothing follows.
    pub(super) fn nothing_follows(&mut self) -> Result<(), Error> {
        match self.input.read(&mut [0]).map_err(Error::engine)? {
            0 => Ok(()),
            _ => Err(self.damaged("something follows the end")),
        }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> Error {
        Damage::error(format!("{} (record {}, byte {})", what.into(), self.position, self.offset))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        match self.input.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(self.damaged("it ends too early")),
            other => other.map_err(Error::engine),
        }
    }
}

/// Where a frame begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    position: u64,
    pub(super) offset: u64,
}

fn start_digest(position: u64, length: [u8; 4]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&position.to_be_bytes()).update(&length);
    hasher
}
