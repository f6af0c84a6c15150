//! The lists of sorted files, held against their checksums before fjall opens them.
//!
//! Each space has a list of the files that belong to it (`v7`) and a file that says which list counts, with its checksum
//! (`current`). fjall does not look at that checksum: a list that has rotted could lose files without a word.
//!
//! A list may also be newer than its checksum. When publishing one fails after `current` was replaced, fjall writes the next
//! list to the same file; when that fails too, the list is whole, and `current` has the checksum of the one before it. Such a
//! list is accepted if its files are exactly those that it describes.

use std::{fmt, fs, io, path::Path};

use nagaya_store::Error;
use xxhash_rust::xxh3::xxh3_128;

use crate::layout::Space;

/// A list that is missing, or not what was written.
#[derive(Debug)]
struct CorruptManifest(String);

impl fmt::Display for CorruptManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged: it is missing or not what was written. Nothing was changed; restore a backup", self.0)
    }
}

impl std::error::Error for CorruptManifest {}

/// Checks the lists of all spaces below a data directory.
pub(super) fn check(data: &Path) -> Result<(), Error> {
    let spaces = match fs::read_dir(data.join("keyspaces")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        spaces => spaces.map_err(Error::engine)?,
    };
    let rotten = |path: &Path| Error::engine(CorruptManifest(path.display().to_string()));
    let mut found = 0;
    for space in spaces {
        let space = space.map_err(Error::engine)?.path();
        if !space.is_dir() {
            continue;
        }
        found += 1;
        let current = space.join("current");
        // fjall would take a space without it for one that was being made, and empty it.
        let said = fs::read(&current).map_err(|_| rotten(&current))?;
        let (id, checksum) = read(&said).ok_or_else(|| rotten(&current))?;
        let list = space.join(format!("v{id}"));
        let bytes = fs::read(&list).map_err(|_| rotten(&list))?;
        if xxh3_128(&bytes) != checksum && !is_whole(&space, &list, &bytes) {
            return Err(rotten(&list));
        }
    }
    // fjall has a space of its own beside ours.
    if found <= Space::ALL.len() { Err(rotten(&data.join("keyspaces"))) } else { Ok(()) }
}

/// Which list counts, and its checksum.
fn read(said: &[u8]) -> Option<(u64, u128)> {
    let (id, rest) = said.split_first_chunk::<8>()?;
    let (checksum, kind) = rest.split_first_chunk::<16>()?;
    (kind == [0]).then(|| (u64::from_le_bytes(*id), u128::from_le_bytes(*checksum)))
}

/// Whether every byte of a list's table section is understood, and the files are those that it describes.
fn is_whole(space: &Path, list: &Path, bytes: &[u8]) -> bool {
    // This checks the names, places and lengths of the sections.
    let Ok(reader) = sfa::Reader::new(list) else { return false };
    let section = |name: &str| {
        let entry = reader.toc().section(name.as_bytes())?;
        let start = usize::try_from(entry.pos()).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(entry.len()).ok()?)?)
    };
    // fjall would look for blobs, which we do not use.
    let has_no_blobs = section("blob_files") == Some(&[0; 4]);
    has_no_blobs && section("tables").and_then(files).is_some_and(|files| files.iter().all(|file| file.is_in(space)))
}

/// A sorted file as a list describes it.
struct SortedFile {
    id: u64,
    checksum: u128,
}

impl SortedFile {
    fn is_in(&self, space: &Path) -> bool {
        let found = fs::read(space.join("tables").join(self.id.to_string()));
        found.is_ok_and(|bytes| xxh3_128(&bytes) == self.checksum)
    }
}

/// The files of a list, by level and run; nothing if it does not end where it should.
fn files(mut rest: &[u8]) -> Option<Vec<SortedFile>> {
    let mut files = Vec::new();
    for _level in 0..u8::from_le_bytes(take(&mut rest)?) {
        for _run in 0..u8::from_le_bytes(take(&mut rest)?) {
            for _file in 0..u32::from_le_bytes(take(&mut rest)?) {
                let id = u64::from_le_bytes(take(&mut rest)?);
                let [kind] = take(&mut rest)?;
                let checksum = u128::from_le_bytes(take(&mut rest)?);
                // Only files that were imported have another sequence number than 0.
                let sequence = u64::from_le_bytes(take(&mut rest)?);
                if (kind, sequence) != (0, 0) {
                    return None;
                }
                files.push(SortedFile { id, checksum });
            }
        }
    }
    rest.is_empty().then_some(files)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}
