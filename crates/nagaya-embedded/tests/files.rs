//! Only the owner can read the files of a store, whatever the umask; links are not followed.

#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use nagaya_embedded::{EmbeddedStore, Options, restore_backup};
use nagaya_store::{Item, KeySchema, Store as _, TableSpec, Write, files};

/// The files and folders below a directory that others have permissions on.
fn open_to_others(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let metadata = fs::symlink_metadata(&path).expect("an entry");
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(path.clone());
        }
        if metadata.is_dir() {
            found.extend(open_to_others(&path));
        }
    }
    found
}

async fn fill(store: &EmbeddedStore) {
    store.ensure_tables(&[TableSpec::new("notes", KeySchema::strings("PK", "SK"))]).await.expect("a table");
    store.write(Write::put("notes", Item::new().with("PK", "P").with("SK", "1")).into()).await.expect("a put");
    store.compact().expect("sorted files are written");
}

/// Alone in its process, because the umask belongs to the process.
#[tokio::test]
async fn the_files_of_a_store_belong_to_its_owner_only() {
    rustix::process::umask(rustix::fs::Mode::empty());
    let base = tempfile::tempdir().expect("a directory");
    let directory = base.path().join("deep/store");
    let store = EmbeddedStore::open(&directory, Options::default()).expect("a new store");
    fill(&store).await;
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("data"))), (0o700, 0o700));
    let backup = base.path().join("backup");
    store.backup(&backup, &mut |_| {}).expect("a backup");
    assert_eq!(mode(&backup), 0o600);
    drop(store);
    // fjall creates files with the permissions that the umask leaves; the next start takes those of others away.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("it is ours");
    drop(EmbeddedStore::open(&directory, Options::default()).expect("it opens"));
    assert_eq!(mode(&directory), 0o700);
    drop(restore_backup(&backup, &base.path().join("copy"), &mut |_| {}).expect("it is restored"));
    assert_eq!(mode(&base.path().join("copy")), 0o700);
    for name in ["lock", "acknowledged"] {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn files_of_an_earlier_version_become_private() {
    let base = tempfile::tempdir().expect("a directory");
    let directory = base.path().join("store");
    let store = EmbeddedStore::open(&directory, Options::default()).expect("a new store");
    fill(&store).await;
    drop(store);
    let mut below = vec![directory.clone()];
    while let Some(path) = below.pop() {
        let is_folder = path.is_dir();
        fs::set_permissions(&path, fs::Permissions::from_mode(if is_folder { 0o755 } else { 0o644 }))
            .expect("it is ours");
        if is_folder {
            below.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
    }
    // What a killed process has left unfinished is removed.
    let left = directory.join("data/.0.jnl.0123456789abcdef.new");
    fs::write(&left, "unfinished").expect("a file");
    drop(EmbeddedStore::open(&directory, Options { sweep_interval: None, ..Options::default() }).expect("it opens"));
    let others = open_to_others(&directory);
    assert!(others.iter().all(|path| !path.ends_with("acknowledged") && !path.ends_with("lock")), "{others:?}");
    assert!(
        !others.iter().any(|path| path.starts_with(directory.join("data/keyspaces")) && path.is_dir()),
        "{others:?}"
    );
    assert!(!left.exists());
}

#[tokio::test]
async fn a_link_in_the_place_of_the_data_directory_is_refused() {
    let base = tempfile::tempdir().expect("a directory");
    let (real, link) = (base.path().join("real"), base.path().join("link"));
    drop(EmbeddedStore::open(&real, Options::default()).expect("a new store"));
    symlink(&real, &link).expect("a link");
    let refused = |end: &str| {
        let path = format!("{}{end}", link.display());
        EmbeddedStore::open(path, Options::default()).expect_err("a link").to_string()
    };
    for end in ["", "/", "//", "/."] {
        let refused = refused(end);
        let named = format!("link{end} is a link, which is not followed; name the directory {} itself", real.display());
        assert!(refused.contains(&named), "{refused}");
    }
    // It may lead nowhere.
    fs::remove_dir_all(&real).expect("it is ours");
    for end in ["", "/"] {
        assert!(refused(end).contains("is a link"), "link{end}");
    }
    assert!(!real.exists());
}

#[tokio::test]
async fn a_link_in_the_place_of_a_file_is_not_followed() {
    let base = tempfile::tempdir().expect("a directory");
    let victim = base.path().join("victim");
    fs::write(&victim, "untouched").expect("a file");
    for name in ["lock", "acknowledged", "data.unfinished"] {
        let directory = base.path().join(format!("store-{name}"));
        fs::create_dir(&directory).expect("a folder");
        symlink(&victim, directory.join(name)).expect("a link");
        // It is refused, or the link is removed.
        let _ = EmbeddedStore::open(&directory, Options::default());
        assert_eq!(fs::read(&victim).expect("it is there"), b"untouched", "{name}");
    }
    // A file is replaced, and so is a link.
    let link = base.path().join("link");
    symlink(&victim, &link).expect("a link");
    files::replace_file(&link, |file| std::io::Write::write_all(file, b"new")).expect("it is replaced");
    assert_eq!(
        (fs::read(&victim).expect("a file"), fs::read(&link).expect("a file")),
        (b"untouched".to_vec(), b"new".to_vec())
    );
    assert!(!link.symlink_metadata().expect("a file").is_symlink());
}
