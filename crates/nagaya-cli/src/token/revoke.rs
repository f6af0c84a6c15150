//! `nagaya token revoke` and `nagaya token revocations`: tokens that are refused before they expire.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use nagaya_server::{Revocation, RevocationStore, RevokedSubject};
use nagaya_tenancy::Nagaya;
use serde_json::{Value as Json, json};

use super::super::{
    Outcome,
    output::{instant, print},
    serve::{StoreArgs, StoreKind, TokenAgeArgs},
    source,
    store::is_store,
};

/// Seconds that a token with a known id may seem to be from the future, because clocks differ.
const CLOCK_DIFFERENCE: i64 = 60;

/// Where the list is.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// A built-in system or a design file (may be given several times)
    #[arg(long = "system", value_name = "NAME|DESIGN.toml", required = true)]
    systems: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    age: TokenAgeArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    fn has_local_issuer(&self) -> bool {
        self.store.data.join("issuer/keys.json").exists()
    }
}

/// Refuse tokens before they expire
///
/// Running servers follow within seconds. The embedded store has the list beside the keys in its directory, DynamoDB in the
/// tables of the system; so give the same --data or --store as to the server. An entry is removed when no token that it matches
/// can still be valid: give the same --max-token-age as to the server.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("subject").args(["jti", "user", "tenant"]).required(true)))]
#[command(
    after_help = "Examples:\n  nagaya token revoke --system todo --user u1                     a user of the local issuer\n  \
                  nagaya token revoke --system todo --user u1 --issuer https://login.example.com\n  nagaya token revoke \
                  --system todo --tenant f1 --before 2026-01-31T09:30:00Z"
)]
pub(super) struct RevokeArgs {
    /// The token with this id (its claim `jti`)
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    jti: Option<String>,
    /// All tokens of a user of --issuer
    #[arg(long, value_name = "USER", allow_hyphen_values = true)]
    user: Option<String>,
    /// All tokens that name a tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The issuer of the user's tokens: its URL, or `local`, which is the default where the data directory has a local issuer
    #[arg(long, value_name = "URL", env = "NAGAYA_ISSUER")]
    issuer: Option<String>,
    /// Only tokens that were issued before this instant, such as 2026-01-31T09:30:00Z; by default now
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant)]
    before: Option<Timestamp>,
    #[command(flatten)]
    list: ListArgs,
}

fn parse_instant(text: &str) -> Result<Timestamp, &'static str> {
    text.parse().map_err(|_| "write an instant with its offset, such as 2026-01-31T09:30:00Z")
}

impl RevokeArgs {
    /// The issuer of a user. A server without a local issuer accepts no tokens of it: revoking them would refuse nothing.
    fn issuer(&self) -> anyhow::Result<String> {
        match &self.issuer {
            Some(issuer) => Ok(issuer.clone()),
            None if self.list.has_local_issuer() => Ok("local".to_owned()),
            None => bail!(
                "--user: {} has no local issuer, so the user is one of another issuer; give --issuer URL, as to the server",
                self.list.store.data.display()
            ),
        }
    }

    fn revocation(&self, now: Timestamp) -> anyhow::Result<Revocation> {
        let (subject, default) = match (&self.jti, &self.user, &self.tenant) {
            (Some(id), _, _) => (RevokedSubject::Token(id.clone()), now.as_second() + CLOCK_DIFFERENCE),
            (_, Some(user), _) => {
                let subject = RevokedSubject::User { issuer: self.issuer()?, id: user.clone() };
                (subject, now.as_second() + 1)
            }
            (_, _, tenant) => (RevokedSubject::Tenant(tenant.clone().unwrap_or_default()), now.as_second() + 1),
        };
        if [&self.jti, &self.user, &self.tenant].into_iter().flatten().any(String::is_empty) {
            bail!("--jti, --user and --tenant need a name");
        }
        Ok(Revocation { subject, issued_before: self.before.map_or(default, Timestamp::as_second) })
    }
}

