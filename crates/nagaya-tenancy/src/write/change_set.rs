//! Changes of one tenant's items that happen together or not at all.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::{
    draft::{Change, ChangeKind, Draft, NewFields},
    idempotency::{self, IdempotencyRecord},
    plan::{OnFailure, Plan},
};
use crate::{
    Error, Expected, Record, RecordOwner, Retry, SideRecord, TenancyFuture, scope::Intent, session::Session,
    side_record::SideRecordChange,
};

/// Changes that happen together or not at all, all on one side of the wall.
///
/// A store takes 100 writes at once. Each change counts as one. Its audit entry, each unique value that it reserves or releases, and
/// each new reference count as one more.
///
/// An item that other entities can refer to is deleted by itself, not beside other changes: its deletion has to look for
/// referring items, and may remove more of them than fit into one write.
#[derive(Debug)]
#[must_use = "nothing happens before `commit`"]
pub struct ChangeSet {
    session: Session,
    changes: Vec<Change>,
    /// The first change that is refused.
    refused: Option<Error>,
    /// The idempotency key, and the hash of the request.
    idempotency: Option<(String, String)>,
}

impl ChangeSet {
    pub(crate) fn new(session: Session) -> Self {
        ChangeSet { session, changes: Vec::new(), refused: None, idempotency: None }
    }

    /// Creates an item of these fields.
    pub fn create(mut self, entity: &str, fields: Map<String, Json>) -> Self {
        let compiled = self.session.authorize(entity, Intent::Create).map(Arc::clone);
        let kind = compiled.map(|compiled| {
            let fields = NewFields::new(&self.session, &compiled, fields);
            Change { compiled, kind: ChangeKind::Create(fields) }
        });
        self.push(kind);
        self
    }

    /// Changes an item by a merge patch of its fields, if it is as expected.
    pub fn update(self, entity: &str, id: &[&str], patch: Map<String, Json>, expected: impl Into<Expected>) -> Self {
        let id = id.iter().map(|&part| part.to_owned()).collect();
        self.add(entity, Intent::Change, ChangeKind::Update { id, patch, expected: expected.into() })
    }

    /// Deletes an item, if it is as expected.
    pub fn delete(self, entity: &str, id: &[&str], expected: impl Into<Expected>) -> Self {
        let id = id.iter().map(|&part| part.to_owned()).collect();
        self.add(entity, Intent::Change, ChangeKind::Delete { id, expected: expected.into() })
    }

    /// Writes a side record in the table of an entity, or deletes it (`fields` is `None`), if it is still the one that was read
    /// (`None`: there was none). Otherwise the set fails with [`ErrorKind::SideRecordConflict`](crate::ErrorKind::SideRecordConflict).
    pub fn side_record(
        mut self,
        entity: &str,
        owner: RecordOwner,
        name: &str,
        fields: Option<Map<String, Json>>,
        read: Option<&SideRecord>,
    ) -> Self {
        let compiled = self.session.require_reason().and_then(|()| self.session.state.compiled(entity).map(Arc::clone));
        let kind = ChangeKind::SideRecord(SideRecordChange::new(owner, name, fields, read));
        self.push(compiled.map(|compiled| Change { compiled, kind }));
        self
    }

    /// Makes the set idempotent under a key of the caller's choice: when it is committed again with the same key and the same
    /// request, it gives the results of the first time and writes nothing. The key belongs to the user, and is forgotten after
    /// [`Settings::idempotency_retention`](crate::Settings).
    pub fn idempotent(mut self, key: &str, request: &[u8]) -> Self {
        self.idempotency = Some((key.to_owned(), idempotency::hash(request)));
        self
    }

    fn add(mut self, entity: &str, intent: Intent, kind: ChangeKind) -> Self {
        let change =
            self.session.authorize(entity, intent).map(|compiled| Change { compiled: Arc::clone(compiled), kind });
        self.push(change);
        self
    }

    fn push(&mut self, change: Result<Change, Error>) {
        match change {
            Ok(change) => self.changes.push(change),
            Err(error) => self.refused = self.refused.take().or(Some(error)),
        }
    }

    /// Applies all changes or none. Returns the items after the change; `None` for deleted ones.
    pub fn commit(self) -> TenancyFuture<'static, Vec<Option<Record>>> {
        Box::pin(async move {
            let ChangeSet { session, changes, refused, idempotency } = self;
            if let Some(refused) = refused {
                return Err(refused);
            }
            if let [Change { compiled, kind: ChangeKind::Delete { id, expected } }] = changes.as_slice()
                && compiled.referenceable
            {
                session.remove(compiled, id, expected).await?;
                return Ok(vec![None]);
            }
            let is_deletion = |change: &&Change| matches!(change.kind, ChangeKind::Delete { .. });
            if let Some(change) = changes.iter().filter(is_deletion).find(|change| change.compiled.referenceable) {
                let message = "can be referred to: delete it by itself, not in a set";
                return Err(Error::problem(change.compiled.name(), message));
            }
            let idempotency = idempotency.as_ref().zip(changes.first());
            let idempotency = idempotency
                .map(|((key, request), first)| IdempotencyRecord::new(&session, key, request, &first.compiled));

            let mut retry = Retry::new(session.state.settings.attempts);
            loop {
                retry.attempt().await?;
                if let Some(record) = &idempotency
                    && let Some(results) = record.recall(&session).await?
                {
                    return Ok(results);
                }
                match (attempt(&session, &changes, idempotency.as_ref()).await, &idempotency) {
                    (Ok(Some(results)), _) => return Ok(results),
                    (Ok(None), _) => {}
                    // The conflicting item may come from an earlier attempt of this request.
                    (Err(error), Some(record)) => return record.recall(&session).await?.ok_or(error),
                    (Err(error), None) => return Err(error),
                }
            }
        })
    }
}

/// Drafts, plans and commits changes; `None` if another write was faster and they have to be tried again.
async fn attempt(
    session: &Session,
    changes: &[Change],
    idempotency: Option<&IdempotencyRecord<'_>>,
) -> Result<Option<Vec<Option<Record>>>, Error> {
    let mut plan = Plan::default();
    for change in changes {
        if let Some(draft) = Draft::from_change(session, change).await? {
            plan.add(session, draft)?;
        }
        if let ChangeKind::SideRecord(side) = &change.kind {
            let on_failure = OnFailure::SideRecordChanged(side.name().to_owned());
            plan.writes.push((side.write(session, &change.compiled), on_failure));
        }
    }
    if let Some(record) = idempotency {
        plan.writes.push((record.write(session, &plan.results), OnFailure::Replan));
    }
    session.commit(plan).await
}
