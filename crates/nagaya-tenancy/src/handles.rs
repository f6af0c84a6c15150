//! The handles that application code gets: for a tenant, an operator, or a visitor.

use std::{pin::Pin, sync::Arc};

use serde_json::{Map, Value as Json};

use crate::{
    ChangeSet, ChangeSource, Error, Expected, List, Nagaya, Page, Principal, Record, RecordOwner, SideRecord,
    session::{OwnItems, Session},
};

/// The result of a call, to be awaited.
///
/// It is boxed so that the code behind it is compiled once, in this crate: the body of an `async fn` is compiled again in
/// every crate that awaits it.
pub type TenancyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A handle that reaches one tenant's items and public ones, and nothing else.
///
/// It gives out neither the store, nor another tenant, nor a key.
#[derive(Debug, Clone)]
pub struct Tenant(pub(crate) Session);

/// A handle that reaches behind system walls; what it does is audited with its reason, as [`Nagaya::operator`] says.
#[derive(Debug, Clone)]
pub struct Operator(pub(crate) Session);

/// A handle for anonymous callers: it reads public items, and nothing else.
#[derive(Debug, Clone)]
pub struct Visitor(pub(crate) Session);

/// The methods of all handles.
macro_rules! reads {
    ($handle:ident) => {
        impl $handle {
            /// The item with this id: the values of its key besides the tenant.
            pub fn get<'a>(&'a self, entity: &'a str, id: &'a [&'a str]) -> TenancyFuture<'a, Record> {
                Box::pin(self.0.get(entity, id))
            }

            /// The items with these ids, in the same order; `None` for those that do not exist.
            pub fn get_many<'a>(
                &'a self,
                wanted: &'a [(&'a str, &'a [&'a str])],
            ) -> TenancyFuture<'a, Vec<Option<Record>>> {
                Box::pin(self.0.get_many(wanted))
            }

            /// A page of an access pattern.
            pub fn list<'a>(&'a self, list: &'a List) -> TenancyFuture<'a, Page> {
                Box::pin(self.0.list(list))
            }

            /// Encrypts a position in a list that the caller of this makes itself, such as the answers to a search. `bound` says
            /// which list, in texts that begin with its name: the cursor opens for the same caller and the same `bound` only.
            pub fn seal_position(&self, bound: &[&str], position: &[&str]) -> Result<String, Error> {
                self.0.seal_position(bound, position)
            }

            /// The position in such a cursor.
            pub fn open_position(&self, bound: &[&str], cursor: &str) -> Result<Vec<String>, Error> {
                self.0.open_position(bound, cursor)
            }
        }
    };
}

/// The methods of handles that may write.
macro_rules! writes {
    ($handle:ident) => {
        impl $handle {
            /// The caller that it acts for.
            pub fn principal(&self) -> &Principal {
                &self.0.principal
            }

            /// Creates an item of these fields.
            pub async fn create(&self, entity: &str, fields: Map<String, Json>) -> Result<Record, Error> {
                only_record(entity, self.change_set().create(entity, fields).commit().await?)
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
                only_record(entity, self.change_set().update(entity, id, patch, expected).commit().await?)
            }

            /// Deletes an item, if it is as expected.
            pub async fn delete(&self, entity: &str, id: &[&str], expected: impl Into<Expected>) -> Result<(), Error> {
                self.change_set().delete(entity, id, expected).commit().await.map(drop)
            }

            /// A side record in the table of an entity.
            pub fn side_record<'a>(
                &'a self,
                entity: &'a str,
                owner: RecordOwner,
                name: &'a str,
            ) -> TenancyFuture<'a, Option<SideRecord>> {
                Box::pin(self.0.side_record(entity, owner, name))
            }

            /// Changes that happen together or not at all.
            pub fn change_set(&self) -> ChangeSet {
                ChangeSet::new(self.0.clone())
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
    /// The same handle, limited to the user's own items where its roles permit a verb on own items only (`task.update:own`). An
    /// item of another user then does not exist.
    #[must_use]
    pub fn limited_by_roles(self) -> Self {
        Tenant(Session { own_items: OwnItems::ByRoles, ..self.0 })
    }

    /// The same handle, limited to the user's own items of all entities that name an owner.
    #[must_use]
    pub fn limited_to_own_items(self) -> Self {
        Tenant(Session { own_items: OwnItems::Always, ..self.0 })
    }

    /// The tenant's side records in the table of an entity whose names start with this, in order, after one of them. A page may
    /// have fewer than the limit; an empty one is the end.
    pub fn side_records<'a>(
        &'a self,
        entity: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> TenancyFuture<'a, Vec<SideRecord>> {
        Box::pin(self.0.side_records(entity, RecordOwner::Tenant, prefix, after, limit))
    }

    /// The tenant's side records with these names in the table of an entity, in the order of the names, which differ.
    pub fn side_records_named<'a>(
        &'a self,
        entity: &'a str,
        names: &'a [String],
    ) -> TenancyFuture<'a, Vec<Option<SideRecord>>> {
        Box::pin(self.0.side_records_named(entity, RecordOwner::Tenant, names))
    }

    /// Whether a secret field of an item passes a test. It is the only way to use a secret, such as the hash of a password.
    /// `false` also if the item has no such value.
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
    /// The reason for which it does what it does.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or_default()
    }

    /// The system's side records in the table of an entity whose names start with this, in order, after one of them.
    pub fn side_records<'a>(
        &'a self,
        entity: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> TenancyFuture<'a, Vec<SideRecord>> {
        Box::pin(self.0.side_records(entity, RecordOwner::System, prefix, after, limit))
    }

    /// Sees what happens to the items of an entity, of all tenants. That it begins is audited; what is seen then is not.
    pub async fn change_source(&self, entity: &str) -> Result<ChangeSource, Error> {
        self.change_source_of(&[entity]).await
    }

    /// The same for several entities, which have to lie in one table.
    pub fn change_source_of<'a>(&'a self, entities: &'a [&'a str]) -> TenancyFuture<'a, ChangeSource> {
        Box::pin(async move {
            self.0.require_reason()?;
            let state = &self.0.state;
            let compiled = entities.iter().map(|entity| state.compiled(entity)).collect::<Result<Vec<_>, _>>()?;
            let table = compiled.first().map(|first| first.table.clone()).unwrap_or_default();
            if let Some(elsewhere) = compiled.iter().find(|each| each.table != table) {
                return Err(Error::problem(elsewhere.name(), "lies in another table: follow it by itself"));
            }
            self.0.audit_reading("follow", compiled.iter().map(|each| (*each, each.name().to_owned()))).await?;
            let compiled = compiled.into_iter().map(Arc::clone).collect();
            Ok(ChangeSource { state: Arc::clone(state), table, entities: compiled })
        })
    }

    /// A tenant's handle, for work on the tenant's behalf: audited like everything that an operator does.
    pub fn as_tenant(&self, tenant: &str) -> Result<Tenant, Error> {
        let principal = Principal { tenant: tenant.into(), ..self.0.principal.clone() };
        let Tenant(session) = Nagaya::from_state(&self.0.state).tenant(&principal)?;
        Ok(Tenant(Session { reason: self.0.reason.clone(), ..session }))
    }
}

fn only_record(entity: &str, results: Vec<Option<Record>>) -> Result<Record, Error> {
    results.into_iter().next().flatten().ok_or_else(|| Error::not_found(entity))
}
