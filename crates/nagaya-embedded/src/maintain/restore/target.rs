//! The directory that a restore fills: claimed by one, and not a store until it is whole.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use crate::{
    backing::{sync_folder, sync_folders},
    lock::Lock,
};

/// Lies in a directory that is being restored into. It is the first thing there and the last to go.
const MARK: &str = "data.restoring";

/// The directory that should be made is there.
#[derive(Debug)]
struct InTheWay(PathBuf);

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is there already; restore into a new directory", self.0.display())
    }
}

impl std::error::Error for InTheWay {}

/// A restore into the directory has not ended.
#[derive(Debug)]
pub(crate) struct UnfinishedRestore(pub(crate) PathBuf);

impl fmt::Display for UnfinishedRestore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.0.display();
        write!(
            f,
            "a restore into {directory} has not ended, so it is not a whole store: if no restore is under way, it was \
             interrupted; remove the directory and restore again"
        )
    }
}

impl std::error::Error for UnfinishedRestore {}

/// Refuses a directory that a restore has begun to fill and has not ended with: it is neither opened nor touched.
pub(crate) fn refuse_unfinished_restore(directory: &Path) -> Result<(), Error> {
    match directory.join(MARK).symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(Error::engine(UnfinishedRestore(directory.to_path_buf()))),
    }
}

/// Makes a directory with the mark in it, or tells that something is there already. Whoever looks never sees it without the
/// mark: it would pass for the empty directory of a new store.
fn make_marked(directory: &Path) -> io::Result<bool> {
    if directory.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let draft =
        parent.join(format!(".{name}.{:016x}", getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?));
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&draft)?;
    let made = fs::File::create_new(draft.join(MARK)).and_then(|mark| mark.sync_all()).and_then(|()| {
        sync_folder(&draft)?;
        match fs::rename(&draft, directory) {
            Ok(()) => Ok(true),
            // Somebody else has made it meanwhile.
            Err(_) if directory.symlink_metadata().is_ok() => Ok(false),
            Err(error) => Err(error),
        }
    });
    if !matches!(made, Ok(true)) {
        // What is left of it is in nobody's way.
        let _ = fs::remove_dir_all(&draft);
    }
    made
}

/// A directory that this restore alone fills.
pub(super) struct Target {
    directory: PathBuf,
    /// Whether the directory was not there before.
    made: bool,
    _lock: Lock,
}

impl Target {
    /// Claims a directory that is not there yet, or is empty.
    pub(super) fn claim(directory: &Path) -> Result<Self, Error> {
        // Without a `.` at its end, which a directory cannot be renamed to.
        let directory = &directory.components().collect::<PathBuf>();
        let failed = |error: io::Error| Error::engine(format!("{} cannot be made: {error}", directory.display()));
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let in_the_way = || Error::engine(InTheWay(directory.to_path_buf()));
        let is_alone =
            || -> io::Result<bool> { Ok(fs::read_dir(directory)?.flatten().all(|entry| entry.file_name() == MARK)) };
        let made = make_marked(directory).map_err(failed)?;
        let mark = directory.join(MARK);
        if !made {
            // Before it is marked: a store that is there must not be taken for an unfinished restore if this is killed.
            refuse_unfinished_restore(directory)?;
            if !is_alone().map_err(failed)? {
                return Err(in_the_way());
            }
            // Of two restores at the same time one makes the mark, and the other touches nothing.
            match OpenOptions::new().write(true).create_new(true).open(&mark) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(Error::engine(UnfinishedRestore(directory.to_path_buf())));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let marked = || -> io::Result<bool> {
            fs::File::open(&mark)?.sync_all()?;
            sync_folder(directory)?;
            is_alone()
        };
        let claimed = match marked() {
            Ok(true) => Lock::take(directory),
            Ok(false) => Err(in_the_way()),
            Err(error) => Err(failed(error)),
        };
        match claimed {
            Ok(lock) => Ok(Target { directory: directory.to_path_buf(), made, _lock: lock }),
            Err(error) => {
                // Nothing but the mark is ours, and a directory only as long as it is empty.
                let _ = fs::remove_file(&mark);
                if made {
                    let _ = fs::remove_dir(directory);
                }
                Err(error)
            }
        }
    }

    /// Makes it a store: everything in it is on disk.
    pub(super) fn finish(self) -> Result<(), Error> {
        let finish = || {
            sync_folders(&self.directory)?;
            fs::remove_file(self.directory.join(MARK))?;
            sync_folder(&self.directory)?;
            match self.directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => sync_folder(parent),
                None => Ok(()),
            }
        };
        finish().map_err(Error::engine)
    }

    /// Removes what was filled in. The mark goes last: what is left if this fails is not taken for a store.
    pub(super) fn discard(self) {
        let remove = || -> io::Result<()> {
            for entry in fs::read_dir(&self.directory)? {
                let path = entry?.path();
                match path.is_dir() {
                    _ if path.ends_with(MARK) || path.ends_with("lock") => {}
                    true => fs::remove_dir_all(path)?,
                    false => fs::remove_file(path)?,
                }
            }
            fs::remove_file(self.directory.join("lock"))?;
            fs::remove_file(self.directory.join(MARK))?;
            if self.made { fs::remove_dir(&self.directory) } else { Ok(()) }
        };
        // Why the restore failed matters more; what is left is refused as unfinished.
        let _ = remove();
    }
}
