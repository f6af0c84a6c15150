//! From arguments to a running server.

use std::{path::PathBuf, sync::Arc, time::Instant};

use anyhow::Context as _;
use nagaya_server::{
    Claims, Issuer, IssuerError, LocalIssuer, MountedSystem, Server, System, Verifier, issuer_routes,
    raise_open_files_limit,
};
use nagaya_store::{Clock, MeteredStore, Store};
use tokio::net::TcpListener;

use super::{Args, KeyFiles, StoreArgs, StoreKind, limits::OnStoreFailure, prune, show, tokens::Audiences, watch};
use crate::{
    Outcome, source,
    systems::{self, Resources},
};

/// What the server logs about itself.
const TARGET: &str = "nagaya::server";

/// The keys of the local issuer in the data directory.
const ISSUER_KEYS: &str = "issuer/keys.json";

/// A system on its store, and where it is served.
pub(super) struct Served {
    pub(super) system: System,
    /// The built-in name or the file that it was given by.
    pub(super) given: String,
    pub(super) mount: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) mounted: MountedSystem,
}

pub(super) async fn listen(args: &Args) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    // Before the store is opened, which logs.
    let _logs = args.logs.init()?;
    // Before anything is created.
    args.network.check()?;
    let tls = args.network.tls()?;
    let file_handles = raise_open_files_limit();
    survive_file_size_limit();
    let address = args.network.address();
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another address with --listen or --port"))?;
    let admin = args.network.admin_listener(&listener).await?;
    let (url, admin_address) = (args.network.url(&listener)?, admin.local_addr()?);
    // Opening is mostly waiting for the disk: the rest is prepared meanwhile. The design of a user may be wrong, and is read
    // before anything is created.
    let built_in = args.systems.iter().all(|name| systems::design_text(name).is_some());
    // The audiences may be wrong too.
    let early = (built_in && args.network.api.issuer.is_none()).then(|| open(&args.store));
    let Some(systems) = chosen(args)? else { return Ok(Outcome::FoundProblem) };
    let audiences = audiences(args, &systems)?;
    let opening = early.unwrap_or_else(|| open(&args.store));
    let remote = args.network.api.issuer.as_deref().map(Issuer::remote).transpose()?;

    let mut server = server(args, file_handles)?;
    server.started(began);
    server.admin_listener(admin);
    if let Some(tls) = tls {
        server.tls(tls);
    }
    let measured = Arc::new(MeteredStore::new(opening.await??));
    // After the store: no keys are created in a directory that is refused.
    let issuer = issuer(args, &url)?;
    args.store.remember_key(ISSUER_KEYS).await?;
    if let Some(issuer) = &issuer {
        server.add_routes(issuer_routes(Arc::clone(issuer)));
        // A public URL means that others can reach the server, even if a proxy does that from this machine.
        if args.network.public_url.is_none() {
            server.sign_in_with(issuer);
        }
    }
    server.show_store_metrics(Arc::clone(&measured));
    let trusted = Trusted { local: issuer.as_ref(), remote: remote.as_ref(), audiences: &audiences };
    let served = mount(args, &mut server, measured, systems, &trusted).await?;
    // Before the banner: whoever stops the server after it gets an orderly stop.
    let stopped = stop_signal();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(target: TARGET, version, address = %listener.local_addr()?, admin = %admin_address, store = args.store.describe(), "started");
    show::serving(args, &url, admin_address, &served, issuer.as_deref())?;
    if args.watch {
        for each in served.into_iter().filter(|each| systems::design_text(&each.given).is_none()) {
            tokio::spawn(watch::watch(PathBuf::from(&each.given), args.store.clone(), args.tables(), each));
        }
    }
    run(args, server, listener, stopped).await
}

/// Opens the systems on the store, and mounts them.
async fn mount(
    args: &Args,
    server: &mut Server,
    store: Arc<dyn Store>,
    systems: Vec<(String, System)>,
    trusted: &Trusted<'_>,
) -> anyhow::Result<Vec<Served>> {
    let alone = systems.len() == 1;
    let mut served = Vec::new();
    for (given, system) in systems {
        let nagaya = args.store.open_system(&system, Arc::clone(&store), &args.tables(), KeyFiles::Create).await?;
        let mount = if alone { String::new() } else { format!("/{}", system.name) };
        let (revocations, follower) = args.network.api.tokens.revocations(&args.store, &nagaya, &system.name).await?;
        if let Some(follower) = follower {
            tokio::spawn(follower.follow());
        }
        let verifier = verifier(args, &system, trusted)?.revocations(&revocations);
        // An issuer that cannot be reached is reported now, not with the first request.
        verifier.fetch_keys().await;
        tokio::spawn(prune::prune(nagaya.clone(), system.name.clone()));
        let mounted = server.mount(&mount, system.clone(), nagaya, verifier);
        served.push(Served { system, given, mount, store: Arc::clone(&store), mounted });
    }
    Ok(served)
}

