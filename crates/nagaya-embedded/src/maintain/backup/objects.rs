//! The objects beside a store: long notes and files.
//!
//! An object is written, whole and synced, before the item that names it, it is named by its content, and nothing removes or
//! changes it. So whoever takes the store's snapshot first and lists the objects then has every object that the snapshot names.
//!
//! The last part of an object's path is the BLAKE3 hash of its content, in hexadecimal digits: damage is noticed by it.

use std::{
    cmp::Ordering,
    fs::{self, File},
    io::{Read as _, Write},
    path::{Path, PathBuf},
    vec,
};

use nagaya_store::Error;

use super::{
    frame::{FrameWriter, Kind},
    record::{Object, encode},
};
use crate::maintain::{Finding, Progress};

/// Bytes of an object in one frame.
const PART: usize = 256 * 1024;

/// What has been written.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) names: CheckedNames,
}

/// Whether objects that pass by have the content that their names say.
#[derive(Debug, Default)]
pub(super) struct CheckedNames {
    open: Option<(Object, blake3::Hasher)>,
    left: u64,
    /// The paths of those that do not.
    pub(super) damaged: Vec<String>,
}

impl CheckedNames {
    /// The next object; its bytes follow.
    pub(super) fn begin(&mut self, object: Object) {
        self.left = object.size;
        self.open = Some((object, blake3::Hasher::new()));
        self.bytes(&[]);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let Some((_, hasher)) = &mut self.open else { return };
        hasher.update(bytes);
        self.left = self.left.saturating_sub(bytes.len() as u64);
        if self.left == 0
            && let Some((object, hasher)) = self.open.take()
            && !is_named_by(&object.path, &hasher)
        {
            self.damaged.push(object.path);
        }
    }
}

/// Names the objects below a directory whose content is not what was written.
pub fn verify_objects(root: &Path, progress: Progress<'_>) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for found in Walk::new(root)? {
        let (path, place) = found?;
        let mut hasher = blake3::Hasher::new();
        let hashed = File::open(&place).and_then(|file| hasher.update_reader(file).map(drop));
        hashed.map_err(|error| unreadable(&place, &error))?;
        if !is_named_by(&path, &hasher) {
            findings.push(Finding { table: OBJECTS.to_owned(), what: format!("`{path}` is not what was written") });
        }
        seen += 1;
        progress(seen);
    }
    Ok(findings)
}

/// What stands where a finding has its table.
const OBJECTS: &str = "objects";

/// Whether a path is that of this content, as far as it names one.
fn is_named_by(path: &str, content: &blake3::Hasher) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    blake3::Hash::from_hex(name).map_or(true, |hash| hash == content.finalize())
}

/// Writes every object below a directory; of those that a backup before has, only that they are there.
pub(super) fn copy<W: Write>(
    root: &Path,
    known: &mut dyn Iterator<Item = Result<Object, Error>>,
    frames: &mut FrameWriter<W>,
    progress: Progress<'_>,
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    let mut next = known.next().transpose()?;
    let mut part = vec![0; PART];
    for found in Walk::new(root)? {
        let (path, place) = found?;
        let mut file = File::open(&place).map_err(|error| unreadable(&place, &error))?;
        let size = file.metadata().map_err(|error| unreadable(&place, &error))?.len();
        // Both come in the same order: what is known is passed by until it is this one or a later one.
        while next.as_ref().is_some_and(|known| order(&known.path, &path) == Ordering::Less) {
            next = known.next().transpose()?;
        }
        let here = next.as_ref().is_none_or(|known| known.path != path || known.size != size);
        let object = Object { path, size, here };
        frames.put(Kind::Object, &[&encode(&object)?])?;
        if !here {
            continue;
        }
        copied.names.begin(object);
        let mut left = size;
        while left > 0 {
            let most = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = file.read(&mut part[..most]).map_err(|error| unreadable(&place, &error))?;
            if count == 0 {
                return Err(Error::engine(format!("{} became shorter while it was read", place.display())));
            }
            copied.names.bytes(&part[..count]);
            frames.put(Kind::ObjectPart, &[&part[..count]])?;
            left -= count as u64;
        }
        copied.objects += 1;
        copied.bytes += size;
        progress(copied.objects);
    }
    Ok(copied)
}

/// The order in which objects are written: by the parts of their paths.
pub(super) fn order(one: &str, other: &str) -> Ordering {
    one.split('/').cmp(other.split('/'))
}

/// Whether a path leads to a place below the directory of objects and nowhere else.
pub(super) fn is_inside(path: &str) -> bool {
    let fine = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0']);
    path.split('/').all(fine)
}

/// All files below a directory, in order. Only the names of the folders on the way are held in memory.
pub(in crate::maintain) struct Walk {
    /// What the paths inside begin with, and what is left of each folder.
    folders: Vec<(String, vec::IntoIter<Entry>)>,
}

/// A name, where it is, and whether it is a folder.
type Entry = (String, PathBuf, bool);

impl Walk {
    pub(in crate::maintain) fn new(root: &Path) -> Result<Self, Error> {
        // A directory comes with its first object.
        let folders = if root.is_dir() { vec![(String::new(), entries(root)?)] } else { Vec::new() };
        Ok(Walk { folders })
    }
}

impl Iterator for Walk {
    type Item = Result<(String, PathBuf), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (prefix, entries_left) = self.folders.last_mut()?;
            let Some((name, place, is_folder)) = entries_left.next() else {
                self.folders.pop();
                continue;
            };
            let path = format!("{prefix}{name}");
            if !is_folder {
                return Some(Ok((path, place)));
            }
            match entries(&place) {
                Ok(inside) => self.folders.push((format!("{path}/"), inside)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn entries(folder: &Path) -> Result<vec::IntoIter<Entry>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let place = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(Error::engine(format!("{} is not an object: its name is not text", place.display())));
        };
        // The object storage writes under `NAME#NUMBER` first, and no object has such a name: this one is not whole yet, and
        // nothing names it.
        if name.rsplit_once('#').is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit())) {
            continue;
        }
        let kind = entry.file_type().map_err(|error| unreadable(&place, &error))?;
        if !kind.is_dir() && !kind.is_file() {
            let place = place.display();
            return Err(Error::engine(format!("{place} is neither a file nor a folder; take it out of the objects")));
        }
        found.push((name, place, kind.is_dir()));
    }
    found.sort();
    Ok(found.into_iter())
}

fn unreadable(place: &Path, error: &std::io::Error) -> Error {
    Error::engine(format!("{} cannot be read: {error}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_nowhere_else() {
        for path in ["a", "a/b", "..a/b..", "a b", "長屋/ノート"] {
            assert!(is_inside(path), "{path}");
        }
        for path in ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "c:a", "a\0"] {
            assert!(!is_inside(path), "{path:?}");
        }
    }
}
