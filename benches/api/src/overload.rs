//! Clients that take what they can: how much memory they cost, and whether others are served meanwhile.

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bench_common::{
    cli::ReportArgs,
    machine::{Machine, forget_peak_of, peak_mb, sync},
    process::{Process, free_address},
    release::{ReleaseArgs, token},
};
use serde::Serialize;
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};

use crate::client::Client;

/// Documents of each tenant whose clients do not read.
const DOCUMENTS: u64 = 40;
/// The tenants whose clients do not read: together they may have as many requests in flight as the server.
const GREEDY: usize = 8;
/// Bytes of a document's content: items have at most 400 KB, and each character may need four bytes.
const CONTENT: usize = 95_000;
/// The tenant whose requests have to be answered meanwhile.
const OTHER: &str = "other";
/// Sockets of one client address; a server allows this many by default.
const PER_ADDRESS: usize = 1_000;
/// The time between two requests of the other tenant.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each case
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[command(flatten)]
    release: ReleaseArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// A kind of overload.
#[derive(Debug, Clone, Copy)]
struct Case {
    title: &'static str,
    sockets: usize,
    /// What each socket sends, before it waits without reading.
    sends: fn(token: &str, document: &str) -> Vec<u8>,
}

const CASES: [Case; 4] = [
    Case { title: "nothing else", sockets: 0, sends: |_, _| Vec::new() },
    Case {
        title: "1,000 connections that ask for the largest page and read nothing",
        sockets: 1_000,
        sends: |token, _| request("GET /documents?limit=100", token, ""),
    },
    Case {
        title: "1,000 connections that change the largest item and read nothing",
        sockets: 1_000,
        sends: |token, document| request(&format!("PATCH /documents/{document}"), token, r#"{"title":"A new title"}"#),
    },
    Case { title: "10,000 sockets that send one byte each", sockets: 10_000, sends: |_, _| b"G".to_vec() },
];

fn request(line: &str, token: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.seconds > 0, "--seconds has to be more than nothing");
    let nagaya = args.release.binary("overload")?;
    let scratch = args.report.scratch("bench-overload-")?;
    let machine = Machine::here(scratch.path(), "")?;
    let mut results = Vec::new();
    for (at, case) in CASES.iter().enumerate() {
        eprintln!("{}", case.title);
        // A server for each, so that no case inherits the memory of another.
        let server = Server::start(&nagaya, &scratch.path().join(at.to_string()))?;
        results.push(server.measure(case, Duration::from_secs(args.seconds))?);
    }
    let sync_after = sync(scratch.path())?;
    let report = Report { machine, sync_after, seconds: args.seconds, results };
    args.report.print(&report)?;
    let over: Vec<_> = report.results.iter().filter(|measured| !measured.meets_the_bar()).map(|one| one.title).collect();
    ensure!(over.is_empty(), "over a bar with {}", over.join(" and with "));
    Ok(())
}

struct Server {
    process: Process,
    address: SocketAddr,
    greedy: Vec<Greedy>,
    other: Client,
    other_path: String,
}

/// A tenant whose clients do not read.
struct Greedy {
    token: String,
    /// The id of one of its documents.
    document: String,
}

impl Server {
    /// Starts it with the limits that it has by default, and stores the documents.
    fn start(binary: &Path, folder: &Path) -> anyhow::Result<Self> {
        let (design, data): (PathBuf, PathBuf) = (folder.join("overload.toml"), folder.join("data"));
        fs::create_dir_all(&data)?;
        fs::write(&design, include_str!("../overload.toml"))?;
        let address = free_address()?;
        let mut serve = Command::new(binary);
        serve.arg("serve").arg(&design).args(["--listen", &address.to_string(), "--log", "error"]);
        serve.arg("--data").arg(&data);
        let mut process = Process::start("nagaya", serve, &folder.join("log"))?;
        let base = format!("http://{address}");
        let client = Client::new(&base, "");
        process.wait_until(Duration::from_millis(20), || client.get("/readyz").is_ok_and(|is| is.status == 200))?;

        let document = json!({ "title": "A large one", "content": "x".repeat(CONTENT) });
        let create = |client: &Client| -> anyhow::Result<String> {
            let created = client.post("/documents", &document)?.json()?;
            Ok(created["data"]["documentId"].as_str().context("a document has no id")?.to_owned())
        };
        let mut greedy = Vec::with_capacity(GREEDY);
        for at in 0..GREEDY {
            let token = token(binary, &design, &format!("greedy-{at}"), &data)?;
            let (owner, mut document) = (client.with(&token), String::new());
            for _ in 0..DOCUMENTS {
                document = create(&owner)?;
            }
            greedy.push(Greedy { token, document });
        }
        let other = client.with(&token(binary, &design, OTHER, &data)?);
        let small = json!({ "title": "A small one", "content": "" });
        let created = other.post("/documents", &small)?.json()?;
        let other_path = format!("/documents/{}", created["data"]["documentId"].as_str().context("there is no id")?);
        Ok(Server { process, address, greedy, other, other_path })
    }

