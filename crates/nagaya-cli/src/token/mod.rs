//! `nagaya token`: tokens of the local issuer, its keys, and revoked tokens.

mod revoke;

use std::{path::PathBuf, time::Duration};

use anyhow::bail;
use nagaya_design::{Design, Engine};
use nagaya_server::{Claims, Grant, LocalIssuer, System};
use serde_json::{Value as Json, json};

use super::{Outcome, duration::parse_duration, output::print, source};

/// How long tokens may live by default.
const MAX_TOKEN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Print a token of the local issuer
///
/// The standard output has the token and nothing else. It is valid for a server with the same data directory, running or not.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    after_help = "Example:\n  TOKEN=$(nagaya token --system aiagent --tenant t1 --user u1 --role admin)\n  curl -H \
                        \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8080/v1/…"
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Option<Subcommand>,
    /// The built-in system or the design file that the token is for
    #[arg(long, value_name = "NAME|DESIGN.toml", required = true)]
    system: Option<String>,
    /// The tenant; operators may have none
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The user; `me` unless the tenant of the system is the user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// A role (may be given several times)
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// How long it is valid: 90s, 30m, 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = parse_lifetime)]
    ttl: Duration,
    /// Create the keys of an issuer if the directory has none; a server that starts there later accepts its tokens
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    keys: KeyArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Sign with a new key from now on; tokens of the older keys stay valid
    Rotate {
        /// Forget the older keys: every earlier token is refused
        #[arg(long)]
        forget: bool,
        #[command(flatten)]
        keys: KeyArgs,
    },
    Revoke(revoke::RevokeArgs),
    /// List the revoked tokens of systems
    Revocations(revoke::ListArgs),
}

#[derive(Debug, clap::Args)]
struct KeyArgs {
    /// The directory with the keys
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    data: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl KeyArgs {
    /// Refuses a directory without keys: a typo in its name must not create keys that no server uses.
    fn has_issuer(&self, otherwise: &str) -> anyhow::Result<()> {
        if self.data.join("issuer/keys.json").exists() {
            return Ok(());
        }
        let directory = std::path::absolute(&self.data).unwrap_or_else(|_| self.data.clone());
        bail!(
            "{} has no keys of a local issuer, and no server would accept a token of new ones; name the directory of the \
             server with --data, or {otherwise}",
            directory.display()
        )
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.subcommand {
        Some(Subcommand::Rotate { forget, keys }) => return rotate(keys, *forget),
        Some(Subcommand::Revoke(args)) => return revoke::revoke(args),
        Some(Subcommand::Revocations(args)) => return revoke::list(args),
        None => {}
    }
    let Some(made) = issue(args)? else { return Ok(Outcome::FoundProblem) };
    let text = format!("{}\n", made["token"].as_str().unwrap_or_default());
    print(args.keys.json, &made, &text, true)
}

/// A token and its claims; `None` after showing what is wrong with the design.
fn issue(args: &Args) -> anyhow::Result<Option<Json>> {
    let Some(system) = system(args.system.as_deref().unwrap_or_default())? else { return Ok(None) };
    let claims = Claims::from_design(&system.design);
    let user = user(args, &claims)?;
    note_unknown_roles(&system.design, &args.roles);
    for note in notes(&system.design, args, &claims) {
        eprintln!("nagaya: {note}");
    }
    if !args.create {
        args.keys.has_issuer("pass --create to create new ones there")?;
    }
    let issuer = LocalIssuer::open(&args.keys.data)?;
    let (token, id) = issuer.issue_with_id(&Grant {
        audience: &system.name,
        claims: &claims,
        user,
        tenant: args.tenant.as_deref(),
        roles: &args.roles,
        member_of: args.tenant.as_slice(),
        ttl: args.ttl,
    })?;
    Ok(Some(json!({
        "token": token,
        "tokenId": id,
        "issuer": issuer.url(),
        "audience": system.name,
        "user": user,
        "tenant": args.tenant,
        "roles": args.roles,
        "expiresIn": args.ttl.as_secs(),
    })))
}

fn rotate(keys: &KeyArgs, forget: bool) -> anyhow::Result<Outcome> {
    keys.has_issuer("`nagaya serve` creates them when it starts there")?;
    let issuer = LocalIssuer::open(&keys.data)?;
    let key = issuer.rotate()?;
    if forget {
        issuer.remove_older_keys()?;
    }
    let older = if forget { "earlier tokens are refused" } else { "earlier tokens stay valid" };
    let text = format!("tokens are signed by the key {key} from now on; {older}\n");
    print(keys.json, &json!({ "keyId": key, "olderKeysRefused": forget }), &text, true)
}

/// The system that a token is for; `None` after showing what is wrong with its design.
fn system(name: &str) -> anyhow::Result<Option<System>> {
    source::system(name, Engine::Embedded, &crate::systems::Resources::default())
}

/// The user of the token, who is the tenant where the claim of both is the same.
fn user<'a>(args: &'a Args, claims: &Claims) -> anyhow::Result<&'a str> {
    match (&args.tenant, &args.user) {
        (Some(tenant), Some(user)) if claims.tenant == "sub" && tenant != user => {
            bail!("in this system each user is a tenant (claim `sub`): give --tenant or --user, not two names")
        }
        (Some(tenant), _) if claims.tenant == "sub" => Ok(tenant),
        (_, Some(user)) => Ok(user),
        _ => Ok("me"),
    }
}

