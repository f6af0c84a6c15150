//! From arguments to a running server.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::Context as _;
use nagaya_server::{
    Claims, Cors, Issuer, LocalIssuer, Mounted, Server, System, Verifier, issuer_routes, raise_file_handles,
};
use nagaya_store::{Clock, Measured, Store};
use tokio::net::TcpListener;

use super::{Args, Kind, limits::OnStoreFailure, show, watch};
use crate::{
    cli::{Outcome, source},
    systems,
};

/// What the server logs about itself.
const TARGET: &str = "nagaya::server";

/// A system on its store, and where it is served.
pub(super) struct Site {
    pub(super) system: System,
    pub(super) mount: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) mounted: Mounted,
}

pub(super) async fn listen(args: &Args) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    // The logs of this process, until it ends; before the store is opened, which may have something to say.
    let _logs = args.reach.logs.begin()?;
    let file_handles = raise_file_handles();
    survive_file_size_limit();
    let address = args.reach.listen;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("{address} cannot be listened on; choose another one with --listen"))?;
    let url = match &args.reach.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://{}", listener.local_addr()?),
    };
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(target: TARGET, version, address = %listener.local_addr()?, store = args.place.describe(), "started");
    // Opening is mostly waiting for the disk: the rest is made ready meanwhile. A design that is somebody's own may be wrong,
    // and is looked at before anything is made.
    let built_in = args.system.as_deref().is_none_or(|name| systems::names().any(|known| known == name));
    let early = built_in.then(|| open(&args.place));
    let Some(systems) = chosen(args)? else { return Ok(Outcome::FoundProblem) };
    let opening = early.unwrap_or_else(|| open(&args.place));
    let remote = args.reach.issuer.as_deref().map(Issuer::remote).transpose()?;

    let mut server = server(args, file_handles)?;
    server.began(began);
    let alone = systems.len() == 1;
    let mut sites = Vec::new();
    let measured = Arc::new(Measured::new(opening.await??));
    // After the store: no keys are made in a directory that is refused.
    let issuer = issuer(args, &url)?;
    if let Some(issuer) = &issuer {
        server.routes(issuer_routes(Arc::clone(issuer)));
        server.sign_in_with(issuer);
    }
    server.measure_store(Arc::clone(&measured));
    let store: Arc<dyn Store> = measured;
    for system in systems {
        let nagaya = args.place.house(&system, Arc::clone(&store), args.tables()).await?;
        let mount = if alone { String::new() } else { format!("/{}", system.name) };
        let verifier = verifier(args, &system, issuer.as_ref(), remote.as_ref());
        // An issuer that cannot be reached is told of now, not with the first request.
        verifier.prepare().await;
        let mounted = server.mount(&mount, system.clone(), nagaya, verifier);
        sites.push(Site { system, mount, store: Arc::clone(&store), mounted });
    }
    // Before anybody is told that this serves: whoever stops it then stops it in order.
    let stopped = stop();
    show::serving(args, &url, &sites, issuer.as_deref())?;
    if args.watch
        && let (Some(path), Some(site)) = (&args.system, sites.pop())
    {
        tokio::spawn(watch::watch(Path::new(path).to_owned(), args.place.clone(), args.tables(), site));
    }
    run(args, server, listener, stopped).await
}

