//! Errors name the path and the cause in plain words.

use std::{fs, path::Path};

use nagaya_embedded::{EmbeddedStore, Options, verify_backup};

fn open_error(directory: &Path) -> String {
    EmbeddedStore::open(directory, Options::default()).expect_err("it cannot be opened").to_string()
}

#[test]
fn a_directory_that_cannot_be_opened_is_named_with_the_cause() {
    let base = tempfile::tempdir().expect("a directory");
    fs::write(base.path().join("file"), "").expect("a file");
    let below_a_file = base.path().join("file/store");
    assert_eq!(open_error(&below_a_file), format!("cannot open {}: not a directory", below_a_file.display()));
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_cause() {
    let base = tempfile::tempdir().expect("a directory");
    drop(EmbeddedStore::open(base.path(), Options::default()).expect("it is created"));
    let journal = base.path().join("data/9.jnl");
    fs::create_dir(&journal).expect("a folder instead of a journal");
    assert_eq!(open_error(base.path()), format!("cannot read {}: is a directory", journal.display()));
}

/// fjall does not say which file it could not open, so the error names the folder of the data.
#[test]
fn an_error_of_fjall_is_in_plain_words() {
    let base = tempfile::tempdir().expect("a directory");
    drop(EmbeddedStore::open(base.path(), Options::default()).expect("it is created"));
    let (data, lock) = (base.path().join("data"), base.path().join("data/lock"));
    fs::remove_file(&lock).and_then(|()| fs::create_dir(&lock)).expect("a folder instead of a file");
    assert_eq!(open_error(base.path()), format!("cannot open {}: is a directory", data.display()));
}

#[test]
fn a_missing_backup_is_named_with_the_cause() {
    let error = verify_backup(Path::new("missing.nagaya"), &mut |_| {}).expect_err("there is no file");
    assert_eq!(error.to_string(), "cannot open missing.nagaya: no such file or directory");
}