    fn measure(&self, case: &Case, time: Duration) -> anyhow::Result<Measured> {
        self.process.settle()?;
        forget_peak_of(self.process.id())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let others = scope.spawn(|| self.request_until(&is_over));
            let sends = |greedy: &Greedy| (case.sends)(&greedy.token, &greedy.document);
            let sends: Vec<_> = self.greedy.iter().map(sends).collect();
            let sockets = runtime.block_on(self.connect(case.sockets, &sends));
            let start = Instant::now();
            while start.elapsed() < time {
                thread::sleep(Duration::from_millis(50));
            }
            is_over.store(true, Ordering::Relaxed);
            let (sockets, mut times) = (sockets?, others.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
            let answers = runtime.block_on(async { sockets.iter().map(status).collect::<Vec<_>>() });
            let with = |wanted: &str| answers.iter().filter(|status| status.as_deref() == Some(wanted)).count();
            times.sort_by(f64::total_cmp);
            let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
            Ok(Measured {
                title: case.title,
                peak_mb: peak_mb(self.process.id())?,
                answered: with("200"),
                refused: with("429") + with("503"),
                requests: times.len(),
                p50: at(0.5),
                p99: at(0.99),
                slowest: times.last().copied().unwrap_or_default(),
            })
        })
    }

    /// Opens sockets from several addresses, and sends something on each, in turn.
    async fn connect(&self, count: usize, sends: &[Vec<u8>]) -> anyhow::Result<Vec<TcpStream>> {
        let mut sockets = Vec::with_capacity(count);
        for at in 0..count {
            let socket = TcpSocket::new_v4()?;
            // Not this host's usual address, which the requests of the other tenant have.
            let host = u8::try_from(2 + at / PER_ADDRESS)?;
            socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)))?;
            socket.set_recv_buffer_size(4_096)?;
            let stream = socket.connect(self.address).await.context("a socket cannot be opened")?;
            stream.writable().await?;
            let sends = &sends[at % sends.len()];
            let sent = stream.try_write(sends)?;
            ensure!(sent == sends.len(), "a request does not fit into the buffer of its socket");
            sockets.push(stream);
        }
        Ok(sockets)
    }

    /// Sends requests of the other tenant until this is over; milliseconds of each. Any unsuccessful one is an error.
    fn request_until(&self, is_over: &AtomicBool) -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let start = Instant::now();
            self.other.get(&self.other_path)?.json().context("the other tenant is not served")?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            thread::sleep(PAUSE);
        }
        Ok(times)
    }
}

/// The status of an answer that has begun; `None`: there is none, or the connection is closed.
fn status(socket: &TcpStream) -> Option<String> {
    let mut start = [0; 12];
    let read = socket.try_read(&mut start).ok()?;
    Some(String::from_utf8_lossy(start.get(9..read)?).into_owned())
}

#[derive(Debug, Serialize)]
struct Measured {
    title: &'static str,
    peak_mb: f64,
    answered: usize,
    refused: usize,
    requests: usize,
    p50: f64,
    p99: f64,
    slowest: f64,
}

impl Measured {
    fn meets_the_bar(&self) -> bool {
        self.peak_mb < PEAK_BAR && self.requests > 0 && self.slowest < SLOWEST_BAR
    }
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    sync_after: f64,
    seconds: u64,
    results: Vec<Measured>,
}

/// The most resident memory of the server, in MB.
const PEAK_BAR: f64 = 400.0;
/// The slowest request of the other tenant, in milliseconds.
const SLOWEST_BAR: f64 = 1_000.0;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## Overload\n")?;
        writeln!(f, "{}", self.machine.rows(self.sync_after))?;
        writeln!(
            f,
            "`cargo xtask bench overload --seconds {}`. One server for each row, with the limits that it has by default. All \
             sockets are of {GREEDY} tenants; meanwhile another tenant reads an item every {} ms, from another address. All of its \
             requests were answered 200. Peak: the most resident memory of the server. Bars: {PEAK_BAR} MB, and {SLOWEST_BAR} ms for \
             the slowest request of the other tenant.\n",
            self.seconds,
            PAUSE.as_millis(),
        )?;
        writeln!(
            f,
            "| meanwhile | peak MB | 200 | 429 or 503 | requests of the other tenant | p50 ms | p99 ms | slowest ms |"
        )?;
        writeln!(f, "|---|--:|--:|--:|--:|--:|--:|--:|")?;
        for measured in &self.results {
            let Measured { title, peak_mb, answered, refused, requests, p50, p99, slowest } = measured;
            let verdict = if measured.meets_the_bar() { "" } else { " **over the bar**" };
            writeln!(
                f,
                "| {title} | {peak_mb:.0}{verdict} | {answered} | {refused} | {requests} | {p50:.1} | {p99:.1} | {slowest:.1} |"
            )?;
        }
        Ok(())
    }
}
