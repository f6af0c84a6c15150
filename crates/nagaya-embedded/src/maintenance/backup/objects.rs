//! The objects of a data directory: long notes and files.
//!
//! An object is written and synced before the item that refers to it, is named by its content, and is never changed. It is
//! deleted with its item, but not while a backup keeps the objects. So a backup that takes the snapshot of the store
//! first and lists the objects after that contains every object that the snapshot refers to.
//!
//! The last part of an object's path is the BLAKE3 hash of its content, in hexadecimal digits, which makes damage
//! detectable.

use std::{
    cmp::Ordering,
    fs::{self, File},
    io::{self, Cursor, Read, Seek as _, Write},
    path::{Path, PathBuf},
    vec,
};

use nagaya_store::{
    Error,
    files::{FileCipher as _, is_temporary},
};

use super::{
    frame::{FrameKind, FrameWriter},
    record::Object,
};
use crate::{
    encryption::Keyring,
    files::IoContext as _,
    maintenance::{Finding, Progress},
    record::encode,
};

/// Bytes that tell whether an object is encrypted.
const HEAD_BYTES: u64 = 16;
/// The maximum number of bytes of an object in one frame.
const PART_BYTES: usize = 256 * 1024;

/// The objects that have been copied to a backup.
#[derive(Debug, Default)]
pub(super) struct CopiedObjects {
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) names: ObjectNameCheck,
}

/// Checks that objects have the content that their names say, while they are read.
#[derive(Debug, Default)]
pub(super) struct ObjectNameCheck {
    open: Option<(Object, blake3::Hasher)>,
    /// The number of bytes of the object that are still missing.
    left: u64,
    /// The paths of damaged objects.
    pub(super) damaged: Vec<String>,
}

impl ObjectNameCheck {
    /// Starts with an object; its bytes follow.
    pub(super) fn start_object(&mut self, object: Object) {
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

/// Finds the damaged objects of a directory.
pub fn verify_objects(root: &Path, keyring: &Keyring, progress: Progress<'_>) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for found in ObjectWalk::new(root)? {
        let (path, file) = found?;
        let stored = match fs::read(&file) {
            // Its item has been deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stored => stored.context("read", &file)?,
        };
        let mut hasher = blake3::Hasher::new();
        let opened = keyring.open(&path, stored).map(|content| hasher.update(&content));
        if opened.is_err() || !is_named_by(&path, &hasher) {
            findings.push(Finding::one(OBJECTS, format!("`{path}` is not what was written")));
        }
        seen += 1;
        progress(seen);
    }
    Ok(findings)
}

/// The table name of findings about objects.
const OBJECTS: &str = "objects";

/// Whether a path matches the content; a path without a hash matches every content.
fn is_named_by(path: &str, content: &blake3::Hasher) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    blake3::Hash::from_hex(name).map_or(true, |hash| hash == content.finalize())
}

/// Writes all objects of a directory. Of objects that an earlier backup contains, only the names are written.
pub(super) fn copy<W: Write>(
    root: &Path,
    keyring: &Keyring,
    known: &mut dyn Iterator<Item = Result<Object, Error>>,
    frames: &mut FrameWriter<W>,
    progress: Progress<'_>,
) -> Result<CopiedObjects, Error> {
    let mut copied = CopiedObjects::default();
    let mut next = known.next().transpose()?;
    let mut part = vec![0; PART_BYTES];
    for found in ObjectWalk::new(root)? {
        let (path, source) = found?;
        let mut file = File::open(&source).context("read", &source)?;
        let mut head = Vec::new();
        Read::by_ref(&mut file).take(HEAD_BYTES).read_to_end(&mut head).context("read", &source)?;
        let size = keyring.content_length(file.metadata().context("read", &source)?.len(), &head);
        // Both are in the same order: known objects are skipped up to this one.
        while next.as_ref().is_some_and(|known| order(&known.path, &path) == Ordering::Less) {
            next = known.next().transpose()?;
        }
        let is_included = next.as_ref().is_none_or(|known| known.path != path || known.size != size);
        let mut object = Object { path, size, is_included };
        let mut content: Box<dyn Read> = match is_included && keyring.encryption_key().is_some() {
            true => {
                file.read_to_end(&mut head).context("read", &source)?;
                let opened = keyring.open(&object.path, head.clone());
                if opened.is_err() && keyring.lacks_key_of(&head) {
                    return Err(Error::engine("the key of the store was changed meanwhile; start the backup again"));
                }
                if opened.is_err() {
                    // As it is: an older backup may have it.
                    copied.names.damaged.push(object.path.clone());
                }
                let content = opened.unwrap_or(head);
                object.size = content.len() as u64;
                Box::new(Cursor::new(content))
            }
            false => {
                file.rewind().context("read", &source)?;
                Box::new(file)
            }
        };
        frames.put(FrameKind::Object, &[&encode(&object)?])?;
        if !is_included {
            continue;
        }
        let size = object.size;
        copied.names.start_object(object);
        let mut left = size;
        while left > 0 {
            let most = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = content.read(&mut part[..most]).context("read", &source)?;
            if count == 0 {
                return Err(Error::engine(format!("{} became shorter while it was read", source.display())));
            }
            copied.names.bytes(&part[..count]);
            frames.put(FrameKind::ObjectPart, &[&part[..count]])?;
            left -= count as u64;
        }
        copied.objects += 1;
        copied.bytes += size;
        progress(copied.objects);
    }
    copied.names.damaged.dedup();
    Ok(copied)
}

