//! The handles that application code gets: of a tenant, of an operator, and of a visitor.

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

/// A handle that reads what is public, and does nothing else: for somebody who has not said who it is.
#[derive(Debug, Clone)]
pub struct Visitor(pub(crate) Room);

/// What all handles can do.
macro_rules! reads {
    ($handle:ident) => {
        impl $handle {
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
        }
    };
}

/// What the handles of those who are known can do besides.
macro_rules! writes {
    ($handle:ident) => {
        impl $handle {
            /// Who it acts for.
            pub fn principal(&self) -> &Principal {
                &self.0.principal
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

reads!(Tenant);
reads!(Operator);
reads!(Visitor);
writes!(Tenant);
writes!(Operator);

impl Tenant {
    /// The tenant's notes beside an entity whose names start with this, in order, after one of them. A page may hold fewer
    /// than the limit; an empty one is the end.
    pub async fn notes(
        &self,
        entity: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Note>, Error> {
        self.0.is_reasoned()?;
        self.0.notes(entity, Keeper::Tenant, prefix, after, limit).await
    }

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
        self.0.notes(entity, Keeper::House, prefix, after, limit).await
    }

    /// Sees what happens to the items of an entity, of all tenants. That it begins is audited; what is seen then is not.
    pub async fn follow(&self, entity: &str) -> Result<Follower, Error> {
        self.follow_all(&[entity]).await
    }

    /// The same for several entities, which have to lie in one table.
    pub async fn follow_all(&self, entities: &[&str]) -> Result<Follower, Error> {
        self.0.is_reasoned()?;
        let house = &self.0.house;
        let blueprints = entities.iter().map(|entity| house.blueprint(entity)).collect::<Result<Vec<_>, _>>()?;
        let table = blueprints.first().map(|first| first.table.clone()).unwrap_or_default();
        if let Some(elsewhere) = blueprints.iter().find(|blueprint| blueprint.table != table) {
            return Err(Error::problem(elsewhere.name(), "lies in another table: follow it by itself"));
        }
        self.0.note_reading("follow", blueprints.iter().map(|each| (*each, each.name().to_owned()))).await?;
        let blueprints = blueprints.into_iter().map(Arc::clone).collect();
        Ok(Follower { house: Arc::clone(house), table, blueprints })
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
