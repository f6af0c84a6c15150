//! People: a name, and an address that fits it.

use super::words::{DOMAINS, FAMILY_EN, FAMILY_JA, GIVEN_EN, GIVEN_JA};

/// Somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) email: String,
}

/// How many different names there are of each language.
const NAMES: usize = 24 * 24;

impl Person {
    /// One of all people: another name for each number, and another address for ever.
    pub(super) fn numbered(number: usize) -> Self {
        let (language, index, again) = (number % 2, number / 2 % NAMES, number / 2 / NAMES);
        // Neighbours share neither name.
        let (given, family) = (index % 24, (index / 24 + index) % 24);
        let (name, local) = if language == 0 {
            let ((given, given_latin), (family, family_latin)) = (GIVEN_JA[given], FAMILY_JA[family]);
            (format!("{family} {given}"), format!("{given_latin}.{family_latin}"))
        } else {
            let (given, family) = (GIVEN_EN[given], FAMILY_EN[family]);
            (format!("{given} {family}"), format!("{given}.{family}").to_lowercase())
        };
        let again = if again == 0 { String::new() } else { (again + 1).to_string() };
        Person { name, email: format!("{local}{again}@{}", DOMAINS[index % DOMAINS.len()]) }
    }

    /// What is before the `@`.
    pub(super) fn handle(&self) -> &str {
        self.email.split('@').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nobody_shares_an_address() {
        let addresses: HashSet<_> = (0..5_000).map(|number| Person::numbered(number).email).collect();
        assert_eq!(addresses.len(), 5_000);
        let first = Person::numbered(0);
        assert_eq!((first.name.as_str(), first.email.as_str()), ("佐藤 花子", "hanako.sato@example.com"));
        assert_eq!(first.handle(), "hanako.sato");
    }
}
