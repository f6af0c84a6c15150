//! Key files of a data directory that can be rotated: `cursor.key`, `log.key` and `audit.key`.
//!
//! The first line is the newest key, in hexadecimal digits. The lines after it are older keys, each with the second since 1970 until
//! which it is accepted. A file of one line is what earlier versions wrote.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use nagaya_store::{
    Clock,
    files::{private_file, private_folder, replace_file, temporary_path},
};
use nagaya_tenancy::{KeySet, SecretKey};

use crate::hex::{hex, unhex};

/// A kind of key, with a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KeyKind {
    /// What the cursors of lists are encrypted with. A cursor of an older key continues its list
    Cursor,
    /// What the users in logs are hashed with. The hash of a user differs after it
    Log,
    /// What the hash chain of the operator log is made with. Older keys are needed to verify older entries
    Audit,
}

impl KeyKind {
    pub(crate) const ALL: [KeyKind; 3] = [KeyKind::Cursor, KeyKind::Log, KeyKind::Audit];

    pub(crate) fn name(self) -> &'static str {
        self.file_name().trim_end_matches(".key")
    }

    /// The name of its file in the data directory.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            KeyKind::Cursor => "cursor.key",
            KeyKind::Log => "log.key",
            KeyKind::Audit => "audit.key",
        }
    }

    pub(crate) fn path(self, data: &Path) -> PathBuf {
        data.join(self.file_name())
    }

    /// Whether the store remembers that it had the file. With the keys of hashes in logs nothing is lost.
    pub(crate) fn is_remembered(self) -> bool {
        self != KeyKind::Log
    }
}

/// A key, and until when an older one is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) key: SecretKey,
    /// The second since 1970; `None` for the newest one.
    pub(crate) until: Option<i64>,
}

impl StoredKey {
    /// The first digits of a hash of the key, which tell nothing about it.
    pub(crate) fn id(&self) -> String {
        nagaya_tenancy::key_id(&self.key)
    }

    fn is_accepted(&self, now: i64) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// The keys of a file, the newest first; `None` if it does not exist. Running processes see when it is replaced.
pub(crate) fn load(path: &Path) -> anyhow::Result<Option<KeySet>> {
    Ok(read(path)?.map(|keys| reloaded(path, &keys)))
}

/// The same; creates the file if it does not exist.
pub(crate) fn load_or_create(path: &Path) -> anyhow::Result<KeySet> {
    Ok(reloaded(path, &read_or_create(path)?))
}

fn reloaded(path: &Path, keys: &[StoredKey]) -> KeySet {
    let path = path.to_owned();
    KeySet::reloaded(valid(keys), move || reload(&path))
}

/// The keys of a file that was read before; `None` if it cannot be read now. That is logged once until it can be read again:
/// every system reads the file each second.
fn reload(path: &Path) -> Option<Vec<SecretKey>> {
    static UNREADABLE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let keys = read(path).and_then(|keys| keys.with_context(|| format!("{} is gone", path.display())));
    let mut unreadable = UNREADABLE.lock().unwrap_or_else(PoisonError::into_inner);
    match keys {
        Ok(keys) => {
            unreadable.remove(path);
            Some(valid(&keys))
        }
        Err(error) => {
            if unreadable.insert(path.to_owned()) {
                let error = format!("{error:#}");
                tracing::error!(target: "nagaya::server", error, "the keys that were read before stay in use, until this process ends");
            }
            None
        }
    }
}

/// The keys that are accepted now.
fn valid(keys: &[StoredKey]) -> Vec<SecretKey> {
    let now = Clock::system().seconds();
    keys.iter().filter(|key| key.is_accepted(now)).map(|key| key.key).collect()
}

/// The keys of a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Vec<StoredKey>>> {
    let text = match read_text(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    let keys: Option<Vec<_>> = text.trim().lines().map(parse_line).collect();
    let keys = keys.filter(|keys| keys.first().is_some_and(|first| first.until.is_none()));
    keys.with_context(|| format!("{} holds no key", path.display())).map(Some)
}

/// The text of a file, and not of the file that a link in its place leads to.
fn read_text(path: &Path) -> io::Result<String> {
    if path.is_symlink() {
        return Err(io::Error::other(
            "it is a link, and whoever may change the link chooses the keys; put the file itself there",
        ));
    }
    // Another process may put a link there in the meantime.
    io::read_to_string(private_file().write(false).read(true).open(path)?)
}

fn parse_line(line: &str) -> Option<StoredKey> {
    let mut words = line.split_whitespace();
    let key = parse_key(words.next()?)?;
    let until = words.next().map(str::parse).transpose().ok()?;
    words.next().is_none().then_some(StoredKey { key, until })
}

/// A key of 64 hexadecimal digits.
pub(crate) fn parse_key(digits: &str) -> Option<SecretKey> {
    unhex(digits)?.try_into().ok()
}

fn read_or_create(path: &Path) -> anyhow::Result<Vec<StoredKey>> {
    if let Some(keys) = read(path)? {
        return Ok(keys);
    }
    let created = create(path);
    // If another writer was first, use their key.
    match read(path)? {
        Some(keys) => Ok(keys),
        None => Err(created.err().unwrap_or_else(|| anyhow::anyhow!("another process has deleted it")))
            .with_context(|| format!("{} cannot be created", path.display())),
    }
}

/// Creates a file with a new key, unless it exists.
fn create(path: &Path) -> anyhow::Result<()> {
    let text = format!("{}\n", hex(&random()?));
    if let Some(directory) = path.parent() {
        private_folder().recursive(true).create(directory)?;
    }
    // Written under a temporary name and then linked, so that nobody reads half a key.
    let unfinished = temporary_path(path);
    let file = private_file().create_new(true).open(&unfinished);
    let written =
        file.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()).and_then(|()| file.sync_all()));
    let named = written.and_then(|()| fs::hard_link(&unfinished, path));
    let _ = fs::remove_file(&unfinished);
    Ok(named?)
}

