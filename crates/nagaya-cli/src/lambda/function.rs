//! From the name of a handler to a function that runs.

use anyhow::{Context as _, bail};
use nagaya_server::{Claims, Issuer, RevocationFollower, Server, System, Verifier};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;

use super::{Args, api, stream};
use crate::{
    Outcome,
    key_file::KeyKind,
    serve::{AUDIT_KEY, Audiences, CURSOR_KEY, KeyFiles, KeySource, Tables},
    source,
    systems::Resources,
};

/// A function of a system.
enum Function {
    Api,
    Stream,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (name, function) = args.handler.rsplit_once('.').context("name a system and a function of it: `todo.api`")?;
    let function = match function {
        "api" => Function::Api,
        "stream" => Function::Stream,
        other => bail!("there is no function `{other}`; the functions are `{name}.api` and `{name}.stream`"),
    };
    let resources = args.plans.add_to(Resources { is_production: true, ..args.store.resources() })?;
    let Some(system) = source::system(name, args.store.kind.engine(), &resources)? else {
        return Ok(Outcome::FoundProblem);
    };
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        bail!("AWS_LAMBDA_RUNTIME_API is not set: this runs inside of AWS Lambda; elsewhere use `nagaya serve {name}`");
    }
    check(args, &function)?;
    // A function gets one request at a time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Between requests the process is stopped: a line that waits might never be written.
    args.logs.init_unbuffered()?;
    runtime.block_on(async {
        let (store, files) = (args.store.open().await?, KeyFiles::created_with_store(args.store.kind));
        let nagaya = args.store.open_system(&system, store, &Tables::Require { creates: false }, files).await?;
        match function {
            Function::Api => {
                let (server, follower) = server(args, system, nagaya.clone()).await?;
                api::run(server, nagaya, follower).await
            }
            Function::Stream => stream::run(&nagaya, &system).await,
        }
    })?;
    Ok(Outcome::Fine)
}

/// Refuses to start without what the function needs. Nothing is created: the file system of a function is read-only, and each
/// instance has one of its own.
fn check(args: &Args, function: &Function) -> anyhow::Result<()> {
    let is_missing = |kind| -> anyhow::Result<bool> {
        let source = args.store.key_source(kind)?;
        Ok(args.store.kind.is_in_cloud() && matches!(source, KeySource::File(file) if !file.exists()))
    };
    if let Function::Api = function {
        if args.api.issuer.is_none() {
            bail!(
                "tokens of the local issuer are for development and are not accepted on Lambda. Name the issuer of your \
                 tokens with NAGAYA_ISSUER and NAGAYA_AUDIENCE"
            );
        }
        args.api.cors()?;
        if is_missing(KeyKind::Cursor)? {
            bail!("{CURSOR_KEY} is not set: without it, each instance refuses the cursors of the others");
        }
    }
    if is_missing(KeyKind::Audit)? {
        bail!(
            "{AUDIT_KEY} is not set: the operator log is chained with it, and all functions and servers need the same one"
        );
    }
    Ok(())
}

/// A server with the system at its root, and what keeps its revocations up to date.
async fn server(args: &Args, system: System, nagaya: Nagaya) -> anyhow::Result<(Server, Option<RevocationFollower>)> {
    let api = &args.api;
    let mut verifier = api.tokens.apply(Verifier::new(Claims::from_design(&system.design), Clock::system()));
    if let Some(issuer) = &api.issuer {
        let (issuer, audiences) = (Issuer::remote(issuer)?, Audiences::parse(&api.audience, &[&system.name])?);
        for audience in audiences.of(&system.name) {
            verifier = verifier.trust(&issuer, audience)?;
        }
    }
    let (revocations, follower) = api.tokens.revocations(&args.store, &nagaya, &system.name).await?;
    let verifier = verifier.revocations(&revocations);
    verifier.fetch_keys().await;
    let mut server = Server::new(args.limits.within(None));
    server.cors(api.cors()?);
    server.slow_request(args.limits.slow_request);
    // The gateway tells the caller's address.
    server.trusted_proxies(api.trusted_proxies.unwrap_or(1));
    server.mount("", system, nagaya, verifier);
    Ok((server, follower))
}
