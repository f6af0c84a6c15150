//! Event sourcing while everything goes wrong: writers, readers, unknown events, kills, rebuilds and dropped events at the same time.
//! Afterwards no acknowledged command is lost, none has happened twice, and the events and the projection verify.
//!
//! `NAGAYA_SOAK_MINUTES` is how long it goes on, and `NAGAYA_SOAK_SEED` repeats the choices of a run. It is short without them.

mod clients;
#[path = "../common/mod.rs"]
mod common;
mod newer;

use std::{
    path::PathBuf,
    process::Command,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use common::{Run, nagaya, nagaya_in, root};
use fastrand::Rng;
use nagaya_testing::{Process, ServeProcess, eventually};
use serde_json::{Value as Json, json};

use self::clients::{Counts, Writer};

/// Clients that change todos, each its own ones.
const WRITERS: u64 = 3;
/// Todos that get unknown events.
const POISONED: usize = 5;
/// Kills and stops without `NAGAYA_SOAK_MINUTES`.
const SHORT: u64 = 4;

/// What the clients and the operator share.
struct Soak {
    _directory: tempfile::TempDir,
    data: PathBuf,
    /// The API that answers at present, and a token for it.
    api: RwLock<(String, String)>,
    is_over: AtomicBool,
    counts: Counts,
    /// The todos that get unknown events.
    poisoned: Mutex<Vec<String>>,
}

#[test]
fn nothing_is_lost_by_unknown_events_kills_and_rebuilds() {
    let variable = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let length = variable("NAGAYA_SOAK_MINUTES").map(|minutes| Duration::from_secs(60 * minutes));
    let seed = variable("NAGAYA_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("NAGAYA_SOAK_SEED={seed}");
    let mut random = Rng::with_seed(seed);

    let soak = Soak::new();
    let mut server = soak.serve();
    for at in 0..POISONED {
        let made = soak.send("POST", "/todos", Some(&json!({ "title": format!("poison {at}") })), &[]);
        let (_, made) = made.expect("the server answers");
        soak.poisoned.lock().expect("no panic").push(made["data"]["todoId"].as_str().expect("an id").to_owned());
    }
    let writers: Vec<Writer> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|at| {
                let (soak, random) = (&soak, Rng::with_seed(seed ^ (at + 1)));
                scope.spawn(move || Writer::run(soak, random))
            })
            .collect();
        let reader = scope.spawn(|| clients::read_lists(&soak));
        // A panic ends the clients too.
        let end = EndOfClients(&soak.is_over);
        let start = Instant::now();
        let mut told = start;
        for round in 0.. {
            if length.map_or(round >= SHORT, |length| start.elapsed() >= length) {
                break;
            }
            soak.round(&mut server, &mut random);
            assert!(!reader.is_finished(), "the reader has ended");
            if told.elapsed() > Duration::from_secs(60) {
                told = Instant::now();
                println!("{:>5} s: {}", start.elapsed().as_secs(), soak.counts);
            }
        }
        drop(end);
        reader.join().expect("the reader saw each todo once");
        writers.into_iter().map(|writer| writer.join().expect("its commands were executed")).collect()
    });
    println!("{}", soak.counts);

    soak.drop_dead_letters_until_none_is_left();
    for writer in &writers {
        writer.check(&soak);
    }
    let rebuilt = soak.events("rebuild todo todo --yes");
    assert_eq!(rebuilt.status, 0, "{rebuilt}");
    for writer in &writers {
        writer.check(&soak);
    }
    assert_eq!(server.process.stop(), Some(0));
    for line in ["verify todo", "rebuild todo todo --verify-only"] {
        let run = soak.events(line);
        assert_eq!(run.status, 0, "{run}");
    }
    let verified = nagaya(&["store", "verify", "--data", soak.data()]);
    assert_eq!(verified.status, 0, "{verified}");
}

/// Ends the clients when it is dropped.
struct EndOfClients<'s>(&'s AtomicBool);

