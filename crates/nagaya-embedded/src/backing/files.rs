//! Files and folders: what is there, what lasts, and putting one file in the place of another.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nagaya_store::Error;

/// Whether something has this name, even a link that leads nowhere: a volume may be away for a while. Not to know is an error.
pub(super) fn is_there(path: &Path) -> Result<bool, Error> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::engine(format!("{} cannot be looked at: {error}", path.display()))),
    }
}

/// Makes the names in a directory last.
pub(crate) fn sync_folder(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Makes the names in a directory and in all below it last.
pub(crate) fn sync_folders(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(directory)
}

/// Whether the directory can be written: some files at once, and some bytes that are synced.
pub(super) fn probe(directory: &Path) -> io::Result<()> {
    const FILES: usize = 8;
    const BYTES: usize = 1024 * 1024;
    let path = directory.join("probe");
    let probed = (|| {
        let file = File::create(&path)?;
        io::Write::write_all(&mut &file, &vec![1; BYTES])?;
        file.sync_all()?;
        (0..FILES).map(|_| File::open(&path)).collect::<io::Result<Vec<_>>>().map(drop)
    })();
    // What cannot be removed now is overwritten by the next probe.
    let _ = fs::remove_file(&path);
    probed
}

/// Puts another file in the place of a file: whole and on disk, or not at all.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut out = File::create(&new)?;
    write(&mut out)?;
    out.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}
