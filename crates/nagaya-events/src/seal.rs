//! Personal fields of events: sealed with a key of the one who acted, and gone when the key is.
//!
//! Events are never changed, so what is personal in them cannot be taken out. It is stored sealed instead, where the design
//! has a place for keys, and the key can be destroyed. The events stay, in order and in their chain; what was personal in
//! them is shown as erased.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use nagaya_design::{Field, Type};
use nagaya_tenancy::{ErrorKind as Kind, Tenant};
use serde_json::{Map, Value as Json};

use crate::{Error, Recorded, layout::Layout};

/// What stands in place of a text that is erased.
pub const ERASED: &str = "[erased]";

const SEALED: &str = "%sealed";
/// Whose key it is.
const OF: &str = "%of";
/// Which of his keys: one that came after a destroyed one opens nothing of before.
const BY: &str = "%by";
const NONCE: usize = 24;

type Key = [u8; 32];

/// Seals what is personal in events that are about to be stored.
pub(crate) async fn seal(layout: &Layout, tenant: &Tenant, user: &str, events: &mut [Recorded]) -> Result<(), Error> {
    let personal = |event: &Recorded| personal(layout, event).any(|field| event.raw.data.contains_key(&field.name));
    if layout.keys.is_none() || !events.iter().any(personal) {
        return Ok(());
    }
    let key = made(layout, tenant, user).await?;
    for event in events {
        let names: Vec<String> = crate::seal::personal(layout, event).map(|field| field.name.clone()).collect();
        for name in names {
            if let Some(value) = event.raw.data.remove(&name) {
                let sealed = seal_value(&key, user, event, &name, &value)?;
                event.raw.data.insert(name, sealed);
            }
        }
    }
    Ok(())
}

/// Opens what is sealed in events, as far as the keys are there; what cannot be opened any more is shown as erased.
pub(crate) async fn open(layout: &Layout, tenant: &Tenant, events: &mut [Recorded]) -> Result<(), Error> {
    let Some(_) = &layout.keys else { return Ok(()) };
    let mut keys: BTreeMap<String, Option<Key>> = BTreeMap::new();
    for event in events.iter_mut() {
        let sealed: Vec<_> =
            event.raw.data.iter().filter_map(|(name, value)| Some((name.clone(), Sealed::read(value)?))).collect();
        for (name, sealed) in sealed {
            if !keys.contains_key(&sealed.of) {
                keys.insert(sealed.of.clone(), kept(layout, tenant, &sealed.of).await?);
            }
            let key = keys.get(&sealed.of).copied().flatten().filter(|key| fingerprint(key) == sealed.by);
            let value = match key {
                Some(key) => sealed.open(&key, event, &name)?,
                None => {
                    event.erased = true;
                    erased(layout, event, &name)
                }
            };
            event.raw.data.insert(name, value);
        }
    }
    Ok(())
}

/// Destroys the key of somebody: what was sealed with it is erased. Whether there was one.
pub(crate) async fn destroy(layout: &Layout, tenant: &Tenant, user: &str) -> Result<bool, Error> {
    let Some(entity) = &layout.keys else { return Ok(false) };
    match tenant.delete(&entity.name, &[user], None).await {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The fields of an event that are personal.
pub(crate) fn personal<'l>(layout: &'l Layout, event: &Recorded) -> impl Iterator<Item = &'l Field> + use<'l> {
    let known = layout.types.iter().find(|known| known.name == event.raw.event_type);
    known.into_iter().flat_map(|known| known.fields.iter().filter(|field| field.personal))
}

/// A value that is sealed.
struct Sealed {
    of: String,
    by: String,
    bytes: Vec<u8>,
}

impl Sealed {
    fn read(value: &Json) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str();
        let bytes = BASE64.decode(text(SEALED)?).ok()?;
        Some(Sealed { of: text(OF)?.to_owned(), by: text(BY)?.to_owned(), bytes })
    }

    fn open(&self, key: &Key, event: &Recorded, field: &str) -> Result<Json, Error> {
        let damaged = || Error::damaged(&event.aggregate, format!("`{field}` of {} cannot be opened", event.id));
        let (nonce, sealed) = self.bytes.split_at_checked(NONCE).ok_or_else(damaged)?;
        let bound = bound(event, field);
        let payload = Payload { msg: sealed, aad: &bound };
        let opened = XChaCha20Poly1305::new(key.into()).decrypt(XNonce::from_slice(nonce), payload);
        serde_json::from_slice(&opened.map_err(|_| damaged())?).map_err(|_| damaged())
    }
}

