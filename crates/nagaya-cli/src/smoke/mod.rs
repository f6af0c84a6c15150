//! `nagaya smoke`: an end-to-end check of a system's API.

use std::{io::Write as _, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use nagaya_server::{
    Claims, Grant, Issuer, Limits, LocalIssuer, Server, System, Verifier,
    smoke::{SmokeClient, SmokeReport, StoredTable},
};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::IdGenerator;
use serde_json::json;
use tokio::{net::TcpListener, runtime::Handle, sync::oneshot};

use super::{
    Outcome,
    serve::{EmbeddedStoreArgs, KeyFiles, OpenedStore, StoreArgs, StoreKind, Tables},
};
use crate::{systems, tables::KmsKey};

/// How long a token of this test is valid.
const TOKEN_LIFETIME: Duration = Duration::from_secs(900);

/// Run an end-to-end check of a system's API
///
/// The check uses users of its own, so that no other data is touched; the user of a given token must have no data. At the end
/// it deletes what it has created, as far as the API allows. On a store that it can read, it also reads an item back from the
/// table by its key.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya smoke kondate                                  on a server of its own, in memory\n  \
                        nagaya smoke kondate --url http://127.0.0.1:8080      on a running server, with the keys in ./nagaya-data\n  \
                        DATA_STORE_DRIVER=dynamodb nagaya smoke kondate --url https://api.example --token $TOKEN\n\nExits with \
                        1 when a step fails."
)]
pub(super) struct Args {
    /// A built-in system that has such a check
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// The URL of a running server; without it one is started for the check
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A token for that server, of a user made for this; by default two of the local issuer in the data directory
    #[arg(long, value_name = "TOKEN", env = "NAGAYA_TOKEN", hide_env_values = true, requires = "url")]
    token: Option<String>,
    #[command(flatten)]
    store: SmokeStoreArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The store; in memory by default.
#[derive(Debug, clap::Args)]
struct SmokeStoreArgs {
    /// The directory of the embedded store and of the keys that sign tokens
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    data: std::path::PathBuf,
    /// The store that an item is read back from
    #[arg(long = "store", value_name = "STORE", value_enum, default_value = "memory", env = "DATA_STORE_DRIVER")]
    kind: StoreKind,
    /// The value of `{base}` in table names; by default the design's name
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    base: Option<String>,
    #[command(flatten)]
    directory: EmbeddedStoreArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let SmokeStoreArgs { data, kind, base, directory } = &args.store;
    let opened = OpenedStore::default();
    let (data, base, directory) = (data.clone(), base.clone(), directory.clone());
    let audit_retention = nagaya_tenancy::DEFAULT_AUDIT_RETENTION_DAYS;
    let store = StoreArgs { data, kind: *kind, base, audit_retention, directory, opened };
    let system = systems::find(&args.system, &store.resources())?;
    let Some((system, test)) = system.and_then(|system| system.smoke_test.map(|test| (system, test))) else {
        let all = systems::all(&systems::Resources::default())?;
        let known: Vec<_> =
            all.iter().filter(|system| system.smoke_test.is_some()).map(|system| system.name.as_str()).collect();
        bail!("there is no smoke test of `{}` yet; available: {}", args.system, known.join(", "));
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (client, _stop) = match &args.url {
        Some(url) => (runtime.block_on(connect_to_running(url, args.token.as_deref(), &store, &system))?, None),
        None => runtime.block_on(start_server(&store, &system)).map(|(client, stop)| (client, Some(stop)))?,
    };
    let mut report = SmokeReport::new(!args.json);
    let result = test(&client, &mut report);
    if args.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{:#}", json!({ "url": client.base(), "ok": result.is_ok(), "steps": report.json() }))?;
    }
    match result {
        Ok(()) => {
            eprintln!("{}", report.summary());
            Ok(Outcome::Fine)
        }
        Err(error) => {
            eprintln!("{error}");
            Ok(Outcome::FoundProblem)
        }
    }
}

/// Starts a server for the check, which stops when the sender is dropped.
async fn start_server(store: &StoreArgs, system: &System) -> anyhow::Result<(SmokeClient, oneshot::Sender<()>)> {
    let opened = store.open().await?;
    let nagaya = store
        .open_system(
            system,
            Arc::clone(&opened),
            &Tables::Create(KmsKey::default()),
            KeyFiles::created_with_store(store.kind),
        )
        .await?;
    let issuer = Arc::new(LocalIssuer::in_memory()?);
    let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system());
    let verifier = verifier.trust(&Issuer::local(&issuer), &system.name)?;
    let mut server = Server::new(Limits::default());
    server.mount("", system.clone(), nagaya, verifier);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(listener, async { drop(stopped.await) }));

    let table = Some(stored_table(store, system, opened));
    Ok((SmokeClient::new(&url, &system.design.http_prefix, issue_tokens(&issuer, system)?, table), stop))
}

/// A client of a running server.
async fn connect_to_running(
    url: &str,
    given: Option<&str>,
    store: &StoreArgs,
    system: &System,
) -> anyhow::Result<SmokeClient> {
    let tokens = match given {
        Some(token) => [token.to_owned(), token.to_owned()],
        None => {
            // No server accepts tokens of keys that it does not have.
            if !store.data.join("issuer").is_dir() {
                bail!("{} has no keys to sign a token with: name --data, or give a --token", store.data.display());
            }
            issue_tokens(&LocalIssuer::open(&store.data)?, system)?
        }
    };
    // A directory belongs to the server that has it open; only a shared store can be read beside the server.
    let table = match store.kind {
        StoreKind::Embedded | StoreKind::Memory => None,
        StoreKind::Dynamodb | StoreKind::Cosmos => Some(stored_table(store, system, store.open().await?)),
    };
    let client = SmokeClient::new(url, &system.design.http_prefix, tokens, table);
    let name = system.name.clone();
    let located = tokio::task::spawn_blocking(move || client.locate(&name)).await;
    located.context("the server cannot be asked")?.map_err(|error| anyhow!(error))
}

/// Tokens of two new users.
fn issue_tokens(issuer: &LocalIssuer, system: &System) -> anyhow::Result<[String; 2]> {
    let now = Clock::system().millis();
    let user = || format!("smoke-{}", IdGenerator::random().ulid(now).to_lowercase());
    Ok([issue_token(issuer, system, &user())?, issue_token(issuer, system, &user())?])
}

fn issue_token(issuer: &LocalIssuer, system: &System, user: &str) -> anyhow::Result<String> {
    let claims = Claims::from_design(&system.design);
    let (audience, tenant) = (system.name.as_str(), Some(user));
    Ok(issuer.issue(&Grant {
        audience,
        claims: &claims,
        user,
        tenant,
        roles: &[],
        member_of: &[],
        ttl: TOKEN_LIFETIME,
    })?)
}

/// The first table of the system in its store.
fn stored_table(args: &StoreArgs, system: &System, store: Arc<dyn Store>) -> StoredTable {
    let settings = args.settings(&system.name);
    let base = settings.base.as_deref().unwrap_or(&system.design.name);
    let name = system.design.tables.first().map(|table| table.physical_name(base)).unwrap_or_default();
    StoredTable { store, name: format!("{}{name}", settings.prefix), runtime: Handle::current() }
}
