//! From arguments to a running server.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use nagaya_server::{Claims, Cors, Issuer, Limits, LocalIssuer, Mounted, Server, System, Verifier, issuer_routes};
use nagaya_store::{Clock, Store};
use tokio::net::TcpListener;

use super::{Args, Kind, show, watch};
use crate::{
    cli::{Outcome, source},
    systems,
};

/// A system on its store, and where it is served.
pub(super) struct Site {
    pub(super) system: System,
    pub(super) mount: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) mounted: Mounted,
}

pub(super) async fn listen(args: &Args) -> anyhow::Result<Outcome> {
    let address = args.reach.listen;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("{address} cannot be listened on; choose another one with --listen"))?;
    let url = match &args.reach.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://{}", listener.local_addr()?),
    };
    // Opening is mostly waiting for the disk: the rest is made ready meanwhile. A design that is somebody's own may be wrong,
    // and is looked at before anything is made.
    let built_in = args.system.as_deref().is_none_or(|name| systems::names().any(|known| known == name));
    let early = built_in.then(|| open(&args.place));
    let Some(systems) = chosen(args)? else { return Ok(Outcome::FoundProblem) };
    let opening = early.unwrap_or_else(|| open(&args.place));
    let issuer = issuer(args, &url)?;
    let remote = args.reach.issuer.as_deref().map(Issuer::remote).transpose()?;

    // The logs of this process, until it ends.
    let _logs = args.reach.logs.begin()?;
    let mut server = server(args)?;
    if let Some(issuer) = &issuer {
        server.routes(issuer_routes(Arc::clone(issuer)));
    }
    let alone = systems.len() == 1;
    let mut sites = Vec::new();
    let store = opening.await??;
    for system in systems {
        let nagaya = args.place.house(&system, Arc::clone(&store)).await?;
        let mount = if alone { String::new() } else { format!("/{}", system.name) };
        let verifier = verifier(args, &system, issuer.as_ref(), remote.as_ref());
        // An issuer that cannot be reached is told of now, not with the first request.
        verifier.prepare().await;
        let mounted = server.mount(&mount, system.clone(), nagaya, verifier);
        sites.push(Site { system, mount, store: Arc::clone(&store), mounted });
    }
    show::serving(args, &url, &sites, issuer.as_deref())?;
    if args.watch
        && let (Some(path), Some(site)) = (&args.system, sites.pop())
    {
        tokio::spawn(watch::watch(Path::new(path).to_owned(), args.place.clone(), site));
    }
    server.run(listener, stop()).await;
    Ok(Outcome::Fine)
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

fn server(args: &Args) -> anyhow::Result<Server> {
    let limits = Limits {
        body_bytes: args.limits.max_body,
        time: args.limits.timeout,
        concurrent: args.limits.max_requests,
        tenant_rate: args.limits.tenant_rate(),
        ..Limits::default()
    };
    let mut server = Server::new(limits);
    server.cors(Cors::new(&args.reach.cors_origins)?);
    server.trusted_proxies(args.reach.trusted_proxies);
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

/// When the process is told to stop.
pub(in crate::cli) async fn stop() {
    let interrupt = async {
        // Without a handler the signal ends the process, which is what it is for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        let terminate = async {
            match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! { () = interrupt => {}, () = terminate => {} }
    }
    #[cfg(not(unix))]
    interrupt.await;
}
