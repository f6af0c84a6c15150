//! Names and keys in logs. What names a person is shown as a keyed hash: equal names have equal hashes, and nobody without the
//! key of the logs finds the name.

use std::borrow::Cow;

use nagaya_design::{KeyAttributes, KeyTemplates, Template};
use nagaya_store::{Item, Value};

use crate::{compiled::CompiledEntity, key_set::SecretKey, state::TenancyState};

/// Digits of a hash: enough to tell names apart.
const HASH_DIGITS: usize = 12;

/// The hash of a name, as the logs show it.
pub fn log_hash(key: &SecretKey, name: &str) -> String {
    let mut hash = blake3::keyed_hash(key, name.as_bytes()).to_hex().to_string();
    hash.truncate(HASH_DIGITS);
    hash
}

impl TenancyState {
    /// A tenant's name as the logs show it: hashed where the tenant is a person.
    pub(crate) fn tenant_in_logs<'t>(&self, tenant: &'t str) -> Cow<'t, str> {
        if self.design.tenant.is_person() { self.hash(tenant).into() } else { tenant.into() }
    }

    /// The partition and the sort key of a stored item as the logs show them: each is hashed if personal data is part of it.
    pub(crate) fn key_in_logs(&self, compiled: &CompiledEntity, item: &Item) -> (String, String) {
        let text = |attribute: &str| item.get(attribute).and_then(Value::as_str).unwrap_or_default();
        let shown = |attribute: &str, template: fn(&KeyTemplates) -> &Template| {
            // The item may be one of another entity of the table.
            let mut entities = self.entities.values().filter(|each| each.table == compiled.table);
            let is_personal =
                entities.any(|each| template(&each.entity.key).fields().any(|field| self.is_personal(each, field)));
            if is_personal { self.hash(text(attribute)) } else { text(attribute).to_owned() }
        };
        let KeyAttributes { partition, sort } = &compiled.key;
        (shown(partition, |key| &key.partition), shown(sort, |key| &key.sort))
    }

    fn is_personal(&self, compiled: &CompiledEntity, field: &str) -> bool {
        let entity = &compiled.entity;
        entity.is_personal(field) || (self.design.tenant.is_person() && entity.tenant.as_deref() == Some(field))
    }

    fn hash(&self, text: &str) -> String {
        log_hash(&self.settings.log_keys.newest(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_twelve_digits_that_only_the_key_tells() {
        let ann = log_hash(&[1; 32], "ann@example.com");
        assert_eq!(ann.len(), 12);
        assert!(ann.bytes().all(|digit| digit.is_ascii_hexdigit()), "{ann}");
        assert_eq!(log_hash(&[1; 32], "ann@example.com"), ann);
        assert_ne!(log_hash(&[1; 32], "bob@example.com"), ann);
        assert_ne!(log_hash(&[2; 32], "ann@example.com"), ann);
    }
}
