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
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::Error;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::{
    files::{replace, sync_folder, sync_folders},
    unreadable,
};
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

/// The list of sorted files that counts in a space.
struct Manifest {
    id: u64,
    checksum: u128,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Manifest {
    fn read(space: &Path) -> Result<Self, Error> {
        let current = space.join("current");
        // fjall would take a space without it for one that was being made, and empty it.
        let (id, checksum) = parse(&read(&current)?).ok_or_else(|| damaged(&current, "it is not what was written"))?;
        let path = space.join(format!("v{id}"));
        let bytes = read(&path)?;
        Ok(Manifest { id, checksum, path, bytes })
    }

    /// Whether `current` knows it.
    fn is_published(&self) -> bool {
        xxh3_128(&self.bytes) == self.checksum
    }

    /// The files that it describes, if every byte that matters is understood.
    fn files(&self) -> Option<Vec<SortedFile>> {
        // This checks the names, places and lengths of the sections.
        let reader = sfa::Reader::from_reader(&mut io::Cursor::new(&self.bytes)).ok()?;
        let section = |name: &str| {
            let entry = reader.toc().section(name.as_bytes())?;
            let start = usize::try_from(entry.pos()).ok()?;
            self.bytes.get(start..start.checked_add(usize::try_from(entry.len()).ok()?)?)
        };
        let fixed = FIXED.iter().all(|(name, bytes)| section(name) == Some(*bytes));
        section("tables").filter(|_| fixed).and_then(files)
    }

    /// Writes the list and its checksum as fjall does. What is there may never have reached the disk.
    fn publish(&self, space: &Path) -> io::Result<()> {
        sync_folders(space)?;
        replace(&self.path, |file| file.write_all(&self.bytes))?;
        let current = [&self.id.to_le_bytes()[..], &xxh3_128(&self.bytes).to_le_bytes(), &[XXH3]].concat();
        replace(&space.join("current"), |file| file.write_all(&current))
    }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::engine(CorruptManifest { path: path.to_path_buf(), what: what.to_owned() })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged(path, "it is missing"),
        _ => unreadable(path, &error),
    })
}

/// The folders of the spaces below a data directory.
fn spaces(data: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = data.join("keyspaces");
    let spaces = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        spaces => spaces.and_then(|spaces| {
            let paths = spaces.map(|space| space.map(|space| space.path())).collect::<io::Result<Vec<_>>>()?;
            Ok(paths.into_iter().filter(|path| path.is_dir()).collect::<Vec<_>>())
        }),
    };
    let spaces = spaces.map_err(|error| unreadable(&folder, &error))?;
    // fjall has a space of its own beside ours.
    if spaces.len() <= Space::ALL.len() { Err(damaged(&folder, "folders are missing")) } else { Ok(spaces) }
}

/// Checks the lists of all spaces below a data directory.
pub(super) fn check(data: &Path) -> Result<(), Error> {
    for space in spaces(data)? {
        // fjall removes lists that do not count any more. Which one counts has to survive a power cut before that.
        sync_folder(&space).map_err(|error| unreadable(&space, &error))?;
        let manifest = Manifest::read(&space)?;
        if !manifest.is_published() {
            let list = manifest.path.display();
            if !manifest
                .files()
                .is_some_and(|files| files.iter().all(|file| file.imported_at == 0 && file.is_in(&space)))
            {
                return Err(damaged(&manifest.path, "it is not what was written"));
            }
            tracing::warn!(%list, "a list of files could not be published before; it is whole");
            manifest.publish(&space).map_err(Error::engine)?;
        }
    }
    Ok(())
}

/// Sorted files that are missing or not what was written. The store may be in use.
pub(super) fn damaged_files(data: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for space in spaces(data)? {
        loop {
            let before = read(&space.join("current"))?;
            let damaged = damaged_in(&space);
            // What was replaced meanwhile is gone, list and files.
            let is_fine = matches!(&damaged, Ok(damaged) if damaged.is_empty());
            if is_fine || read(&space.join("current"))? == before {
                found.extend(damaged?);
                break;
            }
        }
    }
    Ok(found)
}

fn damaged_in(space: &Path) -> Result<Vec<PathBuf>, Error> {
    let manifest = Manifest::read(space)?;
    let files = manifest.files().ok_or_else(|| damaged(&manifest.path, "it is not what was written"))?;
    Ok(files.iter().filter(|file| !file.is_in(space)).map(|file| file.path(space)).collect())
}

/// Which list counts, and its checksum.
fn parse(said: &[u8]) -> Option<(u64, u128)> {
    let (id, rest) = said.split_first_chunk::<8>()?;
    let (checksum, kind) = rest.split_first_chunk::<16>()?;
    (kind == [XXH3]).then(|| (u64::from_le_bytes(*id), u128::from_le_bytes(*checksum)))
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

/// A sorted file as a list describes it.
struct SortedFile {
    id: u64,
    checksum: u128,
    /// The sequence number of all its entries, if it was imported; 0 in all files but those of fjall's own space.
    imported_at: u64,
}

impl SortedFile {
    fn path(&self, space: &Path) -> PathBuf {
        space.join("tables").join(self.id.to_string())
    }

    fn is_in(&self, space: &Path) -> bool {
        let mut hash = Xxh3::new();
        let hashed = File::open(self.path(space)).and_then(|mut file| {
            let mut part = vec![0; 256 * 1024];
            loop {
                match file.read(&mut part)? {
                    0 => return Ok(()),
                    count => hash.update(&part[..count]),
                }
            }
        });
        hashed.is_ok() && hash.digest128() == self.checksum
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
                let imported_at = u64::from_le_bytes(take(&mut rest)?);
                if kind != XXH3 {
                    return None;
                }
                files.push(SortedFile { id, checksum, imported_at });
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
