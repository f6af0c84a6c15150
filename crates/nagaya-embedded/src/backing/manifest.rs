//! The lists of sorted files, held against their checksums before fjall opens them.
//!
//! Each space has a list of the files that belong to it (`v7`) and a file that says which list counts, with its checksum
//! (`current`). fjall does not look at that checksum: a list that has rotted could lose files without a word.

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
        if xxh3_128(&fs::read(&list).map_err(|_| rotten(&list))?) != checksum {
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
