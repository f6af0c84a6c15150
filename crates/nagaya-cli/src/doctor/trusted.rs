//! Whose tokens are accepted: by the settings, and by the server that runs.

use std::collections::BTreeSet;

use nagaya_server::System;

use super::{Check, Finding};
use crate::serve;

/// The name of the local issuer.
const LOCAL: &str = "local";

/// An issuer and an audience whose tokens a system accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Audience {
    pub(super) system: String,
    pub(super) issuer: String,
    pub(super) audience: String,
}

/// All of them.
pub(super) type Audiences = BTreeSet<Audience>;

/// Those of a server with these settings; `None` if no server starts with them, which other checks report.
pub(super) fn by_settings(args: &serve::Args, systems: &[System]) -> Option<Audiences> {
    args.network.check().ok()?;
    let names: Vec<_> = systems.iter().map(|system| system.name.as_str()).collect();
    let Some(issuer) = &args.network.api.issuer else {
        let local = |name: &&str| Audience {
            system: (*name).to_owned(),
            issuer: LOCAL.to_owned(),
            audience: (*name).to_owned(),
        };
        return Some(names.iter().map(local).collect());
    };
    let audiences = serve::Audiences::parse(&args.network.api.audience, &names).ok()?;
    let of_system = |name: &&str| {
        let (system, of_system) = ((*name).to_owned(), audiences.of(name).iter());
        of_system.map(move |audience| Audience {
            system: system.clone(),
            issuer: issuer.clone(),
            audience: audience.clone(),
        })
    };
    Some(names.iter().flat_map(of_system).collect())
}

/// What is wrong with those of the server that runs.
pub(super) fn compare(running: &Audiences, expected: Option<&Audiences>) -> Option<Finding> {
    let remedy = "restart the server with these settings, or give this command those of the server";
    if running.is_empty() {
        let found = "the server does not say whose tokens it accepts: it is an earlier version";
        return Some(Check::Running.unknown(found));
    }
    let is_local = |audiences: &Audiences| audiences.iter().any(|each| each.issuer == LOCAL);
    // Settings of development are a problem of their own.
    if is_local(running) && !expected.is_some_and(is_local) {
        let found = "the server that runs is for development: it accepts tokens of the local issuer, which anybody who can read its \
                     directory can make";
        return Some(Check::Mode.problem(found, remedy));
    }
    let expected = expected?;
    let found = match (named(running.difference(expected)), named(expected.difference(running))) {
        (None, None) => return None,
        (Some(more), None) => format!("the server that runs also accepts tokens of {more}"),
        (None, Some(less)) => format!("the server that runs does not accept tokens of {less}"),
        (Some(more), Some(less)) => format!("the server that runs accepts tokens of {more}, and not of {less}"),
    };
    Some(Check::Issuer.problem(found, remedy))
}

fn named<'a>(audiences: impl Iterator<Item = &'a Audience>) -> Option<String> {
    let named = audiences.map(|Audience { system, issuer, audience }| format!("{issuer} for {audience} ({system})"));
    Some(named.collect::<Vec<_>>().join(", ")).filter(|named| !named.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audiences(written: &str) -> Audiences {
        let audience = |each: &str| {
            let [system, issuer, audience] = each.split('/').map(str::to_owned).collect::<Vec<_>>().try_into().ok()?;
            Some(Audience { system, issuer, audience })
        };
        written.split(' ').filter_map(audience).collect()
    }

    #[track_caller]
    fn check(running: &str, expected: Option<&str>, found: Option<(&str, &str)>) {
        let expected = expected.map(audiences);
        let compared = compare(&audiences(running), expected.as_ref());
        let compared = compared.as_ref().map(|finding| (finding.check.title(), finding.state.name(), &*finding.found));
        match (compared, found) {
            (None, None) => {}
            (Some((title, _, what)), Some((section, words))) if title == section && what.contains(words) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_with_other_issuers_or_audiences_than_the_settings_is_found() {
        check("todo/id/todo", Some("todo/id/todo"), None);
        check("todo/local/todo", Some("todo/local/todo"), None);
        let mode = Some(("Production mode", "the server that runs is for development"));
        check("todo/local/todo", Some("todo/id/todo"), mode);
        // Settings that no server starts with.
        check("todo/local/todo", None, mode);
        check("todo/id/todo", None, None);
        let issuer = |words| Some(("Issuer and audiences", words));
        check(
            "todo/id/todo",
            Some("todo/id/other"),
            issuer("accepts tokens of id for todo (todo), and not of id for other (todo)"),
        );
        check("todo/id/todo", Some("todo/id2/todo"), issuer("of id for todo (todo), and not of id2 for todo (todo)"));
        check("todo/id/todo", Some("todo/local/todo"), issuer("and not of local"));
        check("todo/id/a todo/id/b", Some("todo/id/a"), issuer("also accepts tokens of id for b (todo)"));
        check("todo/id/a", Some("todo/id/a kondate/id/k"), issuer("does not accept tokens of id for k (kondate)"));
        check("", Some("todo/id/todo"), Some(("Running server", "does not say whose tokens it accepts")));
    }
}
