//! The handles that application code gets: of a tenant, and of an operator.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::{
    Error, ErrorKind, Expected, Follower, Keeper, List, Nagaya, Note, Page, Principal, Record, Set, room::Room,
};

/// A handle that reaches one tenant's items and what is public, and nothing else.
///
/// It cannot be asked for the store, for another tenant, or for a key.
#[derive(Debug, Clone)]
pub struct Tenant(pub(crate) Room);

/// A handle that reaches behind system walls; every use of it is audited with its reason.
#[derive(Debug, Clone)]
pub struct Operator(pub(crate) Room);

/// What both handles can do.
macro_rules! handle {
    ($handle:ident) => {
        impl $handle {
            /// Who it acts for.
            pub fn principal(&self) -> &Principal {
                &self.0.principal
            }

            /// The item with this id: the values of its key besides the tenant.
            pub async fn get(&self, entity: &str, id: &[&str]) -> Result<Record, Error> {
                self.0.get(entity, id).await
            }

            /// The items with these ids, in their order; `None` for those that are not there.
            pub async fn get_many(&self, wanted: &[(&str, &[&str])]) -> Result<Vec<Option<Record>>, Error> {
                self.0.get_many(wanted).await
            }

            /// A page of an access pattern.
            pub async fn list(&self, list: &List) -> Result<Page, Error> {
                self.0.list(list).await
            }

            /// Makes an item of these fields.
            pub async fn create(&self, entity: &str, fields: Map<String, Json>) -> Result<Record, Error> {
                one(entity, self.set().create(entity, fields).commit().await?)
            }

            /// Changes an item by a merge patch of its fields, if it is as expected: a version (`None`: any), or a record
            /// that was read.
            pub async fn update(
                &self,
                entity: &str,
                id: &[&str],
                patch: Map<String, Json>,
                expected: impl Into<Expected>,
            ) -> Result<Record, Error> {
                one(entity, self.set().update(entity, id, patch, expected).commit().await?)
            }

            /// Removes an item, if it is as expected.
            pub async fn delete(&self, entity: &str, id: &[&str], expected: impl Into<Expected>) -> Result<(), Error> {
                self.set().delete(entity, id, expected).commit().await.map(drop)
            }

            /// A note that is kept beside the items of an entity.
            pub async fn note(&self, entity: &str, keeper: Keeper, name: &str) -> Result<Option<Note>, Error> {
                self.0.note_called(entity, keeper, name).await
            }

            /// Changes that happen together or not at all.
            pub fn set(&self) -> Set {
                Set::new(self.0.clone())
            }
        }
    };
}

handle!(Tenant);
handle!(Operator);

impl Tenant {
    /// Whether a secret field of an item passes a test: the one way to use what is never read back, such as the hash of a
    /// password. `false` also where the item has no such value.
    pub async fn verify_secret(
        &self,
        entity: &str,
        id: &[&str],
        field: &str,
        test: impl FnOnce(&str) -> bool,
    ) -> Result<bool, Error> {
        self.0.verify_secret(entity, id, field, test).await
    }
}

impl Operator {
    /// The house's notes beside an entity whose names start with this, in order, after one of them.
    pub async fn notes(
        &self,
        entity: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Note>, Error> {
        self.0.is_reasoned()?;
        self.0.notes(entity, prefix, after, limit).await
    }

    /// Sees what happens to the items of an entity, of all tenants. That it begins is audited; what is seen then is not.
    pub async fn follow(&self, entity: &str) -> Result<Follower, Error> {
        self.0.is_reasoned()?;
        let blueprint = self.0.house.blueprint(entity)?;
        self.0.note_reading("follow", [(blueprint, entity.to_owned())]).await?;
        Ok(Follower { house: Arc::clone(&self.0.house), blueprint: Arc::clone(blueprint) })
    }

    /// A tenant's handle, for work on the tenant's behalf: audited like everything that an operator does.
    pub fn within(&self, tenant: &str) -> Result<Tenant, Error> {
        let principal = Principal { tenant: tenant.into(), ..self.0.principal.clone() };
        let Tenant(room) = Nagaya::of(&self.0.house).tenant(&principal)?;
        Ok(Tenant(Room { reason: self.0.reason.clone(), ..room }))
    }
}

fn one(entity: &str, results: Vec<Option<Record>>) -> Result<Record, Error> {
    let record = results.into_iter().next().flatten();
    record.ok_or_else(|| ErrorKind::NotFound { entity: entity.to_owned() }.into())
}