/// Says so when a role is probably a typo. It is no error: code of the system's own may know more roles than its design.
fn note_unknown_roles(design: &Design, roles: &[String]) {
    let known: Vec<_> = design.roles.iter().map(|role| role.name.as_str()).collect();
    for role in roles.iter().filter(|role| !known.is_empty() && !known.contains(&role.as_str())) {
        eprintln!(
            "nagaya: the design has no role `{role}`, which therefore permits nothing; it has {}",
            known.join(", ")
        );
    }
}

/// Why a server would refuse most requests with the token. None is an error: tests want such tokens.
fn notes(design: &Design, args: &Args, claims: &Claims) -> Vec<String> {
    let mut notes = Vec::new();
    if args.roles.is_empty() && !design.roles.is_empty() {
        let known: Vec<_> = design.roles.iter().map(|role| role.name.as_str()).collect();
        notes.push(format!(
            "the token has no role, and the design permits nothing without one; give --role with {}",
            known.join(", ")
        ));
    }
    if args.ttl > MAX_TOKEN_AGE {
        notes.push(
            "servers refuse tokens that live for more than 24 hours, unless --max-token-age allows it".to_owned(),
        );
    }
    let is_operator = design.is_operator(&args.roles);
    if is_operator && args.tenant.is_some() {
        notes.push("the roles of operators count only in a token without a tenant; leave --tenant out".to_owned());
    }
    let user = args.user.as_ref().filter(|_| claims.tenant == "sub" && !is_operator);
    match args.tenant.as_ref().or(user) {
        Some(tenant) => {
            let field = design.entities.iter().find_map(|entity| {
                entity.field(entity.tenant.as_deref()?).filter(|field| !field.accepts(&tenant.as_str().into()))
            });
            if let Some(field) = field {
                notes.push(format!(
                    "no item can belong to the tenant `{tenant}`: `{}` is {}",
                    field.name,
                    field.expectation()
                ));
            }
        }
        None if claims.tenant != "sub" && !is_operator => {
            notes.push("the token has no tenant, and only operators can do without; give --tenant".to_owned());
        }
        None => {}
    }
    notes
}

