//! Files that are encrypted while they are written: backups.
//!
//! The head is a magic number, the id of the encryption key and a random key for this file, encrypted with the encryption key.
//! Then come parts of 64 KiB, each with a tag. The nonce of a part is its number, and whether it is the last one: a part that
//! is missing, moved or repeated does not open, and neither does a file that was cut or extended.

use std::io::{self, BufRead, ErrorKind, Read, Seek, SeekFrom, Write};

use chacha20poly1305::{AeadInPlace as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};
use nagaya_store::Error;

use super::{key::EncryptionKey, state::KeyRefused};
use crate::bytes::{hex, random_bytes};

/// The first bytes of an encrypted file; the digit is the version of this format.
pub(crate) const ENCRYPTED_MAGIC: &[u8; 8] = b"NAGAYAE1";
/// Bytes of a part before it is encrypted.
const PART: usize = 64 * 1024;
const TAG: usize = 16;
/// Bytes of a part that is encrypted; the last one may have fewer.
const SEALED_PART: usize = PART + TAG;
/// Nonce, key and tag.
const WRAPPED: usize = 24 + 32 + TAG;
const HEAD: usize = ENCRYPTED_MAGIC.len() + EncryptionKey::ID_BYTES + WRAPPED;
const PURPOSE: &[u8] = b"nagaya file key";

/// The cipher of a file, and its head, which every part is bound to.
struct FileKey {
    cipher: XChaCha20Poly1305,
    head: [u8; HEAD],
}

impl FileKey {
    fn nonce(number: u64, is_last: bool) -> XNonce {
        let mut nonce = [0; 24];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce[8] = u8::from(is_last);
        nonce.into()
    }
}

/// Encrypts what is written to it. [`EncryptingWriter::finish`] writes the last part.
pub(crate) struct EncryptingWriter<W> {
    out: W,
    key: FileKey,
    number: u64,
    part: Vec<u8>,
}

impl<W: Write> EncryptingWriter<W> {
    pub(crate) fn new(mut out: W, encryption_key: &EncryptionKey) -> Result<Self, Error> {
        let key = random_bytes::<32>()?;
        let mut head = [0; HEAD];
        let content = [&ENCRYPTED_MAGIC[..], &encryption_key.id_bytes(), &encryption_key.wrap(PURPOSE, &key)?].concat();
        head.copy_from_slice(&content);
        out.write_all(&head).map_err(|error| Error::engine(format!("cannot write: {error}")))?;
        let key = FileKey { cipher: XChaCha20Poly1305::new(&key.into()), head };
        Ok(EncryptingWriter { out, key, number: 0, part: Vec::with_capacity(SEALED_PART) })
    }

    fn write_part(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = FileKey::nonce(self.number, is_last);
        let tag = self.key.cipher.encrypt_in_place_detached(&nonce, &self.key.head, &mut self.part);
        self.part.extend_from_slice(&tag.map_err(|_| io::Error::other("it cannot be encrypted"))?);
        self.out.write_all(&self.part)?;
        self.part.clear();
        self.number += 1;
        Ok(())
    }

    /// Writes the last part, and returns the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.write_part(true)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Write for EncryptingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A whole part waits until it is known not to be the last one.
        if self.part.len() == PART && !bytes.is_empty() {
            self.write_part(false)?;
        }
        let count = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Decrypts a file while it is read. What does not open is reported as [`ErrorKind::InvalidData`].
pub(crate) struct DecryptingReader<R> {
    input: R,
    key: FileKey,
    /// The number of the next part.
    number: u64,
    part: Vec<u8>,
    /// How many bytes of the part have been read.
    read: usize,
    is_last: bool,
}

impl<R: BufRead + Seek> DecryptingReader<R> {
    /// Reads from after the magic number.
    pub(crate) fn after_magic(mut input: R, encryption_key: Option<&EncryptionKey>) -> Result<Self, Error> {
        let mut head = [0; HEAD];
        head[..ENCRYPTED_MAGIC.len()].copy_from_slice(ENCRYPTED_MAGIC);
        let cut = |_| Error::engine("the file ends within its head");
        input.read_exact(&mut head[ENCRYPTED_MAGIC.len()..]).map_err(cut)?;
        let (id, wrapped) = head[ENCRYPTED_MAGIC.len()..].split_at(EncryptionKey::ID_BYTES);
        let encryption_key = encryption_key.ok_or_else(|| Error::engine(KeyRefused::Missing(hex(id))))?;
        if encryption_key.id_bytes() != id {
            return Err(Error::engine(KeyRefused::Other { expected: hex(id), given: encryption_key.id() }));
        }
        let damaged = || Error::engine("the key of the file is damaged");
        let key = encryption_key.unwrap(PURPOSE, wrapped).ok_or_else(damaged)?;
        let key = FileKey { cipher: XChaCha20Poly1305::new(&key.into()), head };
        Ok(DecryptingReader { input, key, number: 0, part: Vec::new(), read: 0, is_last: false })
    }

