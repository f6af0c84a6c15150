//! Files and folders that only their owner can use.
//!
//! The mode of a new file or folder is given when it is created, so the umask can only remove permissions from it. A link
//! in the place of a file is never followed.

use std::{
    fmt,
    fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError},
    hash::{BuildHasher as _, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::Error;

/// Options that create files which only their owner can read. A link in the place of the file is an error.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options
}

/// What is at a path, and not what a link there leads to: the system itself follows a link whose path ends with a separator.
pub fn link_metadata(path: &Path) -> io::Result<Metadata> {
    path.components().collect::<PathBuf>().symlink_metadata()
}

/// Creates folders that only their owner can enter.
pub fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Makes the names in a folder durable.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes the names in a folder durable.
#[cfg(not(unix))]
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The folder of a path; the current one if the path has only a name.
pub fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Locks the objects below a directory together with others who rely on them: none is deleted as long as the result lives.
/// Waits for a deletion that has begun.
pub fn lock_objects_shared(objects: &Path) -> io::Result<File> {
    let file = object_lock(objects)?;
    file.lock_shared()?;
    Ok(file)
}

/// The same without waiting; `None` while objects are being deleted.
pub fn try_lock_objects_shared(objects: &Path) -> io::Result<Option<File>> {
    let file = object_lock(objects)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks the objects below a directory to delete some. Waits for other deletions in this process; `None` while somebody
/// [relies](lock_objects_shared) on the objects, or another process deletes some.
pub fn try_lock_objects_exclusive(objects: &Path) -> io::Result<Option<ExclusiveObjectLock>> {
    // A lock of a file excludes the other locks of its own process too.
    static DELETIONS: Mutex<()> = Mutex::new(());
    let turn = DELETIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let file = object_lock(objects)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(ExclusiveObjectLock { _file: file, _turn: turn })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// An exclusive lock of the objects below a directory, until it is dropped.
#[derive(Debug)]
pub struct ExclusiveObjectLock {
    /// Unlocked first, so that whoever waits for their turn finds it unlocked.
    _file: File,
    _turn: MutexGuard<'static, ()>,
}

/// The file beside the directory that those lock who delete objects or rely on them.
fn object_lock(objects: &Path) -> io::Result<File> {
    private_file().create(true).truncate(false).open(objects.with_extension("lock"))
}

/// How the names of files end that [`replace_file`] has not finished.
const UNFINISHED: &str = ".new";

/// Replaces a file atomically and durably. Only its owner can read the new one.
///
/// It is written under a random name in the same folder, and then renamed: a reader sees the former content or the new
/// one, and a link in the place of the file is replaced, not followed.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = temporary_path(path);
    let mut file = private_file().create_new(true).open(&new)?;
    let replaced = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if let Err(error) = replaced {
        // The error of the replacement says more than the one of this.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    sync_folder(parent_folder(path))
}

/// A name beside a path that nobody can guess: `.NAME.RANDOM.new`.
pub fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{:016x}{UNFINISHED}", unpredictable_number()))
}

/// Whether a name is one of [`temporary_path`]. If no process writes to its folder, the file is left of one that was killed.
pub fn is_temporary(name: &str) -> bool {
    let digits =
        name.strip_prefix('.').and_then(|name| name.strip_suffix(UNFINISHED)).and_then(|name| name.rsplit_once('.'));
    digits.is_some_and(|(_, digits)| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A number that other processes cannot guess. The standard library seeds the hash with random bits of the system.
pub fn unpredictable_number() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    SEED.hash_one((std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Takes the permissions of others from a folder and from everything in it. Links are not followed.
pub fn make_private(folder: &Path) -> io::Result<()> {
    restrict(folder, 0o700)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_private(&entry.path())?;
        } else if kind.is_file() {
            restrict(&entry.path(), 0o600)?;
        }
    }
    Ok(())
}

/// Removes the files that a killed process left unfinished. For a folder that no other process uses.
pub fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            remove_unfinished(&entry.path())?;
        } else if kind.is_file() && is_temporary(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Takes the permissions of others from a folder, if this process may do that. A link in its place is an error.
#[cfg(unix)]
pub fn restrict_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    // By what was opened and not by its name, which may lead elsewhere meanwhile.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(folder)?;
    let _ = opened.set_permissions(fs::Permissions::from_mode(0o700));
    Ok(())
}

/// Takes the permissions of others from a folder, if this process may do that.
#[cfg(not(unix))]
pub fn restrict_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Sets the permissions of a file or folder, if others have some.
#[cfg(unix)]
pub fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match fs::metadata(path)?.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
    }
}

