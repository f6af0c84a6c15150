//! Entities as Rust types.

use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

use crate::{Error, ErrorKind, List, Record, Retry, Tenant};

/// A type for the items of an entity. Derive it: then the compiler checks its fields against the design.
pub trait Entity: Serialize + DeserializeOwned + Send + Sync {
    /// The name of the design.
    const DESIGN_NAME: &'static str;
    /// The name of the entity in it.
    const NAME: &'static str;
}

/// A page of entities.
#[derive(Debug, Clone, PartialEq)]
pub struct TypedPage<E> {
    /// The entities, in order.
    pub items: Vec<E>,
    /// The cursor of the next page; `None`: this is the last one.
    pub next: Option<String>,
}

/// A tenant's items of one type.
#[derive(Debug)]
pub struct TypedItems<'t, E> {
    tenant: &'t Tenant,
    entity: PhantomData<fn() -> E>,
}

impl Tenant {
    /// The tenant's items of a type.
    pub fn items_of<E: Entity>(&self) -> Result<TypedItems<'_, E>, Error> {
        if self.0.state.design.name != E::DESIGN_NAME {
            return Err(ErrorKind::NoEntity(format!("{}.{}", E::DESIGN_NAME, E::NAME)).into());
        }
        self.0.state.compiled(E::NAME)?;
        Ok(TypedItems { tenant: self, entity: PhantomData })
    }
}

impl<E: Entity> TypedItems<'_, E> {
    /// The item with this id.
    pub async fn get(&self, id: &[&str]) -> Result<E, Error> {
        self.tenant.get(E::NAME, id).await?.deserialize()
    }

    /// Creates an item; missing fields get their defaults. Gives the item as it is stored.
    pub async fn create(&self, entity: &E) -> Result<E, Error> {
        self.tenant.create(E::NAME, self.given(entity)?).await?.deserialize()
    }

    /// Changes an item by a function: reads it, changes it, and writes it if it is still the one that was read; otherwise it
    /// tries again.
    pub async fn update_with(&self, id: &[&str], mut change: impl FnMut(&mut E) + Send) -> Result<E, Error> {
        let mut retry = Retry::new(self.tenant.0.state.settings.attempts);
        loop {
            retry.attempt().await?;
            let record = self.tenant.get(E::NAME, id).await?;
            let mut entity: E = record.deserialize()?;
            let before = object(&entity)?;
            change(&mut entity);
            let patch = patch(&before, &object(&entity)?);
            match self.tenant.update(E::NAME, id, patch, record.version()).await {
                Err(error) if error.is_version_conflict() => {}
                written => return written?.deserialize(),
            }
        }
    }

    /// Deletes an item, if it has the expected version.
    pub async fn delete(&self, id: &[&str], expected: Option<i64>) -> Result<(), Error> {
        self.tenant.delete(E::NAME, id, expected).await
    }

    /// A page of an access pattern of the entity.
    pub async fn list(&self, list: &List) -> Result<TypedPage<E>, Error> {
        let page = self.tenant.list(list).await?;
        let items = page.records.iter().map(|record| self.read(record)).collect::<Result<_, _>>()?;
        Ok(TypedPage { items, next: page.next })
    }

    fn read(&self, record: &Record) -> Result<E, Error> {
        if record.entity() == E::NAME {
            record.deserialize()
        } else {
            Err(Error::problem(record.entity(), format!("is not a {}", E::NAME)))
        }
    }

    /// The fields of a value, without those that the layer sets.
    fn given(&self, entity: &E) -> Result<Map<String, Json>, Error> {
        let mut fields = object(entity)?;
        fields.retain(|_, value| !value.is_null());
        let compiled = self.tenant.0.state.compiled(E::NAME)?;
        if let Some(version) = &compiled.entity.version {
            fields.remove(version);
        }
        // A type may contain the tenant to read it; the name of another tenant is refused.
        if let Some(tenant) = compiled.entity.tenant.as_deref()
            && fields.get(tenant).and_then(Json::as_str) == self.tenant.0.scope.tenant()
        {
            fields.remove(tenant);
        }
        Ok(fields)
    }
}

fn object<E: Entity>(entity: &E) -> Result<Map<String, Json>, Error> {
    match serde_json::to_value(entity) {
        Ok(Json::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::problem(E::NAME, "is not an object")),
        Err(error) => Err(Error::problem(E::NAME, format!("cannot be written: {error}"))),
    }
}

/// The merge patch from one object to another.
fn patch(before: &Map<String, Json>, after: &Map<String, Json>) -> Map<String, Json> {
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changed
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(gone.map(|name| (name.clone(), Json::Null)))
        .collect()
}