    /// Continues at an offset of the content.
    pub(crate) fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        let (number, within) = (offset / PART as u64, offset % PART as u64);
        self.input.seek(SeekFrom::Start(HEAD as u64 + number * SEALED_PART as u64))?;
        (self.number, self.is_last) = (number, false);
        self.next_part()?;
        self.read = usize::try_from(within).unwrap_or(usize::MAX).min(self.part.len());
        Ok(())
    }

    fn next_part(&mut self) -> io::Result<()> {
        self.part.clear();
        self.read = 0;
        self.input.by_ref().take(SEALED_PART as u64).read_to_end(&mut self.part)?;
        self.is_last = self.input.fill_buf()?.is_empty();
        let refused = || io::Error::new(ErrorKind::InvalidData, "a part was changed, moved or cut off");
        let length = self.part.len().checked_sub(TAG).ok_or_else(refused)?;
        let (content, tag) = self.part.split_at_mut(length);
        let tag = Tag::clone_from_slice(tag);
        let nonce = FileKey::nonce(self.number, self.is_last);
        let opened = self.key.cipher.decrypt_in_place_detached(&nonce, &self.key.head, content, &tag);
        opened.map_err(|_| refused())?;
        self.part.truncate(length);
        self.number += 1;
        Ok(())
    }
}

impl<R: BufRead + Seek> Read for DecryptingReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.read == self.part.len() {
            if self.is_last {
                return Ok(0);
            }
            self.next_part()?;
        }
        let count = bytes.len().min(self.part.len() - self.read);
        bytes[..count].copy_from_slice(&self.part[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn key(byte: u8) -> EncryptionKey {
        EncryptionKey::parse(&[byte; 32]).expect("a key")
    }

    fn encrypted(content: &[u8]) -> Vec<u8> {
        let mut writer = EncryptingWriter::new(Vec::new(), &key(1)).expect("random bytes");
        // In pieces that do not fit the parts.
        content.chunks(50_001).for_each(|piece| writer.write_all(piece).expect("a vector grows"));
        writer.finish().expect("a vector grows")
    }

    fn reader(file: &[u8], key: Option<&EncryptionKey>) -> Result<DecryptingReader<Cursor<Vec<u8>>>, Error> {
        let mut input = Cursor::new(file.to_vec());
        input.set_position(ENCRYPTED_MAGIC.len() as u64);
        DecryptingReader::after_magic(input, key)
    }

    fn decrypted(file: &[u8]) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        let mut reader = reader(file, Some(&key(1))).map_err(|error| error.to_string())?;
        reader.read_to_end(&mut content).map_err(|error| error.to_string())?;
        Ok(content)
    }

    #[test]
    fn every_length_is_read_back_from_any_offset() {
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 7] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let file = encrypted(&content);
            assert_eq!(decrypted(&file).as_ref(), Ok(&content), "{length}");
            for offset in [0, length / 2, length.saturating_sub(1)] {
                let mut reader = reader(&file, Some(&key(1))).expect("the head is fine");
                reader.seek_to(offset as u64).expect("the part opens");
                let mut rest = Vec::new();
                reader.read_to_end(&mut rest).expect("the rest opens");
                assert_eq!(rest, content[offset..], "{length} from {offset}");
            }
        }
    }

    #[test]
    fn a_part_that_was_changed_moved_or_cut_off_is_noticed() {
        let content = vec![7; 2 * PART + 100];
        let file = encrypted(&content);
        assert!(!file.windows(8).any(|part| part == [7; 8]));
        for at in (ENCRYPTED_MAGIC.len()..HEAD + 8).chain((HEAD..file.len()).step_by(9_973)) {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(decrypted(&changed).is_err(), "byte {at}");
        }
        for end in [HEAD, HEAD + SEALED_PART, HEAD + 2 * SEALED_PART, file.len() - 1] {
            assert!(decrypted(&file[..end]).is_err(), "cut at {end}");
        }
        assert!(decrypted(&[&file[..], &[0]].concat()).is_err(), "longer");
        let (first, second) = (HEAD..HEAD + SEALED_PART, HEAD + SEALED_PART..HEAD + 2 * SEALED_PART);
        let swapped = [&file[..HEAD], &file[second.clone()], &file[first], &file[second.end..]].concat();
        assert!(decrypted(&swapped).is_err(), "swapped");
    }

    #[test]
    fn the_key_is_asked_for_by_its_id() {
        let file = encrypted(b"text");
        let missing = reader(&file, None).err().expect("no key").to_string();
        assert!(missing.contains(&key(1).id()), "{missing}");
        let other = reader(&file, Some(&key(2))).err().expect("another key").to_string();
        assert!(other.contains(&key(1).id()) && other.contains(&key(2).id()), "{other}");
    }

    /// A disk that takes bytes into its buffer, and cannot write them.
    struct FullDisk;

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::other("the disk is full"))
        }
    }

    #[test]
    fn a_file_is_finished_only_when_its_output_has_written_everything() {
        let mut writer = EncryptingWriter::new(FullDisk, &key(1)).expect("random bytes");
        writer.write_all(b"text").expect("it is in a buffer");
        assert_eq!(writer.flush().expect_err("it fails").to_string(), "the disk is full");
        assert_eq!(writer.finish().err().expect("it fails").to_string(), "the disk is full");
    }
}