/// Reads a length of time.
fn parse_lifetime(text: &str) -> anyhow::Result<Duration> {
    let lifetime = parse_duration(text)?;
    if lifetime.as_secs() == 0 {
        bail!("the lifetime has to be at least one second");
    }
    Ok(lifetime)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use clap::Parser;
    use nagaya_server::{Issuer, Verifier};
    use nagaya_store::Clock;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(data: &Path, line: &str) -> Args {
        let words = ["token", "--create", "--data", data.to_str().expect("a path of letters")]
            .into_iter()
            .chain(line.split(' '));
        Cli::try_parse_from(words).expect("the line is fine").args
    }

    /// Checks whom a server takes the bearer of a token for.
    async fn check(line: &str, expected: &str) {
        let data = tempfile::tempdir().expect("a directory");
        let args = parse(data.path(), line);
        let made = issue(&args).expect("a token is made").expect("the design is sound");
        let system = system(args.system.as_deref().expect("a system")).expect("there is one").expect("it is sound");
        let issuer = Issuer::local(&Arc::new(LocalIssuer::open(data.path()).expect("there are keys")));
        let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system())
            .trust(&issuer, &system.name)
            .expect("one issuer");
        let caller = verifier.caller(made["token"].as_str().expect("a token")).await.expect("it is good");
        let tenant = caller.tenant.as_deref().unwrap_or("-");
        let roles = [caller.roles.join(","), caller.operator_roles.join(",")];
        assert_eq!(format!("{}@{tenant} {}", caller.user, roles.join("|")), expected, "{line}");
    }

    #[tokio::test]
    async fn a_token_says_what_the_line_says() {
        check("--system aiagent --tenant t1 --user u1 --role admin", "u1@t1 admin|").await;
        check("--system todo --tenant f1 --role a --role b", "me@f1 a,b|").await;
        check("--system management --user boss --role operator", "boss@- |operator").await;
        // Each user of kondate is a tenant.
        check("--system kondate --tenant u1", "u1@u1 |").await;
        check("--system kondate --user u1", "u1@u1 |").await;
        check("--system kondate --user u1 --role operator", "u1@- |operator").await;
        check("--system ../../systems/todo/design/todo.toml --tenant f1", "me@f1 |").await;
    }

    #[test]
    fn what_cannot_be_is_said() {
        let data = tempfile::tempdir().expect("a directory");
        let refusal = |line: &str| issue(&parse(data.path(), line)).expect_err("it cannot be").to_string();
        assert!(refusal("--system nowhere").starts_with("there is no system `nowhere`; built in are aiagent, "));
        assert!(refusal("--system kondate --tenant u1 --user u2").contains("give --tenant or --user"));
        let rotate = KeyArgs { data: data.path().join("typo"), json: false };
        assert!(super::rotate(&rotate, false).expect_err("it is not there").to_string().contains("name the directory"));
        assert!(!data.path().join("typo").exists());
    }

    #[test]
    fn a_token_that_permits_nothing_is_noted() {
        let data = tempfile::tempdir().expect("a directory");
        let noted = |line: &str| {
            let args = parse(data.path(), line);
            let system = system(args.system.as_deref().expect("a system")).expect("there is one").expect("it is sound");
            notes(&system.design, &args, &Claims::from_design(&system.design)).join("\n")
        };
        let long = "t".repeat(2_000);
        assert_eq!(noted("--system aiagent --tenant t1 --role admin"), "");
        assert!(noted("--system aiagent --tenant t1").contains("give --role with "));
        assert!(noted("--system aiagent --role admin").contains("give --tenant"));
        assert_eq!(noted("--system aiagent --role operator"), "");
        assert!(noted("--system aiagent --tenant t1 --role operator").contains("leave --tenant out"));
        assert_eq!(noted("--system kondate --user u1 --role operator"), "");
        assert!(noted("--system aiagent --tenant t1 --role admin --ttl 7d").contains("--max-token-age"));
        assert!(noted(&format!("--system aiagent --tenant {long} --role admin")).starts_with("no item can belong to"));
    }

    #[test]
    fn a_directory_without_keys_is_refused_and_left_as_it_is() {
        let data = tempfile::tempdir().expect("a directory");
        let args = Args { create: false, ..parse(data.path(), "--system todo --tenant f1") };
        let refusal = issue(&args).expect_err("there are no keys").to_string();
        assert!(refusal.contains(data.path().to_str().expect("letters")) && refusal.contains("--data"), "{refusal}");
        assert!(refusal.contains("--create"), "{refusal}");
        assert_eq!(std::fs::read_dir(data.path()).expect("it is there").count(), 0, "nothing was made");
        issue(&parse(data.path(), "--system todo --tenant f1")).expect("it is wanted");
        issue(&args).expect("now there are keys");
    }

    #[test]
    fn times_are_written_as_people_do() {
        let seconds = |text| parse_lifetime(text).map(|time| time.as_secs()).ok();
        assert_eq!(["90s", "30m", "12h", "7d", "1h 30m"].map(seconds), [90, 1_800, 43_200, 604_800, 5_400].map(Some));
        assert_eq!(["", "12", "x", "0s", "-1h", "1y", "999999999999d"].map(seconds), [None; 7]);
    }
}
