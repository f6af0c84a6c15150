//! Where the objects of notes are: in object storage or in a directory.

use std::{
    error::Error as StdError,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use nagaya_store::files;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, path::Path};

/// The objects of a page, at most.
const PAGE_SIZE: usize = 1_000;

pub(super) type PlaceError = Box<dyn StdError + Send + Sync>;

#[derive(Debug, Clone)]
pub(super) enum Place {
    Objects(Arc<dyn ObjectStore>),
    /// A directory that is created for the first long note.
    Directory(PathBuf),
}

/// An object that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredObject {
    pub(super) path: Path,
    /// When it was last written, in milliseconds, by the clock of the storage.
    pub(super) modified: i64,
}

impl Place {
    pub(super) async fn put(&self, path: &Path, content: Vec<u8>) -> Result<(), PlaceError> {
        match self {
            Place::Objects(objects) => {
                objects.put(path, PutPayload::from(content)).await?;
                Ok(())
            }
            Place::Directory(root) => {
                let (root, file) = (root.clone(), root.join(path.as_ref()));
                Ok(tokio::task::spawn_blocking(move || write_file(&root, &file, |out| out.write_all(&content)))
                    .await??)
            }
        }
    }

    /// The stored bytes of an object; `None` if it does not exist.
    pub(super) async fn get(&self, path: &Path) -> Result<Option<Vec<u8>>, PlaceError> {
        match self {
            Place::Objects(objects) => match objects.get(path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                found => Ok(Some(found?.bytes().await?.to_vec())),
            },
            Place::Directory(root) => {
                let file = root.join(path.as_ref());
                Ok(tokio::task::spawn_blocking(move || if_exists(fs::read(file))).await??)
            }
        }
    }

    /// All objects below a folder, in pages.
    pub(super) fn list(&self, folder: &Path) -> BoxStream<'static, Result<Vec<StoredObject>, PlaceError>> {
        match self {
            Place::Objects(objects) => {
                let found = objects.list(Some(folder)).map_ok(|found| StoredObject {
                    path: found.location,
                    modified: found.last_modified.timestamp_millis(),
                });
                found.try_chunks(PAGE_SIZE).map_err(|error| error.1.into()).boxed()
            }
            Place::Directory(root) => {
                let (root, top) = (root.clone(), root.join(folder.as_ref()));
                let tenants = stream::once(async move {
                    let folders = tokio::task::spawn_blocking(move || entries(&top)).await??;
                    Ok::<_, PlaceError>(stream::iter(folders).map(Ok))
                });
                // A page has the notes of a tenant.
                let pages = tenants.try_flatten().and_then(move |folder| {
                    let root = root.clone();
                    async move { Ok(tokio::task::spawn_blocking(move || list_files(&root, folder)).await??) }
                });
                pages.boxed()
            }
        }
    }

    /// Deletes an object, or all objects below a path.
    pub(super) async fn delete(&self, path: &Path) -> Result<(), PlaceError> {
        match self {
            Place::Objects(objects) => {
                // Object storage has no folders: the path of an object is none.
                let below = objects.list(Some(path)).map_ok(|object| object.location).boxed();
                objects.delete_stream(below).try_for_each(|_| async { Ok(()) }).await?;
                match objects.delete(path).await {
                    Err(object_store::Error::NotFound { .. }) => Ok(()),
                    deleted => Ok(deleted?),
                }
            }
            Place::Directory(root) => {
                let (root, path) = (root.clone(), root.join(path.as_ref()));
                Ok(tokio::task::spawn_blocking(move || delete_path(&root, &path)).await??)
            }
        }
    }
}

/// Writes and syncs a file below a root. A note is synced before its event is stored.
pub(super) fn write_file(
    root: &FilePath,
    file: &FilePath,
    mut write: impl FnMut(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut try_write = || {
        create_folders(root, file, files::sync_folder)?;
        files::replace_file(file, &mut write)
    };
    match if_exists(try_write())? {
        Some(()) => Ok(()),
        // A sweep has removed the folder, because it was empty.
        None => try_write(),
    }
}

/// Creates the folders of a file. Their names have to be durable, as the one of the file.
pub(super) fn create_folders(
    root: &FilePath,
    file: &FilePath,
    mut sync: impl FnMut(&FilePath) -> io::Result<()>,
) -> io::Result<()> {
    files::private_folder().recursive(true).create(files::parent_folder(file))?;
    // The first one is synced with the name of the file in it.
    for folder in file.ancestors().skip(2).take_while(|folder| folder.starts_with(root)) {
        sync(folder)?;
    }
    // The directory itself may be new.
    sync(files::parent_folder(root))
}

/// A file, or the files below a folder, also those that a process did not finish when it was killed.
fn list_files(root: &FilePath, top: PathBuf) -> io::Result<Vec<StoredObject>> {
    let (mut found, mut paths) = (Vec::new(), vec![top]);
    while let Some(path) = paths.pop() {
        // It may have been deleted meanwhile.
        let Some(metadata) = if_exists(path.symlink_metadata())? else { continue };
        if metadata.is_dir() {
            paths.extend(entries(&path)?);
            continue;
        }
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let relative = path.strip_prefix(root).ok().and_then(FilePath::to_str);
        // Nobody else writes here: what has no such name is no note.
        if let Some(path) = relative.and_then(|path| Path::parse(path).ok()) {
            found.push(StoredObject { path, modified: i64::try_from(modified).unwrap_or(i64::MAX) });
        }
    }
    Ok(found)
}

/// What is in a folder; nothing if it does not exist.
fn entries(folder: &FilePath) -> io::Result<Vec<PathBuf>> {
    let entries = if_exists(fs::read_dir(folder))?.into_iter().flatten();
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// `None` for what does not exist.
fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Deletes an object, or a folder of objects. A backup that runs keeps them: its snapshot may refer to them.
fn delete_path(root: &FilePath, path: &FilePath) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    let Some(_lock) = files::try_lock_objects_exclusive(root)? else {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "a backup or another process has locked the objects"));
    };
    // Another process may have deleted it meanwhile.
    if_exists(if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) })?;
    // The folders of the request and of the todo, if they are empty now.
    for folder in path.ancestors().skip(1).take(2) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}