pub(super) fn revoke(args: &RevokeArgs) -> anyhow::Result<Outcome> {
    let revocation = args.revocation(Timestamp::now())?;
    let runtime = runtime()?;
    let Some(lists) = runtime.block_on(open(&args.list))? else { return Ok(Outcome::FoundProblem) };
    for (_, list) in &lists {
        runtime.block_on(list.add(revocation.clone(), is_needed(&args.list)))?;
    }
    let names: Vec<_> = lists.iter().map(|(name, _)| name.as_str()).collect();
    let text = format!(
        "{} that were issued before {} are refused by {}; running servers follow within seconds\n",
        described(&revocation.subject),
        instant(revocation.issued_before.saturating_mul(1_000)),
        names.join(", ")
    );
    let shown: Vec<_> = names.iter().map(|name| shown(name, &revocation)).collect();
    print(args.list.json, &json!({ "revoked": shown }), &text, true)
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<Outcome> {
    let (runtime, is_needed) = (runtime()?, is_needed(args));
    let Some(lists) = runtime.block_on(open(args))? else { return Ok(Outcome::FoundProblem) };
    let (mut all, mut text) = (Vec::new(), String::new());
    for (name, list) in &lists {
        for revocation in runtime.block_on(list.list())?.iter().filter(|each| is_needed(each)) {
            let before = instant(revocation.issued_before.saturating_mul(1_000));
            // Writing to a text does not fail.
            let _ = writeln!(text, "{name}  {} that were issued before {before}", described(&revocation.subject));
            all.push(shown(name, revocation));
        }
    }
    if all.is_empty() {
        text.push_str("no tokens are revoked\n");
    }
    print(args.json, &json!({ "revocations": all }), &text, true)
}

/// Whether a token that a revocation matches can still be valid.
fn is_needed(args: &ListArgs) -> impl Fn(&Revocation) -> bool + Send + use<> {
    let age = args.age.max_token_age().map(|age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    let now = Timestamp::now().as_second();
    move |revocation| revocation.is_needed(now, age)
}

fn described(subject: &RevokedSubject) -> String {
    match subject {
        RevokedSubject::Token(id) => format!("tokens with the id `{id}`"),
        RevokedSubject::User { issuer, id } => format!("tokens of the user `{id}` ({issuer})"),
        RevokedSubject::Tenant(tenant) => format!("tokens of the tenant `{tenant}`"),
    }
}

fn shown(system: &str, revocation: &Revocation) -> Json {
    let mut shown = match &revocation.subject {
        RevokedSubject::Token(id) => json!({ "jti": id }),
        RevokedSubject::User { issuer, id } => json!({ "user": id, "issuer": issuer }),
        RevokedSubject::Tenant(tenant) => json!({ "tenant": tenant }),
    };
    shown["system"] = system.into();
    shown["issuedBefore"] = instant(revocation.issued_before.saturating_mul(1_000)).into();
    shown
}

/// The lists of the systems, by their names; `None` after showing what is wrong with a design.
async fn open(args: &ListArgs) -> anyhow::Result<Option<Vec<(String, RevocationStore)>>> {
    let mut lists = Vec::new();
    for name in &args.systems {
        let Some(system) = source::system(name, args.store.kind.engine(), &crate::systems::Resources::default())?
        else {
            return Ok(None);
        };
        let list = match args.store.kind {
            StoreKind::Memory => {
                bail!("memory keeps nothing, so there is no list; choose embedded or dynamodb with --store")
            }
            StoreKind::Embedded => {
                let data = &args.store.data;
                // A typo in the name must not create a list that no server follows.
                if !is_store(data)? && !args.has_local_issuer() {
                    bail!("{} is not the directory of a server; name it with --data", data.display());
                }
                RevocationStore::in_directory(data, &system.name)?
            }
            StoreKind::Dynamodb | StoreKind::Cosmos => {
                let store = args.store.open().await?;
                let nagaya = Nagaya::open_with(system.design.clone(), store, args.store.settings(&system.name));
                let unknown = || format!("there are no tables of {} in {}", system.name, args.store.describe());
                nagaya.ping_store().await.with_context(unknown)?;
                RevocationStore::in_tables(&nagaya)
            }
        };
        lists.push((system.name, list));
    }
    Ok(Some(lists))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
