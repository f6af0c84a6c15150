//! A file in the making: it gets its name once it is whole, and never takes the place of another.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use nagaya_store::Error;

/// A file under a name of its own, which is removed unless it is finished.
pub(super) struct Draft {
    path: PathBuf,
    beside: PathBuf,
    finished: bool,
}

impl Draft {
    /// A new file beside `path`, which nobody but its owner reads.
    pub(super) fn create(path: &Path) -> Result<(Self, File), Error> {
        let name = path.file_name().ok_or_else(|| Error::engine(format!("{} is not a file's name", path.display())))?;
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Error::engine(error.to_string()))?;
        let random = u64::from_be_bytes(random);
        let beside = path.with_file_name(format!(".{}.{random:016x}.unfinished", name.to_string_lossy()));
        let file = private().create_new(true).open(&beside).map_err(|error| failed(path, &error))?;
        Ok((Draft { path: path.to_path_buf(), beside, finished: false }, file))
    }

    /// Gives the file its name, unless that has been taken meanwhile. It is on disk then.
    pub(super) fn finish(mut self, file: &File) -> Result<(), Error> {
        file.sync_all().map_err(|error| failed(&self.path, &error))?;
        self.name().map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&self.path),
            _ => failed(&self.path, &error),
        })?;
        self.finished = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync(folder).map_err(|error| failed(&self.path, &error))
    }

    fn name(&self) -> io::Result<()> {
        // A second name is never given to a path that is there, which a rename would replace.
        match fs::hard_link(&self.beside, &self.path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                // A file system without second names: take the name first, then replace what is our own.
                private().create_new(true).open(&self.path)?;
                fs::rename(&self.beside, &self.path)
            }
            linked => linked.and_then(|()| fs::remove_file(&self.beside)),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed is in nobody's way: its name is its own.
            let _ = fs::remove_file(&self.beside);
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes the names in a directory last.
fn sync(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn exists(path: &Path) -> Error {
    Error::engine(format!(
        "{} is there already, and a backup never replaces a file; choose another name",
        path.display()
    ))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::engine(format!("{} cannot be written: {error}", path.display()))
}