fn seal_value(key: &Key, of: &str, event: &Recorded, field: &str, value: &Json) -> Result<Json, Error> {
    let unsealed = || Error::damaged(&event.aggregate, format!("`{field}` cannot be sealed"));
    let mut bytes = vec![0; NONCE];
    getrandom::fill(&mut bytes).map_err(|_| unsealed())?;
    let (bound, clear) = (bound(event, field), value.to_string());
    let payload = Payload { msg: clear.as_bytes(), aad: &bound };
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(XNonce::from_slice(&bytes), payload);
    bytes.extend(sealed.map_err(|_| unsealed())?);
    let mut map = Map::new();
    map.insert(SEALED.to_owned(), BASE64.encode(bytes).into());
    map.insert(OF.to_owned(), of.into());
    map.insert(BY.to_owned(), fingerprint(key).into());
    Ok(map.into())
}

/// What a sealed value belongs to: it cannot be moved to another place.
fn bound(event: &Recorded, field: &str) -> Vec<u8> {
    let mut bound = Vec::new();
    for part in [&event.tenant, &event.aggregate, &event.id, field] {
        bound.extend((part.len() as u64).to_be_bytes());
        bound.extend(part.as_bytes());
    }
    bound
}

fn fingerprint(key: &Key) -> String {
    blake3::derive_key("nagaya events: which key", key)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What stands in place of a value that is erased: of the type that it had.
fn erased(layout: &Layout, event: &Recorded, field: &str) -> Json {
    let kind = personal(layout, event).find(|known| known.name == field).map(|field| &field.kind);
    match kind {
        Some(Type::Integer | Type::Number) => 0.into(),
        Some(Type::Boolean) => false.into(),
        Some(Type::List(_)) => Vec::<Json>::new().into(),
        Some(Type::Map(_)) => Map::new().into(),
        _ => ERASED.into(),
    }
}

/// The key of somebody, made if there is none.
async fn made(layout: &Layout, tenant: &Tenant, user: &str) -> Result<Key, Error> {
    let Some(entity) = &layout.keys else { return Err(Error::damaged(user, "there is no place for keys")) };
    for _ in 0..3 {
        if let Some(key) = kept(layout, tenant, user).await? {
            return Ok(key);
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| Error::damaged(user, "no key can be made"))?;
        let mut fields = Map::new();
        fields.insert("subjectId".to_owned(), user.into());
        fields.insert("key".to_owned(), BASE64.encode(key).into());
        match tenant.create(&entity.name, fields).await {
            Ok(_) => return Ok(key),
            // Somebody was faster; his is the key.
            Err(error) if matches!(error.kind(), Kind::Taken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(crate::ErrorKind::Contended.into())
}

/// The key of somebody, if there is one.
async fn kept(layout: &Layout, tenant: &Tenant, user: &str) -> Result<Option<Key>, Error> {
    let Some(entity) = &layout.keys else { return Ok(None) };
    let mut key = None;
    // It is a secret of its item: it is used without being shown.
    let used = tenant
        .verify_secret(&entity.name, &[user], "key", |text| {
            key = BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
            key.is_some()
        })
        .await;
    match used {
        Ok(_) => Ok(key),
        Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
