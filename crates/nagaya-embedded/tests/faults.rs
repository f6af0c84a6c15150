//! A full or damaged disk gives a clear error, and no acknowledged write is lost.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Condition, Item, Key, KeySchema, Scan, Store as _, TableSpec, Write};

const TABLE: &str = "blobs";
/// Makes this test binary the process with the full disk.
const CHILD: &str = "NAGAYA_FULL_DISK_DIRECTORY";

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK")).with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
}

/// Letters that do not compress, so that the disk fills up.
static NOISE: LazyLock<String> = LazyLock::new(|| {
    let letter = |at: u64| char::from(b'a' + (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 % 26);
    (1..400_000).map(letter).collect()
});

fn blob(n: u32) -> Item {
    let start = n as usize * 7919 % 380_000;
    let item = Item::new().with("PK", "P").with("SK", format!("{n:06}")).with("noise", &NOISE[start..start + 19_000]);
    item.with("GSI1PK", "all").with("GSI1SK", format!("{n:06}"))
}

/// Not a test: the process that the test below starts, with a limit on the size of files. It writes until it fails, and
/// prints what was acknowledged and how it failed.
#[tokio::test]
async fn the_process_whose_disk_is_full() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let store = EmbeddedStore::open(directory, Options::default()).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    let mut failures = 0;
    for n in 0..20_000 {
        match store.write(Write::put(TABLE, blob(n)).when(Condition::absent("PK")).into()).await {
            Ok(_) => println!("ack {n}"),
            Err(error) => {
                println!("failed {} {error}", error.code());
                failures += 1;
                // Acknowledged items can still be read.
                store.get(TABLE, &Key::new("P", "000000")).await.expect("reads still work");
                if failures == 3 {
                    return;
                }
            }
        }
    }
}

/// Runs the process with a limit on the size of files, which acts like a full disk.
fn run_until_full(directory: &Path, blocks: u32) -> (Vec<u32>, Vec<String>) {
    let this = std::env::current_exe().expect("this test has a path");
    let limited =
        format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" --exact the_process_whose_disk_is_full --nocapture");
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(this)
        .env(CHILD, directory)
        .stderr(Stdio::null())
        .output()
        .expect("a shell runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let acknowledged = text.lines().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).collect();
    let failures = text.lines().filter_map(|line| line.strip_prefix("failed ")).map(str::to_owned).collect();
    (acknowledged, failures)
}

#[tokio::test]
async fn a_full_disk_gives_an_error_and_loses_no_acknowledged_write() {
    for blocks in [2_000, 40_000] {
        let directory = tempfile::tempdir().expect("a directory");
        // The journal allocates its space when the directory is created.
        drop(EmbeddedStore::open(directory.path(), Options::default()).expect("the directory opens"));
        let (acknowledged, failures) = run_until_full(directory.path(), blocks);
        assert!(!acknowledged.is_empty(), "{blocks}: nothing was written before the disk was full");
        assert!(!failures.is_empty() && failures.iter().all(|failure| is_refusal(failure)), "{blocks}: {failures:?}");
        let store =
            EmbeddedStore::open(directory.path(), Options::default()).expect("it opens when there is space again");
        store.ensure_tables(&[spec()]).await.expect("the table is there");
        for n in &acknowledged {
            let found = store.get(TABLE, &Key::new("P", format!("{n:06}"))).await.expect("a read");
            assert_eq!(found, Some(blob(*n)), "{blocks}: an acknowledged write is lost");
        }
        assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), [], "{blocks}");
        store.write(Write::put(TABLE, blob(999_999)).into()).await.expect("it accepts writes again");
    }
}

/// The write did not happen, or its outcome is unknown.
fn is_refusal(failure: &str) -> bool {
    ["unavailable ", "unanswered "].iter().any(|code| failure.starts_with(code))
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// A changed byte anywhere is detected or harmless: never a panic, never another content.
#[tokio::test]
async fn a_damaged_file_is_detected_or_harmless() {
    let original = tempfile::tempdir().expect("a directory");
    {
        let store = EmbeddedStore::open(original.path(), Options::default()).expect("the directory opens");
        store.ensure_tables(&[spec()]).await.expect("the table is made");
        for n in 0..40 {
            store.write(Write::put(TABLE, blob(n)).into()).await.expect("a put");
        }
        // Some items are in sorted files, some in the journal.
        store.compact().expect("it can be compacted");
        for n in 40..60 {
            store.write(Write::put(TABLE, blob(n)).into()).await.expect("a put");
        }
    }
    let whole = read_all(original.path()).await.expect("the whole one can be read");
    assert_eq!(whole.len(), 60);
    let mut detected = 0;
    for file in files(&original.path().join("data")) {
        let bytes = fs::read(&file).expect("the file can be read");
        for part in 1..4 {
            let at = bytes.len() * part / 4;
            if bytes.is_empty() {
                continue;
            }
            let copy = tempfile::tempdir().expect("a directory");
            copy_tree(original.path(), copy.path());
            let name = file.strip_prefix(original.path()).expect("below the directory");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            fs::write(copy.path().join(name), damaged).expect("the file can be written");
            match read_all(copy.path()).await {
                Ok(items) => {
                    let lost = whole.iter().filter(|item| !items.contains(item)).count();
                    assert_eq!(lost, 0, "{} at {at}: items are lost without an error", name.display());
                    assert!(
                        items.iter().all(|item| whole.contains(item)),
                        "{} at {at}: an item has another content",
                        name.display()
                    );
                }
                Err(error) => {
                    assert!(!error.is_empty());
                    detected += 1;
                }
            }
        }
    }
    assert!(detected > 0, "no damage was ever detected: the test tests nothing");
}

async fn read_all(directory: &Path) -> Result<Vec<Item>, String> {
    let store = EmbeddedStore::open(directory, Options { sweep_interval: None, ..Options::default() })
        .map_err(|error| error.to_string())?;
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let page = store.scan(Scan { after, ..Scan::table(TABLE) }).await.map_err(|error| error.to_string())?;
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(items);
        }
    }
}

fn copy_tree(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("below the directory"));
        fs::create_dir_all(target.parent().expect("a file is in a folder")).expect("a folder can be made");
        fs::copy(&file, target).expect("a file can be copied");
    }
}
