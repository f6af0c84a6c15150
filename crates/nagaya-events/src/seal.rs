//! Personal fields of events: encrypted with a key of the user who acted, and erased by destroying the key.
//!
//! Events are never changed, so personal fields cannot be removed from them. Where the design has an entity for keys, they are
//! stored encrypted. When the key is destroyed, the events and their hash chain stay, and the personal fields are shown as
//! erased.

use std::collections::{BTreeMap, btree_map::Entry};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use nagaya_design::{Field, FieldType};
use nagaya_tenancy::{Retry, Tenant};
use serde_json::{Map, Value as Json};

use crate::{Error, RecordedEvent, layout::Layout};

/// The text in place of an erased one.
pub const ERASED: &str = "[erased]";

const SEALED_FIELD: &str = "%sealed";
/// The user whose key it is.
const KEY_OWNER_FIELD: &str = "%of";
/// The fingerprint of the key: a key that was created after another was destroyed decrypts nothing older.
const KEY_FINGERPRINT_FIELD: &str = "%by";
const NONCE_BYTES: usize = 24;
/// Between the keys of a user. No key has it.
const SEPARATOR: &str = " ";

type Key = [u8; 32];

/// Encrypts the personal fields of events that are about to be stored.
pub(crate) async fn seal(
    layout: &Layout,
    tenant: &Tenant,
    user: &str,
    events: &mut [RecordedEvent],
) -> Result<(), Error> {
    let has_personal =
        |event: &RecordedEvent| personal_fields(layout, event).any(|field| event.raw.data.contains_key(&field.name));
    if layout.keys.is_none() || !events.iter().any(has_personal) {
        return Ok(());
    }
    let key = get_or_create_key(layout, tenant, user).await?;
    for event in events {
        let names: Vec<String> = personal_fields(layout, event).map(|field| field.name.clone()).collect();
        for name in names {
            if let Some(value) = event.raw.data.remove(&name) {
                let sealed = seal_value(&key, user, event, &name, &value)?;
                event.raw.data.insert(name, sealed);
            }
        }
    }
    Ok(())
}

/// Decrypts the personal fields of events. Those whose key is destroyed are shown as erased.
pub(crate) async fn open(layout: &Layout, tenant: &Tenant, events: &mut [RecordedEvent]) -> Result<(), Error> {
    open_if_possible(layout, tenant, events).await?;
    events.iter().try_for_each(RecordedEvent::check_decrypted)
}

/// The same, but an event with a field that cannot be decrypted is no error: it says so.
pub(crate) async fn open_if_possible(
    layout: &Layout,
    tenant: &Tenant,
    events: &mut [RecordedEvent],
) -> Result<(), Error> {
    let Some(_) = &layout.keys else { return Ok(()) };
    // `None`: the keys of this user cannot be used, however often they are read.
    let mut keys: BTreeMap<String, Option<Vec<Key>>> = BTreeMap::new();
    for event in events.iter_mut() {
        let sealed: Vec<_> =
            event.raw.data.iter().filter_map(|(name, value)| Some((name.clone(), Sealed::read(value)?))).collect();
        for (name, sealed) in sealed {
            let found = match keys.entry(sealed.of.clone()) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(missing) => missing.insert(match find_keys(layout, tenant, &sealed.of).await {
                    Err(error) if error.is_permanent() => None,
                    found => Some(found?),
                }),
            };
            let value = match found.as_ref().map(|keys| keys.iter().find(|key| fingerprint(key) == sealed.by)) {
                Some(Some(key)) => sealed.open(key, event, &name),
                Some(None) => {
                    event.erased = true;
                    Some(erased_value(layout, event, &name))
                }
                None => None,
            };
            match value {
                Some(value) => drop(event.raw.data.insert(name, value)),
                None => event.undecrypted = Some(name),
            }
        }
    }
    Ok(())
}