/// The order in which objects are written: by the parts of their paths.
pub(super) fn order(one: &str, other: &str) -> Ordering {
    one.split('/').cmp(other.split('/'))
}

/// Whether a path stays within the directory of objects.
pub(super) fn is_inside(path: &str) -> bool {
    let is_safe = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0']);
    path.split('/').all(is_safe)
}

/// Lists all files below a directory, in order, with little memory: only the names in the current folders are loaded.
pub(crate) struct ObjectWalk {
    /// The current folder and its parents: the prefix of the paths, and the remaining entries.
    folders: Vec<(String, vec::IntoIter<Entry>)>,
}

/// The name and the path of an entry, and whether it is a folder.
type Entry = (String, PathBuf, bool);

impl ObjectWalk {
    pub(crate) fn new(root: &Path) -> Result<Self, Error> {
        Ok(ObjectWalk { folders: vec![(String::new(), entries(root)?)] })
    }
}

impl Iterator for ObjectWalk {
    type Item = Result<(String, PathBuf), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (prefix, entries_left) = self.folders.last_mut()?;
            let Some((name, entry, is_folder)) = entries_left.next() else {
                self.folders.pop();
                continue;
            };
            let path = format!("{prefix}{name}");
            if !is_folder {
                return Some(Ok((path, entry)));
            }
            match entries(&entry) {
                Ok(inside) => self.folders.push((format!("{path}/"), inside)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn entries(folder: &Path) -> Result<vec::IntoIter<Entry>, Error> {
    let mut found = Vec::new();
    let listed = match fs::read_dir(folder) {
        // The directory is created with the first object, and a folder is deleted with the item of its objects.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new().into_iter()),
        listed => listed.context("read", folder)?,
    };
    for entry in listed {
        let entry = entry.context("read", folder)?;
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(Error::engine(format!("{} is not an object: its name is not UTF-8", path.display())));
        };
        // No object has such a name: this file is not complete yet, and no item refers to it. Earlier versions wrote to
        // `NAME#NUMBER` first.
        if is_temporary(&name) {
            continue;
        }
        if name.rsplit_once('#').is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit())) {
            continue;
        }
        let kind = entry.file_type().context("read", &path)?;
        if !kind.is_dir() && !kind.is_file() {
            let path = path.display();
            return Err(Error::engine(format!("{path} is neither a file nor a folder; remove it from the objects")));
        }
        found.push((name, path, kind.is_dir()));
    }
    found.sort();
    Ok(found.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_within_the_directory() {
        for path in ["a", "a/b", "..a/b..", "a b", "長屋/ノート"] {
            assert!(is_inside(path), "{path}");
        }
        for path in ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "c:a", "a\0"] {
            assert!(!is_inside(path), "{path:?}");
        }
    }
    fn name(content: &[u8]) -> String {
        blake3::hash(content).to_hex().to_string()
    }

    /// Writes objects.
    fn with_objects(root: &Path, objects: &[(&str, &[u8])]) {
        for (path, content) in objects {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("an object");
        }
    }

    fn walked(root: &Path) -> Result<Vec<String>, Error> {
        ObjectWalk::new(root)?.map(|found| Ok(found?.0)).collect()
    }

    fn findings(root: &Path, progress: Progress<'_>) -> Vec<String> {
        let found = verify_objects(root, &Keyring::default(), progress).expect("they can be read");
        found.into_iter().map(|finding| format!("{finding:?}")).collect()
    }