impl Drop for EndOfClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Soak {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Soak {
            data: directory.path().join("data"),
            _directory: directory,
            api: RwLock::default(),
            is_over: AtomicBool::new(false),
            counts: Counts::default(),
            poisoned: Mutex::default(),
        }
    }

    fn data(&self) -> &str {
        self.data.to_str().expect("the path is text")
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Starts a server; clients use it from now on.
    fn serve(&self) -> ServeProcess {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
        command.current_dir(root());
        let server = ServeProcess::start(command, &["todo", "--log", "off", "--data", self.data()]);
        let token = match self.api.read().expect("no panic").1.as_str() {
            "" => server.token("todo"),
            // The key of the local issuer is in the directory, so a token outlives the server.
            known => known.to_owned(),
        };
        let api = server.system("todo")["api"].as_str().expect("a URL").to_owned();
        *self.api.write().expect("no panic") = (api, token);
        server
    }

    /// Runs `nagaya events`, beside the server if there is one.
    fn events(&self, line: &str) -> Run {
        let args: Vec<&str> = ["events"].into_iter().chain(line.split(' ')).chain(["--data", self.data()]).collect();
        nagaya_in(&args, "", &[("USER", "olga")])
    }

    /// Something an operator does, and then the end of the server, in the middle of it or after it.
    fn round(&self, server: &mut ServeProcess, random: &mut Rng) {
        thread::sleep(Duration::from_millis(random.u64(100..1_500)));
        match random.u8(0..6) {
            0 => self.check_beside_the_server("verify todo"),
            1 => self.check_beside_the_server("rebuild todo todo --verify-only"),
            2 => self.drop_dead_letters(),
            3 => drop(self.events("dlq retry todo --all")),
            4 => {
                let run = self.events("rebuild todo todo --yes");
                assert!(run.status < 2, "{run}");
                self.counts.add(&self.counts.rebuilds, u64::from(run.status == 0));
            }
            // It is killed with the server.
            _ => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
                command.args(["events", "rebuild", "todo", "todo", "--yes", "--data", self.data()]).current_dir(root());
                let rebuild = Process::start(&mut command);
                thread::sleep(Duration::from_millis(random.u64(0..800)));
                server.process.kill();
                drop(rebuild);
            }
        }
        if random.u8(0..4) == 0 {
            server.process.terminate();
        } else {
            server.process.kill();
        }
        server.process.wait();
        self.counts.add(&self.counts.ends, 1);
        match random.u8(0..4) {
            0 | 1 => self.poison(random),
            2 => {
                let run = self.events("verify todo");
                assert_eq!(run.status, 0, "{run}");
            }
            _ => {}
        }
        *server = self.serve();
    }

    /// A verification beside the server, where unknown events may wait.
    fn check_beside_the_server(&self, line: &str) {
        let run = self.events(&format!("{line} --json"));
        let result: Json = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run}"));
        let waits = result["parkedAggregates"].as_u64().unwrap_or(0) + result["aggregatesBehind"].as_u64().unwrap_or(0);
        assert!(run.status == 0 || run.status == 1 && waits > 0, "{run}");
        let mismatches = result["mismatchCount"].as_u64().unwrap_or(0);
        assert_eq!(mismatches, 0, "{run}");
    }

    /// Appends events that the server does not know, as a server of a newer version does.
    fn poison(&self, random: &mut Rng) {
        let ids: Vec<String> = {
            let poisoned = self.poisoned.lock().expect("no panic");
            poisoned.iter().filter(|_| random.bool()).cloned().collect()
        };
        newer::append_unknown_events(&self.data, &ids);
        self.counts.add(&self.counts.unknown_events, ids.len() as u64);
    }

    fn drop_dead_letters(&self) {
        let listed = self.events("dlq list todo --json");
        let listed: Json = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed}"));
        for letter in listed["deadLetters"].as_array().expect("a list") {
            let id = letter["id"].as_str().expect("an id");
            let run = self.events(&format!("dlq drop todo {id} --reason an-event-of-the-soak --yes"));
            // The next event of the todo may be unknown as well.
            assert!(run.status < 2, "{run}");
            self.counts.add(&self.counts.dropped, 1);
        }
    }

    /// Afterwards the projection verifies.
    fn drop_dead_letters_until_none_is_left(&self) {
        eventually(|| {
            self.drop_dead_letters();
            let run = self.events("rebuild todo todo --verify-only");
            if run.status == 0 { Ok(()) } else { Err(run.to_string()) }
        });
    }
}

/// A number that several threads add to.
type Count = AtomicU64;