/// Destroys the keys of a user, which erases what it has encrypted; whether there was one.
pub(crate) async fn destroy_key(layout: &Layout, tenant: &Tenant, user: &str) -> Result<bool, Error> {
    let Some(entity) = &layout.keys else { return Ok(false) };
    match tenant.delete(&entity.name, &[user], None).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Encrypts later events of a user with a new key; whether the user had one. The older keys stay, because events are never
/// changed: they decrypt what they have encrypted until all keys of the user are destroyed.
pub(crate) async fn rotate_key(layout: &Layout, tenant: &Tenant, user: &str) -> Result<bool, Error> {
    let Some(entity) = &layout.keys else { return Ok(false) };
    let mut retry = Retry::new(3);
    loop {
        retry.attempt().await?;
        let found = match tenant.get(&entity.name, &[user]).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let keys = [vec![random_key(user)?], find_keys(layout, tenant, user).await?].concat();
        let texts: Vec<_> = keys.iter().map(|key| BASE64.encode(key)).collect();
        let mut patch = Map::new();
        patch.insert("key".to_owned(), texts.join(SEPARATOR).into());
        // Only if the keys are still the ones that were read: a lost key would erase what it has encrypted.
        match tenant.update(&entity.name, &[user], patch, &found).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The personal fields of an event.
fn personal_fields<'l>(layout: &'l Layout, event: &RecordedEvent) -> impl Iterator<Item = &'l Field> + use<'l> {
    let known = layout.types.iter().find(|known| known.name == event.raw.event_type);
    known.into_iter().flat_map(|known| known.fields.iter().filter(|field| field.personal))
}

/// An encrypted value.
struct Sealed {
    of: String,
    by: String,
    bytes: Vec<u8>,
}

impl Sealed {
    fn read(value: &Json) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str();
        let bytes = BASE64.decode(text(SEALED_FIELD)?).ok()?;
        Some(Sealed { of: text(KEY_OWNER_FIELD)?.to_owned(), by: text(KEY_FINGERPRINT_FIELD)?.to_owned(), bytes })
    }

    /// The value; `None`: it cannot be decrypted.
    fn open(&self, key: &Key, event: &RecordedEvent, field: &str) -> Option<Json> {
        let (nonce, sealed) = self.bytes.split_at_checked(NONCE_BYTES)?;
        let context = associated_data(event, field);
        let payload = Payload { msg: sealed, aad: &context };
        let opened = XChaCha20Poly1305::new(key.into()).decrypt(XNonce::from_slice(nonce), payload);
        serde_json::from_slice(&opened.ok()?).ok()
    }
}

fn seal_value(key: &Key, of: &str, event: &RecordedEvent, field: &str, value: &Json) -> Result<Json, Error> {
    let failed = || Error::damaged(&event.aggregate, format!("`{field}` cannot be encrypted"));
    let mut bytes = vec![0; NONCE_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| failed())?;
    let (context, clear) = (associated_data(event, field), value.to_string());
    let payload = Payload { msg: clear.as_bytes(), aad: &context };
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(XNonce::from_slice(&bytes), payload);
    bytes.extend(sealed.map_err(|_| failed())?);
    let mut map = Map::new();
    map.insert(SEALED_FIELD.to_owned(), BASE64.encode(bytes).into());
    map.insert(KEY_OWNER_FIELD.to_owned(), of.into());
    map.insert(KEY_FINGERPRINT_FIELD.to_owned(), fingerprint(key).into());
    Ok(map.into())
}

/// The associated data of an encrypted value, so that it cannot be moved to another field, event or tenant.
fn associated_data(event: &RecordedEvent, field: &str) -> Vec<u8> {
    let mut context = Vec::new();
    for part in [&event.tenant, &event.aggregate, &event.id, field] {
        context.extend((part.len() as u64).to_be_bytes());
        context.extend(part.as_bytes());
    }
    context
}

fn fingerprint(key: &Key) -> String {
    blake3::derive_key("nagaya events: which key", key)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value in place of an erased one, of the same type.
fn erased_value(layout: &Layout, event: &RecordedEvent, field: &str) -> Json {
    let kind = personal_fields(layout, event).find(|known| known.name == field).map(|field| &field.field_type);
    match kind {
        Some(FieldType::Integer | FieldType::Number) => 0.into(),
        Some(FieldType::Boolean) => false.into(),
        Some(FieldType::List(_)) => Vec::<Json>::new().into(),
        Some(FieldType::Map(_)) => Map::new().into(),
        _ => ERASED.into(),
    }
}

/// The key of a user, created if there is none.
async fn get_or_create_key(layout: &Layout, tenant: &Tenant, user: &str) -> Result<Key, Error> {
    let Some(entity) = &layout.keys else { return Err(Error::damaged(user, "the design has no entity for keys")) };
    let mut retry = Retry::new(3);
    loop {
        retry.attempt().await?;
        if let Some(newest) = find_keys(layout, tenant, user).await?.first() {
            return Ok(*newest);
        }
        let key = random_key(user)?;
        let mut fields = Map::new();
        fields.insert("subjectId".to_owned(), user.into());
        fields.insert("key".to_owned(), BASE64.encode(key).into());
        match tenant.create(&entity.name, fields).await {
            Ok(_) => return Ok(key),
            // Another writer created the key; use theirs.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn random_key(user: &str) -> Result<Key, Error> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|_| Error::damaged(user, "no random key could be created"))?;
    Ok(key)
}

/// The keys of a user, the newest first.
async fn find_keys(layout: &Layout, tenant: &Tenant, user: &str) -> Result<Vec<Key>, Error> {
    let Some(entity) = &layout.keys else { return Ok(Vec::new()) };
    let mut keys = None;
    // The key is a secret field: it can be used, but not read.
    let used = tenant
        .verify_secret(&entity.name, &[user], "key", |text| {
            keys = text.split(SEPARATOR).map(|key| BASE64.decode(key).ok()?.try_into().ok()).collect();
            keys.is_some()
        })
        .await;
    match used {
        Ok(_) => keys.ok_or_else(|| Error::damaged(user, "the key of this user cannot be read")),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawEvent;

    fn event(tenant: &str, aggregate: &str, id: &str) -> RecordedEvent {
        let raw = RawEvent { event_type: "Written".to_owned(), version: 1, data: Map::new() };
        let (tenant, aggregate, id) = (tenant.to_owned(), aggregate.to_owned(), id.to_owned());
        RecordedEvent { tenant, aggregate, version: 1, id, raw, metadata: Map::new(), erased: false, undecrypted: None }
    }

    #[test]
    fn a_value_opens_only_where_it_was_sealed() {
        let (key, value) = ([7; 32], Json::from("Dear Bob"));
        let place = (event("h-1", "a", "1"), "text");
        let sealed = seal_value(&key, "ann", &place.0, place.1, &value).expect("it is sealed");
        let sealed = Sealed::read(&sealed).expect("it is sealed");
        assert_eq!(sealed.open(&key, &place.0, place.1), Some(value));
        // Also where the parts of the place are the same text together.
        let others = [
            (event("h-", "1a", "1"), "text"),
            (event("h-1", "a1", ""), "text"),
            (event("h-1", "", "a1"), "text"),
            (event("h-1", "a", "1t"), "ext"),
            (event("h-2", "a", "1"), "text"),
            (event("h-1", "a", "1"), "words"),
        ];
        for (event, field) in others {
            assert_eq!(sealed.open(&key, &event, field), None, "{event:?} {field}");
        }
    }

    #[test]
    fn the_same_value_is_sealed_with_another_nonce_each_time() {
        let event = event("h-1", "a", "1");
        let nonces = [(); 2].map(|()| {
            let sealed = seal_value(&[7; 32], "ann", &event, "text", &"Dear Bob".into()).expect("it is sealed");
            Sealed::read(&sealed).expect("it is sealed").bytes[..NONCE_BYTES].to_vec()
        });
        assert_ne!(nonces[0], nonces[1]);
    }
}
