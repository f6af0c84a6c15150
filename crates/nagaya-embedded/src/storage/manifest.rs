//! The manifests of fjall, checked before fjall opens them.
//!
//! Each keyspace has manifests that list its sorted files (`v7`), and a file that names the current manifest and its
//! checksum (`current`). fjall does not verify that checksum: a damaged manifest could lose files without an error.
//!
//! A manifest may also be newer than its checksum. If publishing one fails after `current` was replaced, fjall writes
//! the next manifest to the same file. If that fails too, the manifest is complete, but `current` has the checksum of
//! the one before it. Such a manifest is accepted if its files are exactly those that it lists, and then published.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nagaya_store::Error;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::{
    files::{IoContext as _, replace, sync_folder, sync_folders},
    layout::Keyspace,
};

/// The kind of checksum that fjall uses.
const XXH3: u8 = 0;

/// The current manifest of a keyspace.
struct Manifest {
    id: u64,
    checksum: u128,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Manifest {
    fn read(keyspace: &Path) -> Result<Self, Error> {
        let current = keyspace.join("current");
        // fjall would empty a keyspace without it, as if creating the keyspace had been interrupted.
        let (id, checksum) = parse(&read(&current)?).ok_or_else(|| damaged(&current, "its content has changed"))?;
        let path = keyspace.join(format!("v{id}"));
        let bytes = read(&path)?;
        Ok(Manifest { id, checksum, path, bytes })
    }

    /// Whether `current` has its checksum.
    fn is_published(&self) -> bool {
        xxh3_128(&self.bytes) == self.checksum
    }

    /// The files that it lists; `None` if a relevant byte is not understood.
    fn files(&self) -> Option<Vec<SortedFile>> {
        // This checks the names, offsets and lengths of the sections.
        let reader = sfa::Reader::from_reader(&mut io::Cursor::new(&self.bytes)).ok()?;
        let section = |name: &str| {
            let entry = reader.toc().section(name.as_bytes())?;
            let start = usize::try_from(entry.pos()).ok()?;
            self.bytes.get(start..start.checked_add(usize::try_from(entry.len()).ok()?)?)
        };
        let fixed = FIXED.iter().all(|(name, bytes)| section(name) == Some(*bytes));
        section("tables").filter(|_| fixed).and_then(files)
    }

    /// Writes the manifest and its checksum as fjall does: the existing files may never have reached the disk.
    fn publish(&self, keyspace: &Path) -> io::Result<()> {
        sync_folders(keyspace)?;
        replace(&self.path, |file| file.write_all(&self.bytes))?;
        let current = [&self.id.to_le_bytes()[..], &xxh3_128(&self.bytes).to_le_bytes(), &[XXH3]].concat();
        replace(&keyspace.join("current"), |file| file.write_all(&current))
    }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::engine(format!("{} is damaged: {what}. Nothing was changed; restore a backup", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(damaged(path, "it is missing")),
        read => read.context("read", path),
    }
}

/// The folders of the keyspaces.
fn keyspace_folders(data: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = data.join("keyspaces");
    let keyspaces = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        keyspaces => keyspaces.and_then(|keyspaces| {
            let paths =
                keyspaces.map(|keyspace| keyspace.map(|keyspace| keyspace.path())).collect::<io::Result<Vec<_>>>()?;
            Ok(paths.into_iter().filter(|path| path.is_dir()).collect::<Vec<_>>())
        }),
    };
    let keyspaces = keyspaces.context("read", &folder)?;
    // fjall has a keyspace of its own beside ours.
    if keyspaces.len() <= Keyspace::ALL.len() { Err(damaged(&folder, "folders are missing")) } else { Ok(keyspaces) }
}

/// Checks the manifests of all keyspaces.
pub(super) fn check(data: &Path) -> Result<(), Error> {
    for keyspace in keyspace_folders(data)? {
        // fjall removes old manifests. Which one is current must be durable before that.
        sync_folder(&keyspace).context("sync", &keyspace)?;
        let manifest = Manifest::read(&keyspace)?;
        if !manifest.is_published() {
            let path = manifest.path.display();
            if !manifest
                .files()
                .is_some_and(|files| files.iter().all(|file| file.imported_at == 0 && file.is_intact_in(&keyspace)))
            {
                return Err(damaged(&manifest.path, "its content has changed"));
            }
            tracing::warn!(%path, "a manifest was not published before a fault; it is complete and is published now");
            manifest.publish(&keyspace).context("publish", &manifest.path)?;
        }
    }
    Ok(())
}

/// Sorted files that are missing or damaged. The store may be in use.
pub(super) fn damaged_files(data: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for keyspace in keyspace_folders(data)? {
        loop {
            let before = read(&keyspace.join("current"))?;
            let damaged = damaged_in(&keyspace);
            // A compaction may have replaced the manifest and its files meanwhile: try again.
            let is_fine = matches!(&damaged, Ok(damaged) if damaged.is_empty());
            if is_fine || read(&keyspace.join("current"))? == before {
                found.extend(damaged?);
                break;
            }
        }
    }
    Ok(found)
}

fn damaged_in(keyspace: &Path) -> Result<Vec<PathBuf>, Error> {
    let manifest = Manifest::read(keyspace)?;
    let files = manifest.files().ok_or_else(|| damaged(&manifest.path, "its content has changed"))?;
    Ok(files.iter().filter(|file| !file.is_intact_in(keyspace)).map(|file| file.path(keyspace)).collect())
}

/// The number of the current manifest, and its checksum.
fn parse(current: &[u8]) -> Option<(u64, u128)> {
    let (id, rest) = current.split_first_chunk::<8>()?;
    let (checksum, kind) = rest.split_first_chunk::<16>()?;
    (kind == [XXH3]).then(|| (u64::from_le_bytes(*id), u128::from_le_bytes(*checksum)))
}

/// The sections that are the same in all manifests: fjall panics when some of them have another content.
const FIXED: [(&str, &[u8]); 6] = [
    ("format_version", &[3]),
    ("tree_type", &[0]),
    ("level_count", &[7]),
    ("filter_hash_type", &[XXH3]),
    ("blob_files", &[0; 4]),
    ("blob_gc_stats", &[0; 4]),
];

/// A sorted file as a manifest describes it.
struct SortedFile {
    id: u64,
    checksum: u128,
    /// The sequence number of all its entries, if it was imported; 0 in all files except those of fjall's own keyspace.
    imported_at: u64,
}

impl SortedFile {
    fn path(&self, keyspace: &Path) -> PathBuf {
        keyspace.join("tables").join(self.id.to_string())
    }

    fn is_intact_in(&self, keyspace: &Path) -> bool {
        let mut hash = Xxh3::new();
        let hashed = File::open(self.path(keyspace)).and_then(|mut file| {
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

/// The files of a manifest, by level and run; `None` if the section has another length.
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
