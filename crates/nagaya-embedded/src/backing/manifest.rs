//! The lists of sorted files, held against their checksums before fjall opens them.
//!
//! Each space has a list of the files that belong to it (`v7`) and a file that says which list counts, with its checksum
//! (`current`). fjall does not look at that checksum: a list that has rotted could lose files without a word.
//!
//! A list may also be newer than its checksum. When publishing one fails after `current` was replaced, fjall writes the next
//! list to the same file; when that fails too, the list is whole, and `current` has the checksum of the one before it. Such a
//! list is accepted if its files are exactly those that it describes, and then published.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::Error;
use xxhash_rust::xxh3::xxh3_128;

use super::disk::{sync_folder, sync_folders};
use crate::layout::Space;

/// The kind of checksum that fjall uses.
const XXH3: u8 = 0;

/// A list that is missing, or not what was written.
#[derive(Debug)]
struct CorruptManifest {
    path: PathBuf,
    what: String,
}

impl fmt::Display for CorruptManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CorruptManifest { path, what } = self;
        write!(f, "{} is damaged: {what}. Nothing was changed; restore a backup", path.display())
    }
}

impl std::error::Error for CorruptManifest {}

/// Checks the lists of all spaces below a data directory.
pub(super) fn check(data: &Path) -> Result<(), Error> {
    let spaces = match fs::read_dir(data.join("keyspaces")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        spaces => spaces.map_err(Error::engine)?,
    };
    let rotten =
        |path: &Path, what: &str| Error::engine(CorruptManifest { path: path.to_path_buf(), what: what.to_owned() });
    let read = |path: &Path| fs::read(path).map_err(|error| rotten(path, &format!("it cannot be read ({error})")));
    let mut found = 0;
    for space in spaces {
        let space = space.map_err(Error::engine)?.path();
        if !space.is_dir() {
            continue;
        }
        found += 1;
        // fjall removes lists that do not count any more. Which one counts has to survive a power cut before that.
        sync_folder(&space).map_err(Error::engine)?;
        let current = space.join("current");
        // fjall would take a space without it for one that was being made, and empty it.
        let (id, checksum) = parse(&read(&current)?).ok_or_else(|| rotten(&current, "it is not what was written"))?;
        let list = space.join(format!("v{id}"));
        let bytes = read(&list)?;
        if xxh3_128(&bytes) != checksum {
            if !is_whole(&space, &list, &bytes) {
                return Err(rotten(&list, "it is not what was written"));
            }
            tracing::warn!(list = %list.display(), "a list of files could not be published before; it is whole");
            publish(&space, id, &bytes).map_err(Error::engine)?;
        }
    }
    // fjall has a space of its own beside ours.
    if found <= Space::ALL.len() { Err(rotten(&data.join("keyspaces"), "folders are missing")) } else { Ok(()) }
}

/// Which list counts, and its checksum.
fn parse(said: &[u8]) -> Option<(u64, u128)> {
    let (id, rest) = said.split_first_chunk::<8>()?;
    let (checksum, kind) = rest.split_first_chunk::<16>()?;
    (kind == [XXH3]).then(|| (u64::from_le_bytes(*id), u128::from_le_bytes(*checksum)))
}

/// Writes a list and its checksum as fjall does. What is there may never have reached the disk.
fn publish(space: &Path, id: u64, list: &[u8]) -> io::Result<()> {
    sync_folders(space)?;
    replace(&space.join(format!("v{id}")), list)?;
    let current = [&id.to_le_bytes()[..], &xxh3_128(list).to_le_bytes(), &[XXH3]].concat();
    replace(&space.join("current"), &current)
}

/// Puts a file with these bytes in the place of a file.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// The sections that are the same in all lists of ours: fjall panics when it finds something else in some of them.
const FIXED: [(&str, &[u8]); 6] = [
    ("format_version", &[3]),
    ("tree_type", &[0]),
    ("level_count", &[7]),
    ("filter_hash_type", &[XXH3]),
    ("blob_files", &[0; 4]),
    ("blob_gc_stats", &[0; 4]),
];

/// Whether every byte of a list that matters is understood, and the files are those that it describes.
fn is_whole(space: &Path, list: &Path, bytes: &[u8]) -> bool {
    // This checks the names, places and lengths of the sections.
    let Ok(reader) = sfa::Reader::new(list) else { return false };
    let section = |name: &str| {
        let entry = reader.toc().section(name.as_bytes())?;
        let start = usize::try_from(entry.pos()).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(entry.len()).ok()?)?)
    };
    let fixed = FIXED.iter().all(|(name, bytes)| section(name) == Some(*bytes));
    fixed && section("tables").and_then(files).is_some_and(|files| files.iter().all(|file| file.is_in(space)))
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
