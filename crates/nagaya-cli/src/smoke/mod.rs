//! `nagaya smoke`: the whole path of a system's API, once, as its users go it.

mod client;
mod kondate;
mod walk;

use std::{io::Write as _, sync::Arc, time::Duration};

use anyhow::bail;
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Server, System, Verifier};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::Ids;
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot};

use self::{client::Client, walk::Walk};
use super::{
    Outcome,
    serve::{Directory, Kind, Place, Tables},
};
use crate::systems;

/// How long a token of this walk is good.
const WALK: Duration = Duration::from_secs(900);

/// Go the whole path of a system's API once, and say what works
///
/// Users of their own are made up for it, so that nobody's data is touched; the user of a token that is given has to be
/// without any. What it makes, it deletes at the end, except a purchase and a canceled subscription. A recipe that it has made
/// is read back from the table by its key.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya smoke kondate                                  a server of its own, in memory\n  \
                        nagaya smoke kondate --url http://127.0.0.1:8080      one that runs, with the keys in ./nagaya-data\n  \
                        DATA_STORE_DRIVER=dynamodb nagaya smoke kondate --url https://api.example --token $TOKEN\n\nEnds with \
                        1 when a step fails."
)]
pub(super) struct Args {
    /// The system: kondate
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// A server that runs; without it one is started for this, and ends with it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A token for that server, of a user made for this; two of the local issuer in the data directory otherwise
    #[arg(long, value_name = "TOKEN", env = "NAGAYA_TOKEN", hide_env_values = true, requires = "url")]
    token: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Where the data is; in memory unless something else is said, for a walk is no reason to keep anything.
#[derive(Debug, clap::Args)]
struct Where {
    /// The directory with the embedded store, and with the keys that make tokens
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    data: std::path::PathBuf,
    /// The store that the recipe is read back from
    #[arg(long, value_enum, default_value = "memory", env = "DATA_STORE_DRIVER")]
    store: Kind,
    /// What `{base}` in table names stands for; the design's name otherwise
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    base: Option<String>,
    #[command(flatten)]
    directory: Directory,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Where { data, store, base, directory } = &args.place;
    let place = Place { data: data.clone(), store: *store, base: base.clone(), directory: directory.clone() };
    if args.system != "kondate" {
        bail!("there is no path for `{}` yet; there is one for kondate", args.system);
    }
    let Some(system) = systems::find(&args.system, &place.notes())? else { bail!("there is no {}", args.system) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let site = match &args.url {
        Some(url) => runtime.block_on(running(url, args.token.as_deref(), &place, &system))?,
        None => runtime.block_on(started(&place, &system))?,
    };
    let mut walk = Walk::new(!args.json);
    let gone = kondate::go(&mut walk, &site, &runtime);
    if args.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{:#}", json!({ "url": site.client.base(), "ok": gone.is_ok(), "steps": walk.json() }))?;
    }
    match gone {
        Ok(()) => {
            eprintln!("{}", walk.summary());
            Ok(Outcome::Fine)
        }
        Err(error) => {
            eprintln!("{error:#}");
            Ok(Outcome::FoundProblem)
        }
    }
}

/// What is walked on.
struct Site {
    client: Client,
    /// What can be looked into, and the name of the table there.
    table: Option<(Arc<dyn Store>, String)>,
    _stop: Option<oneshot::Sender<()>>,
}

/// A server for this alone.
async fn started(place: &Place, system: &System) -> anyhow::Result<Site> {
    let store = place.open().await?;
    let nagaya = place.house(system, Arc::clone(&store), Tables::Create).await?;
    let issuer = Arc::new(LocalIssuer::in_memory()?);
    let verifier = Verifier::new(Claims::of(&system.design), Clock::system());
    let verifier = verifier.trust(&Issuer::local(&issuer), &system.name);
    let mut server = Server::new(Limits::default());
    server.mount("", system.clone(), nagaya, verifier);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(listener, async { drop(stopped.await) }));

    let (cook, guest) = people();
    let tokens = [token(&issuer, system, &cook)?, token(&issuer, system, &guest)?];
    let table = Some((store, table(place, system)));
    Ok(Site { client: Client::new(&url, tokens), table, _stop: Some(stop) })
}

/// A server that runs already.
async fn running(url: &str, given: Option<&str>, place: &Place, system: &System) -> anyhow::Result<Site> {
    let tokens = match given {
        Some(token) => [token.to_owned(), token.to_owned()],
        None => {
            // Keys that no server uses would make tokens that no server takes.
            if !place.data.join("issuer").is_dir() {
                bail!("{} has no keys to make a token with: name --data, or give a --token", place.data.display());
            }
            let issuer = LocalIssuer::open(&place.data)?;
            let (cook, guest) = people();
            [token(&issuer, system, &cook)?, token(&issuer, system, &guest)?]
        }
    };
    let client = Client::new(url, tokens).found(&system.name)?;
    // A directory belongs to the server that has it open; only a store that several reach can be looked into.
    let table = match place.store {
        Kind::Embedded | Kind::Memory => None,
        Kind::Dynamodb | Kind::Cosmos => Some((place.open().await?, table(place, system))),
    };
    Ok(Site { client, table, _stop: None })
}

/// Two who have never been there.
fn people() -> (String, String) {
    let now = Clock::system().millis();
    let id = || format!("smoke-{}", Ids::random().ulid(now).to_lowercase());
    (id(), id())
}

fn token(issuer: &LocalIssuer, system: &System, user: &str) -> anyhow::Result<String> {
    let claims = Claims::of(&system.design);
    let (audience, tenant) = (system.name.as_str(), Some(user));
    Ok(issuer.issue(&Grant { audience, claims: &claims, user, tenant, roles: &[], member_of: &[], ttl: WALK })?)
}

/// What the one table is called in the store.
fn table(place: &Place, system: &System) -> String {
    let settings = place.settings(&system.name);
    let base = settings.base.as_deref().unwrap_or(&system.design.name);
    let name = system.design.tables.first().map(|table| table.physical_name(base)).unwrap_or_default();
    format!("{}{name}", settings.prefix)
}
