//! The issuer, the audiences, and the age of tokens and keys.

use std::time::Duration;

use nagaya_server::{Claims, Issuer, System, Verifier};
use nagaya_store::Clock;

use super::{Check, Finding};
use crate::serve::{self, Audiences};

/// A token that lives longer is a password that nobody changes, and a key that is trusted for longer may be a stolen one.
const LONG_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(super) async fn examine(args: &serve::Args, systems: &[System], findings: &mut Vec<Finding>) {
    findings.push(issuer(args, systems).await);
    findings.extend(ages(args));
}

fn ages(args: &serve::Args) -> Vec<Finding> {
    let tokens = &args.network.api.tokens;
    let mut findings = Vec::new();
    for (age, flag, risk) in [
        (tokens.max_token_age(), "--max-token-age", "a stolen token may be good"),
        (tokens.max_key_age(), "--max-key-age", "keys are trusted while the issuer does not answer,"),
    ] {
        let how_long = match age {
            Some(age) if age <= LONG_LIFE => continue,
            Some(age) => format!("for {} days", age.as_secs() / 24 / 60 / 60),
            None => "for ever".to_owned(),
        };
        findings.push(Check::TokenAge.warning(format!("{risk} {how_long}"), format!("give {flag} at most 7d")));
    }
    if findings.is_empty() {
        findings.push(Check::TokenAge.ok("the age of tokens and of cached keys is limited"));
    }
    findings
}

async fn issuer(args: &serve::Args, systems: &[System]) -> Finding {
    let Some(url) = &args.network.api.issuer else {
        return Check::Issuer.problem("there is none but the local one", "give --issuer URL and --audience NAME");
    };
    let names: Vec<_> = systems.iter().map(|system| system.name.as_str()).collect();
    if let Err(error) = Audiences::parse(&args.network.api.audience, &names) {
        return Check::Issuer.problem(format!("{error:#}"), "give each system an audience of its own");
    }
    let Some(system) = systems.first() else { return Check::Issuer.unknown("no system can be served") };
    let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system());
    let verifier = match Issuer::remote(url).and_then(|remote| verifier.trust(&remote, "doctor")) {
        Ok(verifier) => verifier,
        Err(error) => return Check::Issuer.problem(error.to_string(), "correct --issuer"),
    };
    match (verifier.fetch_keys().await, verifier.key_count()) {
        (true, 1..) => Check::Issuer.ok(format!("{url} publishes its keys, and each system has its audience")),
        (true, 0) => Check::Issuer.problem(
            format!("{url} publishes no key that can verify tokens, so that every token is refused"),
            "let it publish a public key for signatures: RSA with 2,048 to 4,096 bits, P-256, P-384 or Ed25519",
        ),
        (false, _) => Check::Issuer.problem(
            format!("the keys of {url} cannot be fetched, so no token can be checked"),
            "let this machine reach it; the log of `nagaya serve` has the cause",
        ),
    }
}
