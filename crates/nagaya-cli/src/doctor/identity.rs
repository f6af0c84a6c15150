//! The issuer, the audiences, and the age of tokens.

use std::time::Duration;

use nagaya_server::{Claims, Issuer, System, Verifier};
use nagaya_store::Clock;

use super::{Check, Finding};
use crate::serve::{self, Audiences};

/// A token that lives longer is a password that nobody changes.
const LONG_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(super) async fn examine(args: &serve::Args, systems: &[System], findings: &mut Vec<Finding>) {
    findings.push(issuer(args, systems).await);
    let ages = [
        (args.network.tokens.max_token_age().is_none(), "--max-token-age", "a stolen token may be good for years"),
        (args.network.tokens.max_key_age().is_none(), "--max-key-age", "keys are trusted while the issuer is away"),
    ];
    let age = args.network.tokens.max_token_age().unwrap_or_default();
    if age > LONG_LIFE {
        let days = age.as_secs() / 24 / 60 / 60;
        findings.push(Check::TokenAge.warning(
            format!("a stolen token may be good for {days} days"),
            "give --max-token-age at most 7d, and let clients get new tokens",
        ));
    }
    let mut unlimited = ages.into_iter().filter(|(is_unlimited, ..)| *is_unlimited).peekable();
    if unlimited.peek().is_none() && age <= LONG_LIFE {
        findings.push(Check::TokenAge.ok("the age of tokens and of cached keys is limited"));
    }
    findings.extend(unlimited.map(|(_, flag, what)| Check::TokenAge.warning(what, format!("give {flag} a limit"))));
}

async fn issuer(args: &serve::Args, systems: &[System]) -> Finding {
    let Some(url) = &args.network.issuer else {
        return Check::Issuer.problem("there is none but the local one", "give --issuer URL and --audience NAME");
    };
    let names: Vec<_> = systems.iter().map(|system| system.name.as_str()).collect();
    if let Err(error) = Audiences::parse(&args.network.audience, &names) {
        return Check::Issuer.problem(format!("{error:#}"), "give each system an audience of its own");
    }
    let Some(system) = systems.first() else { return Check::Issuer.unknown("no system can be served") };
    let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system());
    let verifier = match Issuer::remote(url).and_then(|remote| verifier.trust(&remote, "doctor")) {
        Ok(verifier) => verifier,
        Err(error) => return Check::Issuer.problem(error.to_string(), "correct --issuer"),
    };
    match verifier.fetch_keys().await {
        true => Check::Issuer.ok(format!("{url} publishes its keys, and each system has its audience")),
        false => Check::Issuer.problem(
            format!("the keys of {url} cannot be fetched, so no token can be checked"),
            "let this machine reach it; the log of `nagaya serve` has the cause",
        ),
    }
}