/// Serves until the process is told to stop, or its store has failed for good.
async fn run(
    args: &Args,
    server: Server,
    listener: TcpListener,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<Outcome> {
    let failing = server.wait_for_store_failure(args.ending.store_failure_timeout);
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
fn chosen(args: &Args) -> anyhow::Result<Option<Vec<(String, System)>>> {
    let resources = Resources { is_production: args.network.is_production(), ..args.store.resources() };
    let resources = args.plans.add_to(resources)?;
    if args.systems.is_empty() {
        let all = systems::all(&resources)?;
        return Ok(Some(all.into_iter().map(|system| (system.name.clone(), system)).collect()));
    }
    source::systems(&args.systems, args.store.kind.engine(), &resources)
}

/// Begins to open the store.
fn open(store: &StoreArgs) -> tokio::task::JoinHandle<anyhow::Result<Arc<dyn Store>>> {
    let store = store.clone();
    tokio::spawn(async move { store.open().await })
}

fn server(args: &Args, file_handles: Option<u64>) -> anyhow::Result<Server> {
    let mut limits = args.limits.within(file_handles);
    if args.network.behind_proxy {
        limits.connections_per_address = usize::MAX;
    }
    let mut server = Server::new(limits);
    server.cors(args.network.api.cors()?);
    server.trusted_proxies(args.network.trusted_proxies());
    server.shutdown_delay(args.ending.shutdown_delay(args.network.address()));
    server.slow_request(args.limits.slow_request);
    Ok(server)
}

/// The issuer in the data directory, in development.
fn issuer(args: &Args, url: &str) -> anyhow::Result<Option<Arc<LocalIssuer>>> {
    if args.network.is_production() {
        return Ok(None);
    }
    args.store.refuse_lost_key(ISSUER_KEYS)?;
    let issuer = match args.store.kind {
        StoreKind::Memory => LocalIssuer::in_memory()?,
        StoreKind::Embedded | StoreKind::Dynamodb | StoreKind::Cosmos => LocalIssuer::open(&args.store.data)?,
    };
    issuer.set_url(url)?;
    Ok(Some(Arc::new(issuer)))
}

/// The audiences of the systems, if there is a remote issuer.
fn audiences(args: &Args, systems: &[(String, System)]) -> anyhow::Result<Audiences> {
    let names: Vec<_> = systems.iter().map(|(_, system)| system.name.as_str()).collect();
    match args.network.api.issuer {
        Some(_) => Audiences::parse(&args.network.api.audience, &names),
        None => Ok(Audiences::default()),
    }
}

/// Whose tokens are accepted.
struct Trusted<'a> {
    local: Option<&'a Arc<LocalIssuer>>,
    remote: Option<&'a Issuer>,
    /// The audiences of the remote issuer's tokens.
    audiences: &'a Audiences,
}

/// Whose tokens a system accepts: of the local issuer those for the system, of the other one those for its audiences.
fn verifier(args: &Args, system: &System, trusted: &Trusted<'_>) -> Result<Verifier, IssuerError> {
    let mut verifier =
        args.network.api.tokens.apply(Verifier::new(Claims::from_design(&system.design), Clock::system()));
    if let Some(local) = trusted.local {
        verifier = verifier.trust(&Issuer::local(local), &system.name)?;
    }
    if let Some(remote) = trusted.remote {
        for audience in trusted.audiences.of(&system.name) {
            verifier = verifier.trust(remote, audience)?;
        }
    }
    Ok(verifier)
}

/// Lets a write beyond the file size limit (`ulimit -f`) fail, instead of ending the process.
fn survive_file_size_limit() {
    #[cfg(unix)]
    {
        // The same number on Linux, macOS and the BSDs.
        const SIGXFSZ: i32 = 25;
        let kind = tokio::signal::unix::SignalKind::from_raw(SIGXFSZ);
        // A signal with a handler has no other effect. Without one nothing changes.
        let _ = tokio::signal::unix::signal(kind);
    }
}

/// Waits for SIGINT, SIGTERM or SIGHUP (the terminal is gone); signals count from the call on. After `nohup`, SIGHUP stays without
/// effect.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{Signal, SignalKind, signal};
        // Without a handler the signal ends the process.
        let received = |signal: std::io::Result<Signal>| async {
            match signal {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        let [interrupt, terminate] =
            [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| received(signal(kind)));
        // A handler would take the place of what `nohup` has set.
        let hangup = match ignores_hangup() {
            true => Err(std::io::ErrorKind::Unsupported.into()),
            false => signal(SignalKind::hangup()),
        };
        let hangup = received(hangup);
        async move {
            tokio::select! { () = interrupt => {}, () = terminate => {}, () = hangup => {} }
        }
    }

    #[cfg(not(unix))]
    async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether this process ignores SIGHUP. Linux alone says so without unsafe code; elsewhere the answer is no.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    /// The bit of signal 1.
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & HANGUP != 0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use nagaya_store::Health;
    use nagaya_tenancy::Nagaya;
    use nagaya_testing::{InstrumentedStore, ManualClock, memory_store};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    /// Serves on a store that has failed.
    async fn serve(line: &str) -> Outcome {
        let Cli { args } = Cli::try_parse_from(line.split(' ')).expect("the line is fine");
        let system = chosen(&args).expect("it is built in").expect("it is sound").remove(0).1;
        let store = InstrumentedStore::new(memory_store(&ManualClock::default()));
        store.set_health(Health::Unavailable("the disk is gone".to_owned()));
        let nagaya = Nagaya::open(system.design.clone(), store);
        let mut server = server(&args, None).expect("the settings are fine");
        let trusted = Trusted { local: None, remote: None, audiences: &Audiences::default() };
        let verifier = verifier(&args, &system, &trusted).expect("no issuer");
        server.mount("", system, nagaya, verifier);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        run(&args, server, listener, stop_signal()).await.expect("it runs")
    }

    #[tokio::test]
    async fn a_store_that_does_not_recover_ends_the_process_if_that_is_wanted() {
        let line = "serve aiagent --store memory --store-failure-timeout 0.05";
        assert_eq!(serve(&format!("{line} --on-store-failure exit")).await, Outcome::FoundProblem);
        let goes_on = tokio::time::timeout(std::time::Duration::from_millis(300), serve(line)).await;
        assert!(goes_on.is_err(), "by default the store opens itself again");
    }
}