/// Serves until the process is told to stop, or its store has failed for good.
async fn run(
    args: &Args,
    server: Server,
    listener: TcpListener,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<Outcome> {
    let failing = server.store_failed(args.ending.store_failure_timeout);
    let mut cause = None;
    let ended = async {
        match args.ending.on_store_failure {
            OnStoreFailure::Reopen => stopped.await,
            OnStoreFailure::Exit => tokio::select! {
                () = stopped => {}
                reason = failing => {
                    tracing::error!(target: TARGET, reason, "the store does not recover: the process ends");
                    cause = Some(reason);
                }
            },
        }
    };
    server.run(listener, ended).await;
    Ok(if cause.is_none() { Outcome::Fine } else { Outcome::FoundProblem })
}

/// The systems to serve; `None` after showing what is wrong with a design.
fn chosen(args: &Args) -> anyhow::Result<Option<Vec<System>>> {
    let notes = args.place.notes();
    match &args.system {
        None => systems::all(&notes).map(Some),
        Some(name) => Ok(source::system(name, args.place.store.engine(), &notes)?.map(|system| vec![system])),
    }
}

/// Begins to open the store.
fn open(place: &super::Place) -> tokio::task::JoinHandle<anyhow::Result<Arc<dyn Store>>> {
    let place = place.clone();
    tokio::spawn(async move { place.open().await })
}

fn server(args: &Args, file_handles: Option<u64>) -> anyhow::Result<Server> {
    let mut server = Server::new(args.limits.within(file_handles));
    server.cors(Cors::new(&args.reach.cors_origins)?);
    server.trusted_proxies(args.reach.trusted_proxies);
    server.grace(args.ending.grace(args.reach.listen));
    server.slow_request(args.ending.slow_request);
    Ok(server)
}

/// The issuer in the data directory, unless it is not wanted.
fn issuer(args: &Args, url: &str) -> anyhow::Result<Option<Arc<LocalIssuer>>> {
    if args.reach.no_local_issuer {
        return Ok(None);
    }
    let issuer = match args.place.store {
        Kind::Memory => LocalIssuer::in_memory()?,
        Kind::Embedded | Kind::Dynamodb | Kind::Cosmos => LocalIssuer::open(&args.place.data)?,
    };
    issuer.set_url(url)?;
    Ok(Some(Arc::new(issuer)))
}

/// Whose tokens a system takes: of the local issuer those for the system, of the other one those for the audience.
fn verifier(args: &Args, system: &System, local: Option<&Arc<LocalIssuer>>, remote: Option<&Issuer>) -> Verifier {
    let mut verifier = Verifier::new(Claims::of(&system.design), Clock::system());
    if let Some(local) = local {
        verifier = verifier.trust(&Issuer::local(local), &system.name);
    }
    if let (Some(remote), Some(audience)) = (remote, &args.reach.audience) {
        verifier = verifier.trust(remote, audience);
    }
    verifier
}

/// A file that reaches the limit of its size (`ulimit -f`) is a failed write, which the store answers for, and not the end of
/// the process.
fn survive_file_size_limit() {
    #[cfg(unix)]
    {
        // The same number on Linux, macOS and the BSDs.
        const SIGXFSZ: i32 = 25;
        let kind = tokio::signal::unix::SignalKind::from_raw(SIGXFSZ);
        // Once it is listened for, the signal does nothing else. Whoever cannot listen is where it was before.
        let _ = tokio::signal::unix::signal(kind);
    }
}

/// Ends when the process is told to stop, from the call of this on.
pub(in crate::cli) fn stop() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{Signal, SignalKind, signal};
        // Without a handler the signal ends the process, which is what it is for.
        let received = |signal: std::io::Result<Signal>| async {
            match signal {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        async move {
            tokio::select! { () = received(interrupt) => {}, () = received(terminate) => {} }
        }
    }
    #[cfg(not(unix))]
    async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use nagaya_embedded::{Embedded, Options};
    use nagaya_store::{
        Answer, Capabilities, Changes, From, Health, Item, Key, Page, Query, Scan, TableSpec, WriteSet, Written,
    };
    use nagaya_tenancy::Nagaya;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    /// A store that has failed for good.
    struct Failed(Embedded);

    impl Store for Failed {
        fn capabilities(&self) -> Capabilities {
            self.0.capabilities()
        }

        fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
            self.0.ensure(tables)
        }

        fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
            self.0.get(table, key)
        }

        fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
            self.0.batch_get(keys)
        }

        fn query(&self, query: Query) -> Answer<'_, Page> {
            self.0.query(query)
        }

        fn scan(&self, scan: Scan) -> Answer<'_, Page> {
            self.0.scan(scan)
        }

        fn write(&self, set: WriteSet) -> Answer<'_, Written> {
            self.0.write(set)
        }

        fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
            self.0.changes(table, from, limit)
        }

        fn health(&self) -> Health {
            Health::Unavailable("the disk is gone".to_owned())
        }
    }

    /// Serves on a store that has failed.
    async fn serve(line: &str) -> Outcome {
        let Cli { args } = Cli::try_parse_from(line.split(' ')).expect("the line is fine");
        let system = chosen(&args).expect("it is built in").expect("it is sound").remove(0);
        let nagaya = Nagaya::open(system.design.clone(), Failed(Embedded::memory(Options::default()).expect("memory")));
        let mut server = server(&args, None).expect("the settings are fine");
        let verifier = verifier(&args, &system, None, None);
        server.mount("", system, nagaya, verifier);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        run(&args, server, listener, stop()).await.expect("it runs")
    }

    #[tokio::test]
    async fn a_store_that_does_not_recover_ends_the_process_if_that_is_wanted() {
        let line = "serve aiagent --store memory --store-failure-timeout 0.05";
        assert_eq!(serve(&format!("{line} --on-store-failure exit")).await, Outcome::FoundProblem);
        let goes_on = tokio::time::timeout(std::time::Duration::from_millis(300), serve(line)).await;
        assert!(goes_on.is_err(), "by default the store opens itself again");
    }
}
