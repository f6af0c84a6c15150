//! People: a name, and an address that fits it.

use std::sync::LazyLock;

/// A made-up person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The full name.
    pub name: String,
    /// The mail address.
    pub email: String,
}

/// Domains that are reserved for examples: no mail arrives there.
pub const EXAMPLE_DOMAINS: [&str; 3] = ["example.com", "example.org", "example.jp"];

/// Names in Japanese and in English. A Japanese one is written twice: as it is, and in Latin letters.
#[derive(serde::Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Names {
    given_ja: Vec<(&'static str, &'static str)>,
    family_ja: Vec<(&'static str, &'static str)>,
    given_en: Vec<&'static str>,
    family_en: Vec<&'static str>,
}

/// A file of this crate, which the tests read.
static NAMES: LazyLock<Names> = LazyLock::new(|| serde_json::from_str(include_str!("names.json")).expect("names"));

/// How many names of each kind and language there are.
const NAMES_PER_KIND: usize = 24;

impl Person {
    /// How many full names of each language there are.
    pub const FULL_NAME_COUNT: usize = NAMES_PER_KIND * NAMES_PER_KIND;

    /// A person by number: every number has another address. Even numbers have Japanese names.
    pub fn numbered(number: usize) -> Self {
        let (language, index, again) =
            (number % 2, number / 2 % Person::FULL_NAME_COUNT, number / 2 / Person::FULL_NAME_COUNT);
        // Consecutive people share neither name.
        let (given, family) = (index % NAMES_PER_KIND, (index / NAMES_PER_KIND + index) % NAMES_PER_KIND);
        let (name, local) = if language == 0 {
            let ((given, given_latin), (family, family_latin)) = (NAMES.given_ja[given], NAMES.family_ja[family]);
            (format!("{family} {given}"), format!("{given_latin}.{family_latin}"))
        } else {
            let (given, family) = (NAMES.given_en[given], NAMES.family_en[family]);
            (format!("{given} {family}"), format!("{given}.{family}").to_lowercase())
        };
        let again = if again == 0 { String::new() } else { (again + 1).to_string() };
        Person { name, email: format!("{local}{again}@{}", EXAMPLE_DOMAINS[index % EXAMPLE_DOMAINS.len()]) }
    }

    /// The part of the address before the `@`.
    pub fn handle(&self) -> &str {
        self.email.split('@').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_people_share_an_address() {
        let addresses: HashSet<_> = (0..5_000).map(|number| Person::numbered(number).email).collect();
        assert_eq!(addresses.len(), 5_000);
        let first = Person::numbered(0);
        assert_eq!((first.name.as_str(), first.email.as_str()), ("佐藤 花子", "hanako.sato@example.com"));
        assert_eq!(first.handle(), "hanako.sato");
    }
}