    #[test]
    fn a_walk_finds_all_objects_in_order_and_no_unfinished_ones() {
        let base = tempfile::tempdir().expect("a directory");
        let root = base.path().join("objects");
        assert_eq!(walked(&root).expect("there are none yet"), [] as [&str; 0]);
        let objects = ["notes/b/2", "notes/a/1", "notes/a#x", "notes-2", ".a.new"].map(|path| (path, &b"text"[..]));
        let unfinished = ["notes/a/.1.0123456789abcdef.new", "notes/a/1#7"].map(|path| (path, &b"te"[..]));
        with_objects(&root, &[&objects[..], &unfinished].concat());
        assert_eq!(
            walked(&root).expect("they are listed"),
            [".a.new", "notes/a/1", "notes/a#x", "notes/b/2", "notes-2"]
        );
        walked(&root.join("notes-2")).expect_err("a file in the place of the directory");

        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("notes/a/1", root.join("link")).expect("a link");
            let refused = walked(&root).expect_err("a link").to_string();
            assert!(refused.contains("is neither a file nor a folder"), "{refused}");
        }
    }

    #[test]
    fn a_damaged_object_is_found_and_one_that_was_deleted_meanwhile_is_none() {
        let base = tempfile::tempdir().expect("a directory");
        let root = base.path();
        let whole = vec![7; PART_BYTES + 1];
        let (good, other) = (name(&whole), name(b"other"));
        let paths = ["a/", "b/", "c/"].map(|folder| format!("{folder}{good}"));
        with_objects(root, &[(&paths[0], &whole), (&paths[1], &whole), ("c/free", b"any"), ("d", b"any")]);
        let mut seen = Vec::new();
        assert_eq!(findings(root, &mut |count| seen.push(count)), [] as [&str; 0]);
        assert_eq!(seen, [1, 2, 3, 4]);

        let damaged = format!("b/{other}");
        with_objects(root, &[(&paths[1], b"changed"), (&damaged, b"")]);
        let found = findings(root, &mut |_| {});
        assert_eq!(found.len(), 2, "{found:?}");
        assert!([&paths[1], &damaged].iter().all(|path| found.iter().any(|each| each.contains(*path))), "{found:?}");

        // The items of the others are deleted after the first object was read.
        let found = findings(root, &mut |_| {
            let _ = fs::remove_dir_all(root.join("b"));
            let _ = fs::remove_file(root.join("d"));
        });
        assert_eq!(found, [] as [&str; 0]);
    }

    /// The system refuses the path, but not the same one step by step.
    #[cfg(unix)]
    #[test]
    fn an_object_that_cannot_be_read_is_an_error_and_not_left_out() {
        use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
        for is_folder in [false, true] {
            let base = tempfile::tempdir().expect("a directory");
            let mut folder = base.path().to_path_buf();
            while folder.as_os_str().len() < 3_900 {
                folder.push("f".repeat(150));
            }
            fs::create_dir_all(&folder).expect("folders");
            let opened = open(&folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
            let long = "n".repeat(200);
            match is_folder {
                true => mkdirat(&opened, &long, Mode::RWXU).expect("a folder"),
                false => drop(openat(&opened, &long, OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).expect("a file")),
            }
            let failed = verify_objects(base.path(), &Keyring::default(), &mut |_| {}).expect_err("it cannot be read");
            assert!(failed.to_string().contains("file name too long"), "{failed}");
        }
    }

    fn copied(
        root: &Path,
        known: &[(&str, u64)],
        out: impl Write,
        progress: Progress<'_>,
    ) -> Result<CopiedObjects, Error> {
        let known =
            known.iter().map(|(path, size)| Object { path: (*path).to_owned(), size: *size, is_included: true });
        let mut frames = FrameWriter::new(out)?;
        copy(root, &Keyring::default(), &mut known.map(Ok), &mut frames, progress)
    }

    #[test]
    fn objects_are_copied_unless_an_earlier_backup_has_them_and_damaged_ones_are_named() -> Result<(), Error> {
        let base = tempfile::tempdir().expect("a directory");
        let root = base.path();
        let whole = vec![7; PART_BYTES + 1];
        let (good, empty) = (name(&whole), name(b""));
        let (bad, bad_empty) = (format!("b/{good}"), format!("c/{good}"));
        let paths = [format!("a/{good}"), format!("a/{empty}")];
        with_objects(root, &[(&paths[0], &whole), (&paths[1], b""), (&bad, b"changed"), (&bad_empty, b"")]);
        with_objects(root, &[("d/free", b"any"), ("e/free", b"any"), ("f/free", b"longer")]);
        let mut seen = Vec::new();
        let all = copied(root, &[], io::sink(), &mut |count| seen.push(count))?;
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((all.objects, all.bytes), (7, whole.len() as u64 + 7 + 3 + 3 + 6));
        assert_eq!(all.names.damaged, [bad.clone(), bad_empty.clone()]);

        // One is new and as long as the next known one, and one is longer than it was.
        let known = [("aa/gone", 3), (&bad, 7), (&bad_empty, 0), ("e/free", 3), ("f/free", 3)];
        let more = copied(root, &known, io::sink(), &mut |_| {})?;
        assert_eq!((more.objects, more.bytes), (4, whole.len() as u64 + 3 + 6));
        assert_eq!(more.names.damaged, [] as [&str; 0], "known ones are not read");
        Ok(())
    }

    /// An output that cuts a file as soon as it gets the name of it.
    struct Cutting(PathBuf);

    impl Write for Cutting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.windows(4).any(|part| part == b"free") {
                File::options().write(true).open(&self.0)?.set_len(PART_BYTES as u64)?;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_object_that_becomes_shorter_while_it_is_read_is_an_error() {
        let base = tempfile::tempdir().expect("a directory");
        with_objects(base.path(), &[("free", &vec![7; PART_BYTES + 1])]);
        let failed = copied(base.path(), &[], Cutting(base.path().join("free")), &mut |_| {}).expect_err("it is cut");
        assert!(failed.to_string().ends_with("became shorter while it was read"), "{failed}");
    }
}
