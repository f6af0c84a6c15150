//! Flags for tokens: the audience of each system, the age of tokens and keys, and revoked tokens.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::bail;
use nagaya_server::{RevocationFollower, RevocationStore, Revocations, Verifier};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;

use super::{StoreArgs, StoreKind};
use crate::duration::parse_duration;

/// The age of tokens and keys.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    age: TokenAgeArgs,
    /// How long the keys of an issuer are trusted while it cannot be reached; 0s: without a limit
    #[arg(long, value_name = "TIME", default_value = "24h", env = "NAGAYA_MAX_KEY_AGE", value_parser = parse_duration)]
    max_key_age: Duration,
}

/// The age of tokens.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TokenAgeArgs {
    /// How long a token may live, from `iat` to `exp`; 0s: without a limit, and tokens without `iat` are accepted
    #[arg(long, value_name = "TIME", default_value = "24h", env = "NAGAYA_MAX_TOKEN_AGE", value_parser = parse_duration)]
    max_token_age: Duration,
}

impl TokenAgeArgs {
    /// How long a token may live; `None`: without a limit.
    pub(crate) fn max_token_age(&self) -> Option<Duration> {
        Some(self.max_token_age).filter(|age| !age.is_zero())
    }
}

impl TokenArgs {
    /// How long a token may live; `None`: without a limit.
    pub(crate) fn max_token_age(&self) -> Option<Duration> {
        self.age.max_token_age()
    }

    /// How long the keys of an issuer are trusted while it cannot be reached; `None`: without a limit.
    pub(crate) fn max_key_age(&self) -> Option<Duration> {
        Some(self.max_key_age).filter(|age| !age.is_zero())
    }

    /// A verifier with these settings.
    pub(crate) fn apply(&self, verifier: Verifier) -> Verifier {
        verifier.max_token_age(self.max_token_age()).max_key_age(self.max_key_age())
    }

    /// The revocations of a system, and what keeps them up to date; a server in memory has none.
    pub(crate) async fn revocations(
        &self,
        store: &StoreArgs,
        nagaya: &Nagaya,
        system: &str,
    ) -> anyhow::Result<(Arc<Revocations>, Option<RevocationFollower>)> {
        let list = Arc::<Revocations>::default();
        let store = match store.kind {
            StoreKind::Memory => return Ok((list, None)),
            StoreKind::Embedded => RevocationStore::in_directory(&store.data, system)?,
            // Servers with the same tables have different directories.
            StoreKind::Dynamodb | StoreKind::Cosmos => RevocationStore::in_tables(nagaya),
        };
        let age = self.age.max_token_age();
        let follower = RevocationFollower::start(Arc::clone(&list), store, Clock::system(), age).await?;
        Ok((list, Some(follower)))
    }
}

/// The audiences that tokens of a remote issuer must have, by system.
#[derive(Debug, Default)]
pub(crate) struct Audiences(BTreeMap<String, Vec<String>>);

impl Audiences {
    /// Reads `SYSTEM=NAME` or, for a single system, `NAME`. Every system needs an audience of its own: otherwise a token for
    /// one would be good for another.
    pub(crate) fn parse(given: &[String], systems: &[&str]) -> anyhow::Result<Self> {
        let mut audiences: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for each in given.iter().map(|each| each.trim()) {
            let (system, name) = match (each.split_once('='), systems) {
                // What stands before `=` in a URL is no name of a system.
                (Some((system, name)), _) if is_system_name(system) => (system, name),
                (_, [only]) => (*only, each),
                _ => bail!(
                    "--audience {each}: {} systems are served, and each needs an audience of its own; write {}",
                    systems.len(),
                    example(systems)
                ),
            };
            if !systems.contains(&system) {
                bail!("--audience {each}: `{system}` is not served; served are {}", systems.join(", "));
            }
            if name.is_empty() {
                bail!("--audience {each}: the name of the audience is missing");
            }
            if let Some((other, _)) = audiences.iter().find(|(other, names)| *other != system && has(names, name)) {
                bail!(
                    "--audience {each}: `{other}` has the audience `{name}` too, so that a token for one would be good for the \
                     other; give each system an audience of its own"
                );
            }
            audiences.entry(system.to_owned()).or_default().push(name.to_owned());
        }
        let without: Vec<_> = systems.iter().filter(|system| !audiences.contains_key(**system)).copied().collect();
        if !without.is_empty() {
            bail!(
                "--issuer needs an audience for each system, and {} has none; add {}",
                without.join(", "),
                example(&without)
            );
        }
        Ok(Audiences(audiences))
    }

    /// The audiences of a system.
    pub(crate) fn of(&self, system: &str) -> &[String] {
        self.0.get(system).map_or(&[], Vec::as_slice)
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|each| each == name)
}

fn is_system_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

fn example(systems: &[&str]) -> String {
    systems.iter().map(|system| format!("--audience {system}=NAME")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str], systems: &[&str]) -> Result<String, String> {
        let given: Vec<_> = given.iter().map(|&each| each.to_owned()).collect();
        let parsed = Audiences::parse(&given, systems).map_err(|error| error.to_string())?;
        Ok(systems
            .iter()
            .map(|system| format!("{system}: {}", parsed.of(system).join(", ")))
            .collect::<Vec<_>>()
            .join("; "))
    }

    #[test]
    fn each_system_has_its_own_audiences() {
        let both = ["todo", "my-desk"];
        assert_eq!(parse(&["nagaya"], &["todo"]), Ok("todo: nagaya".to_owned()));
        assert_eq!(parse(&["todo=web", "todo=app"], &["todo"]), Ok("todo: web, app".to_owned()));
        assert_eq!(parse(&["https://a.example/?x=1"], &["todo"]), Ok("todo: https://a.example/?x=1".to_owned()));
        let url = "todo=https://a.example/?x=1";
        assert_eq!(parse(&[url, "my-desk=b"], &both), Ok("todo: https://a.example/?x=1; my-desk: b".to_owned()));
    }

    #[test]
    fn what_would_let_a_token_into_another_system_is_refused_with_the_remedy() {
        let both = ["todo", "my-desk"];
        let refusal = |given: &[&str], systems: &[&str]| parse(given, systems).expect_err("it is refused");
        let shared = refusal(&["nagaya"], &both);
        assert!(shared.ends_with("write --audience todo=NAME --audience my-desk=NAME"), "{shared}");
        assert!(refusal(&["todo=a"], &both).ends_with("my-desk has none; add --audience my-desk=NAME"));
        assert!(refusal(&["todo=a", "my-desk=a"], &both).contains("`todo` has the audience `a` too"));
        assert!(refusal(&["tood=a"], &["todo"]).contains("`tood` is not served; served are todo"));
        assert!(refusal(&["todo="], &["todo"]).contains("is missing"));
    }
}