/// Sets the permissions of a file or folder, if others have some.
#[cfg(not(unix))]
pub fn restrict(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Encrypts whole files, and decrypts them.
pub trait FileCipher: fmt::Debug + Send + Sync {
    /// The bytes to store for a file with this name and content.
    fn seal(&self, name: &str, content: Vec<u8>) -> Result<Vec<u8>, Error>;

    /// The content of a stored file with this name.
    fn open(&self, name: &str, stored: Vec<u8>) -> Result<Vec<u8>, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_of_one_process_wait_for_each_other_and_not_for_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let objects = directory.path().join("objects");
        let shared = lock_objects_shared(&objects).expect("a lock");
        assert!(try_lock_objects_exclusive(&objects).expect("an answer").is_none(), "somebody relies on the objects");
        drop(try_lock_objects_shared(&objects).expect("an answer").expect("nobody deletes objects"));
        drop(shared);

        let lock = try_lock_objects_exclusive(&objects).expect("an answer").expect("nobody else has one");
        assert!(try_lock_objects_shared(&objects).expect("an answer").is_none(), "objects are being deleted");
        drop(lock);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(try_lock_objects_exclusive(&objects).expect("an answer").is_some());
                    }
                });
            }
        });
    }

    #[test]
    fn only_temporary_names_are_temporary() {
        let made = temporary_path(Path::new("a/current"));
        let name = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(is_temporary(&name) && made.parent() == Some(Path::new("a")), "{name}");
        assert_ne!(made, temporary_path(Path::new("a/current")));
        for name in ["current", ".new", "current.new", ".a.new", ".a.0123456789abcdeg.new", "a.0123456789abcdef.new"] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn the_folder_of_a_path_is_the_current_one_if_the_path_has_only_a_name() {
        for (path, folder) in [("a", "."), ("a/b", "a"), ("/a", "/"), ("a/b/c", "a/b")] {
            assert_eq!(parent_folder(Path::new(path)), Path::new(folder), "{path}");
        }
    }

    #[test]
    fn a_file_is_replaced_completely_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("current");
        replace_file(&path, |file| io::Write::write_all(file, b"former")).expect("it is written");
        let failed = replace_file(&path, |file| {
            io::Write::write_all(file, b"half of the")?;
            Err(io::Error::other("the rest is missing"))
        });
        assert_eq!(failed.expect_err("it failed").to_string(), "the rest is missing");
        assert_eq!(fs::read(&path).expect("a file"), b"former");
        replace_file(&path, |file| io::Write::write_all(file, b"new")).expect("it is replaced");
        assert_eq!(fs::read(&path).expect("a file"), b"new");
        let left = fs::read_dir(directory.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing else is left");
    }
}

#[cfg(all(test, unix))]
mod permission_tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    }

    /// A folder or a file with these permissions.
    fn with_mode(path: &Path, mode: u32) {
        match path.extension() {
            Some(_) => fs::write(path, "text").expect("a file"),
            None => fs::create_dir(path).expect("a folder"),
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn new_files_and_folders_are_private_and_a_link_is_no_file() {
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        private_file().create_new(true).open(path("file")).expect("a file");
        private_folder().create(path("folder")).expect("a folder");
        assert_eq!((mode(&path("file")), mode(&path("folder"))), (0o600, 0o700));
        symlink(path("file"), path("link")).expect("a link");
        private_file().create(true).truncate(false).open(path("link")).expect_err("it is a link");
        sync_folder(&path("folder")).expect("it can be synced");
        assert_eq!(sync_folder(&path("missing")).expect_err("there is none").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn everything_in_a_folder_becomes_private_but_what_a_link_leads_to() {
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        for folder in ["own", "own/inner", "other"] {
            with_mode(&path(folder), 0o755);
        }
        for file in ["own/a.txt", "own/inner/b.txt", "other/c.txt", "other.txt"] {
            with_mode(&path(file), 0o644);
        }
        with_mode(&path("own/read-only.txt"), 0o400);
        symlink(path("other"), path("own/to-folder")).expect("a link");
        symlink(path("other.txt"), path("own/to-file")).expect("a link");
        make_private(&path("own")).expect("it is ours");
        let expected = [
            ("own", 0o700),
            ("own/inner", 0o700),
            ("own/a.txt", 0o600),
            ("own/inner/b.txt", 0o600),
            // Nobody else has permissions on it.
            ("own/read-only.txt", 0o400),
            ("other", 0o755),
            ("other/c.txt", 0o644),
            ("other.txt", 0o644),
        ];
        for (name, expected) in expected {
            assert_eq!(mode(&path(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_folder_becomes_private_and_a_link_or_a_file_in_its_place_is_an_error() {
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        with_mode(&path("folder"), 0o755);
        with_mode(&path("file.txt"), 0o644);
        symlink(path("folder"), path("link")).expect("a link");
        restrict_folder(&path("link")).expect_err("it is a link");
        restrict_folder(&path("file.txt")).expect_err("it is a file");
        assert_eq!((mode(&path("folder")), mode(&path("file.txt"))), (0o755, 0o644));
        restrict_folder(&path("folder")).expect("it is ours");
        assert_eq!(mode(&path("folder")), 0o700);
    }

    #[test]
    fn only_files_that_a_killed_process_left_unfinished_are_removed() {
        const LEFT: &str = ".current.0123456789abcdef.new";
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: String| base.path().join(name);
        fs::create_dir_all(path(format!("inner/{LEFT}"))).expect("folders");
        let kept = ["current".to_owned(), "inner/current".to_owned(), format!("inner/{LEFT}/current")];
        let left = [LEFT.to_owned(), "inner/.a.0123456789abcdef.new".to_owned(), format!("inner/{LEFT}/{LEFT}")];
        for name in kept.iter().chain(&left) {
            fs::write(path(name.clone()), "text").expect("a file");
        }
        symlink(path("current".to_owned()), path(".link.0123456789abcdef.new".to_owned())).expect("a link");
        remove_unfinished(base.path()).expect("they are removed");
        assert!(kept.iter().all(|name| path(name.clone()).exists()));
        assert!(path(".link.0123456789abcdef.new".to_owned()).is_symlink(), "a link is no unfinished file");
        for name in left {
            assert!(!path(name.clone()).exists(), "{name}");
        }
    }
}
