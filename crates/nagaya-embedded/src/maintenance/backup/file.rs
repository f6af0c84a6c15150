//! The file of a backup, which is encrypted or not.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
    path::Path,
};

use nagaya_store::Error;

use super::{
    damage::BackupDamage,
    format1,
    frame::{FrameOffset, MAGIC},
};
use crate::{
    encryption::{DecryptingReader, ENCRYPTED_MAGIC, EncryptingWriter, EncryptionKey},
    files::IoContext as _,
};

const BUFFER: usize = 256 * 1024;

/// A backup that is written.
pub(super) enum BackupOutput<'f> {
    Plain(BufWriter<&'f File>),
    Encrypted(Box<EncryptingWriter<BufWriter<&'f File>>>),
}

impl<'f> BackupOutput<'f> {
    pub(super) fn new(file: &'f File, key: Option<&EncryptionKey>) -> Result<Self, Error> {
        let out = BufWriter::with_capacity(BUFFER, file);
        match key {
            None => Ok(BackupOutput::Plain(out)),
            Some(key) => EncryptingWriter::new(out, key).map(|out| BackupOutput::Encrypted(Box::new(out))),
        }
    }

    /// Writes what is left in buffers.
    pub(super) fn finish(self, path: &Path) -> Result<(), Error> {
        let finished = match self {
            BackupOutput::Plain(mut out) => out.flush(),
            BackupOutput::Encrypted(out) => out.finish().map(drop),
        };
        finished.context("write", path)
    }
}

impl Write for BackupOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            BackupOutput::Plain(out) => out.write(bytes),
            BackupOutput::Encrypted(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            BackupOutput::Plain(out) => out.flush(),
            BackupOutput::Encrypted(out) => out.flush(),
        }
    }
}

/// A backup that is read.
pub(in crate::maintenance) enum BackupInput {
    Plain(BufReader<File>),
    Encrypted(Box<DecryptingReader<BufReader<File>>>),
}

/// The format of a backup, after its magic number.
pub(super) enum BackupFormat {
    Format1,
    Current,
}

impl BackupInput {
    /// Opens a backup, and reads its magic number.
    pub(super) fn open(path: &Path, key: Option<&EncryptionKey>) -> Result<(Self, BackupFormat), Error> {
        let mut input = BufReader::with_capacity(BUFFER, File::open(path).context("open", path)?);
        let mut magic = magic_of(&mut input).context("read", path)?;
        let mut input = match magic == ENCRYPTED_MAGIC {
            false => BackupInput::Plain(input),
            true => {
                let named = |error: Error| Error::engine(format!("{} cannot be read: {error}", path.display()));
                BackupInput::Encrypted(Box::new(DecryptingReader::after_magic(input, key).map_err(named)?))
            }
        };
        if let BackupInput::Encrypted(input) = &mut input {
            magic = magic_of(input).map_err(|error| BackupDamage::error(error.to_string()))?;
        }
        match magic.as_slice() {
            magic if magic == MAGIC => Ok((input, BackupFormat::Current)),
            magic if magic == format1::MAGIC => Ok((input, BackupFormat::Format1)),
            magic if magic.starts_with(b"NAGAYA") && magic.len() == MAGIC.len() => {
                Err(BackupDamage::error("this version does not know its format"))
            }
            _ => Err(BackupDamage::error("it is not a backup")),
        }
    }

    /// Continues at the offset of a frame.
    pub(super) fn seek_to(&mut self, offset: FrameOffset) -> io::Result<()> {
        match self {
            BackupInput::Plain(input) => input.seek(SeekFrom::Start(offset.bytes)).map(drop),
            BackupInput::Encrypted(input) => input.seek_to(offset.bytes),
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, BackupInput::Encrypted(_))
    }
}

fn magic_of(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::new();
    input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic)
}

impl Read for BackupInput {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            BackupInput::Plain(input) => input.read(bytes),
            BackupInput::Encrypted(input) => input.read(bytes),
        }
    }
}