/// Adds a new key to a file. The older ones are accepted for this time. Returns the keys, the newest first.
pub(crate) fn rotate(path: &Path, accepted_for: Duration) -> anyhow::Result<Vec<StoredKey>> {
    let now = Clock::system().seconds();
    let until = now.saturating_add(i64::try_from(accepted_for.as_secs()).unwrap_or(i64::MAX));
    let mut keys = vec![StoredKey { key: random()?, until: None }];
    let older = read(path)?.unwrap_or_default().into_iter();
    let older = older.map(|key| StoredKey { until: Some(key.until.map_or(until, |known| known.min(until))), ..key });
    keys.extend(older.filter(|key| key.is_accepted(now)));
    let line = |key: &StoredKey| match key.until {
        None => format!("{}\n", hex(&key.key)),
        Some(until) => format!("{} {until}\n", hex(&key.key)),
    };
    let text: String = keys.iter().map(line).collect();
    let written = replace_file(path, |file| io::Write::write_all(file, text.as_bytes()));
    written.map(|()| keys).with_context(|| format!("{} cannot be written", path.display()))
}

fn random() -> anyhow::Result<SecretKey> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use nagaya_testing::LogLines;

    use super::*;

    #[test]
    fn a_key_is_created_once_and_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/cursor.key");
        assert!(load(&path).expect("no file").is_none() && !path.exists());
        let first = load_or_create(&path).expect("a key").newest();
        assert_eq!(load_or_create(&path).expect("the same").newest(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        }
        for damaged in ["damaged", "", &"é".repeat(32), &format!("{} 7", "0f".repeat(32))] {
            fs::write(&path, damaged).expect("a file");
            assert!(load_or_create(&path).expect_err("no key").to_string().contains("holds no key"), "{damaged}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_a_key_file_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, elsewhere) = (directory.path().join("cursor.key"), directory.path().join("elsewhere.key"));
        load_or_create(&elsewhere).expect("a key");
        for target in [&elsewhere, &directory.path().join("nothing")] {
            std::os::unix::fs::symlink(target, &path).expect("a link");
            let refused = load_or_create(&path).expect_err("a link");
            assert!(format!("{refused:#}").contains("cursor.key cannot be read: it is a link"), "{refused:#}");
            assert!(rotate(&path, Duration::ZERO).is_err() && path.is_symlink());
            fs::remove_file(&path).expect("a link");
        }
    }

    #[test]
    fn an_older_key_is_accepted_for_some_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("cursor.key");
        let first = load_or_create(&path).expect("a key").newest();
        let keys = rotate(&path, Duration::from_secs(3600)).expect("another key");
        assert_eq!((keys.len(), keys[1].key), (2, first));
        assert_ne!(keys[0].key, first);
        assert_eq!(read(&path).expect("a file"), Some(keys.clone()));
        let set = load_or_create(&path).expect("keys");
        assert_eq!(set.newest(), keys[0].key);
        assert!(set.find(|key| (*key == first).then_some(())).is_some());
        // Without that time it is refused at once.
        let keys = rotate(&path, Duration::ZERO).expect("another key");
        assert_eq!(keys.len(), 1);
        assert!(load_or_create(&path).expect("a key").find(|key| (*key == first).then_some(())).is_none());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        // The temporary name beside it is too long.
        let path = directory.path().join("k".repeat(250));
        let refused = load_or_create(&path).expect_err("no file").to_string();
        assert!(refused.ends_with("k cannot be created"), "{refused}");
        let refused = rotate(&path, Duration::ZERO).expect_err("no file").to_string();
        assert!(refused.ends_with("k cannot be written"), "{refused}");
    }

    /// Several processes may create it at once.
    #[test]
    fn the_key_of_a_faster_writer_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("cursor.key");
        let first = load_or_create(&path).expect("a key").newest();
        assert!(create(&path).is_err());
        assert_eq!(load_or_create(&path).expect("a key").newest(), first);
        assert_eq!(fs::read_dir(directory.path()).expect("a folder").count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_file_that_becomes_unreadable_is_logged_once_until_it_can_be_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log.key");
        let key = load_or_create(&path).expect("a key").newest();
        let text = fs::read_to_string(&path).expect("a file");
        let (log, _guard) = LogLines::capture("error");
        for times in [1, 2] {
            fs::write(&path, "damaged").expect("a file");
            assert_eq!((reload(&path), reload(&path)), (None, None));
            assert_eq!(log.count("log.key holds no key"), times, "{}", log.text());
            fs::write(&path, &text).expect("a file");
            assert_eq!(reload(&path), Some(vec![key]));
        }
    }
}
