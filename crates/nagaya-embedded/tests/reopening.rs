//! A store that could not write recovers by itself when the cause is gone, with all acknowledged writes and nothing
//! else.

#![cfg(target_os = "linux")]

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Condition, Error, Health, Item, Key, KeySchema, Store as _, TableSpec, Write};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const TABLE: &str = "blobs";
/// Makes this test binary the process with the faults.
const CHILD: &str = "NAGAYA_FAULTS_DIRECTORY";

fn blob(n: u32) -> Item {
    let mut state = u64::from(n) + 1;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 40) as u8 % 26)
    };
    let noise: String = (0..10_000).map(|_| letter()).collect();
    Item::new().with("PK", "P").with("SK", format!("{n:06}")).with("noise", noise)
}

fn open(directory: &Path) -> EmbeddedStore {
    let options = Options {
        write_buffer_bytes: 256 * 1024,
        sweep_interval: Some(Duration::from_millis(50)),
        ..Options::default()
    };
    EmbeddedStore::open(directory, options).expect("the directory opens")
}

async fn put(store: &EmbeddedStore, n: u32) -> Result<(), Error> {
    store.write(Write::put(TABLE, blob(n)).when(Condition::absent("PK")).into()).await.map(drop)
}

/// Writes until the store fails, removes the cause, and waits until it accepts writes again. Reads work all the time.
async fn fail_and_recover(directory: &Path, limit: impl FnOnce(), lift: impl FnOnce()) {
    let store = open(directory);
    store.ensure_tables(&[TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))]).await.expect("the table is made");
    let (mut acknowledged, mut n) = (Vec::new(), 0);
    for _ in 0..20 {
        put(&store, n).await.expect("a put");
        acknowledged.push(n);
        n += 1;
    }
    assert_eq!(store.health(), Health::Ready);
    limit();
    let failure = loop {
        match put(&store, n).await {
            Ok(()) => acknowledged.push(n),
            Err(error) => break error,
        }
        n += 1;
        assert!(n < 20_000, "the limit was never reached");
    };
    assert!(["unavailable", "unanswered"].contains(&failure.code()), "{failure}");
    assert!(matches!(store.health(), Health::Unavailable(_)), "{:?}", store.health());
    // Acknowledged items can still be read, except while the store reopens its files.
    let key = Key::new("P", "000000");
    let read = wait_for(|| async { store.get(TABLE, &key).await.ok() }).await;
    assert_eq!(read, Some(blob(0)));
    lift();
    n += 1;
    wait_for(|| async {
        match put(&store, n).await {
            Ok(()) => Some(()),
            // An earlier attempt was successful.
            Err(error) if error.failed_conditions().is_some() => Some(()),
            Err(_) => None,
        }
    })
    .await;
    acknowledged.push(n);
    assert_eq!(store.health(), Health::Ready);
    check(&store, &acknowledged).await;
    drop(store);
    check(&open(directory), &acknowledged).await;
    println!("recovered");
}

async fn check(store: &EmbeddedStore, acknowledged: &[u32]) {
    for n in acknowledged {
        let found = store.get(TABLE, &Key::new("P", format!("{n:06}"))).await.expect("a read");
        assert_eq!(found, Some(blob(*n)), "an acknowledged write is lost");
    }
    assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
}

/// Repeats an attempt until it returns something, for up to a minute.
async fn wait_for<T, F: Future<Output = Option<T>>>(mut attempt: impl FnMut() -> F) -> T {
    for _ in 0..600 {
        if let Some(found) = attempt().await {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no attempt was successful");
}

fn set_soft_limit(resource: Resource, limit: Option<u64>) {
    let hard = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: limit.or(hard), maximum: hard }).expect("the limit can be set");
}

/// Not a test: the process that the tests below start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_with_the_faults() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let directory = Path::new(&directory);
    match std::env::var("NAGAYA_FAULT").as_deref() {
        Ok("full disk") => {
            let limit = || set_soft_limit(Resource::Fsize, Some(2 * 1024 * 1024));
            fail_and_recover(directory, limit, || set_soft_limit(Resource::Fsize, None)).await;
        }
        Ok("no open files") => {
            let mut files = Vec::new();
            set_soft_limit(Resource::Nofile, Some(64));
            let files = std::cell::RefCell::new(&mut files);
            let limit = || {
                while let Ok(file) = File::open("/dev/null") {
                    files.borrow_mut().push(file);
                }
            };
            fail_and_recover(directory, limit, || files.borrow_mut().clear()).await;
        }
        other => panic!("unknown fault {other:?}"),
    }
}

fn try_fault(fault: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let this = std::env::current_exe().expect("this test has a path");
    let run = "trap '' XFSZ; exec \"$0\" --exact the_process_with_the_faults --nocapture";
    let output = Command::new("sh")
        .args(["-c", run])
        .arg(this)
        .env(CHILD, directory.path())
        .env("NAGAYA_FAULT", fault)
        .stderr(Stdio::piped())
        .output()
        .expect("a shell runs");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("recovered"), "{out}\n{errors}");
}

#[test]
fn a_store_recovers_from_a_full_disk() {
    try_fault("full disk");
}

#[test]
fn a_store_recovers_from_too_many_open_files() {
    try_fault("no open files");
}

#[tokio::test]
async fn writes_are_refused_before_the_disk_is_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { min_free_bytes: u64::MAX / 4, sweep_interval: None, ..Options::default() };
    let store = EmbeddedStore::open(directory.path(), options).expect("the directory opens");
    store.ensure_tables(&[TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))]).await.expect("the table is made");
    let error = put(&store, 1).await.expect_err("there is too little space");
    assert_eq!(error.code(), "out_of_space", "{error}");
    assert!(error.to_string().contains("MiB left"), "{error}");
    assert!(matches!(store.health(), Health::ReadOnly(_)));
    assert_eq!(store.get(TABLE, &Key::new("P", "000001")).await.expect("reads still work"), None);
}
