//! The last stage of every write: a plan goes to the store, and failed conditions become errors.

use std::sync::Arc;

use nagaya_design::Verb;
use nagaya_store::{FailedCondition, Item, Write, WriteAction, WriteSet, limits};

use super::plan::{OnFailure, Plan};
use crate::{Error, ErrorKind, Record, session::Session};

impl Session {
    /// Writes a plan and gives the items as they are afterwards; `None` if another write was faster and the changes have to be
    /// planned again.
    pub(super) async fn commit(&self, mut plan: Plan) -> Result<Option<Vec<Option<Record>>>, Error> {
        let results = std::mem::take(&mut plan.results);
        let (writes, on_failures): (Vec<_>, Vec<_>) = self.writes_of(plan).await?.into_iter().unzip();
        if let Err(error) = self.write(writes.into_iter().collect()).await {
            let Some(failed) = error.failed_conditions() else { return Err(error.into()) };
            for failed in failed {
                self.explain_failure(failed, on_failures.get(failed.action))?;
            }
            return Ok(None);
        }
        let record = |(compiled, item)| Record::new(compiled, item);
        Ok(Some(results.into_iter().map(|result| result.map(record)).collect()))
    }

    /// Writes a set all or nothing; `false` if a condition failed.
    pub(super) async fn commit_if(&self, set: impl Into<WriteSet>) -> Result<bool, Error> {
        match self.write(set.into()).await {
            Ok(()) => Ok(true),
            Err(error) if error.failed_conditions().is_some() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes audit entries by themselves.
    pub(super) async fn commit_entries(&self, entries: Vec<Write>) -> Result<(), Error> {
        let together = if self.state.cross_partition() { limits::MAX_ACTIONS } else { 1 };
        for entries in entries.chunks(together) {
            self.write(entries.iter().cloned().collect()).await?;
        }
        Ok(())
    }

    /// The writes of a plan, with its audit entries among them.
    pub(super) async fn writes_of(&self, plan: Plan) -> Result<Vec<(Write, OnFailure)>, Error> {
        let Plan { mut writes, entries, .. } = plan;
        if self.state.cross_partition() {
            writes.extend(entries.into_iter().map(|entry| (entry, OnFailure::Replan)));
        } else {
            // A set of one partition cannot hold the entries. They are written first: an entry without a change is better than a
            // change without an entry.
            self.commit_entries(entries).await?;
        }
        Ok(dedupe_checks(writes))
    }

    /// Writes a set to the store. The only function that does.
    async fn write(&self, set: WriteSet) -> Result<(), nagaya_store::Error> {
        if set.actions().is_empty() {
            return Ok(());
        }
        self.state.store.write(set).await.map(drop)
    }

    /// The error of a condition that failed; none if the changes have to be planned again.
    fn explain_failure(&self, failed: &FailedCondition, on_failure: Option<&OnFailure>) -> Result<(), Error> {
        match on_failure {
            Some(OnFailure::IdTaken(compiled)) => {
                Err(ErrorKind::NotUnique { fields: compiled.id_fields.clone() }.into())
            }
            Some(OnFailure::Changed { compiled, expected }) => {
                let is_hidden = |item: &Item| {
                    self.is_hidden(compiled, item, Verb::Read) || self.is_hidden(compiled, item, Verb::Update)
                };
                let may_change = |item: &&Item| self.scope.may_change(compiled, item) && !is_hidden(item);
                let found = failed.current.as_ref().filter(may_change);
                let Some(found) = found.filter(|item| !compiled.is_deleted(item)) else {
                    return Err(Error::not_found(compiled.name()));
                };
                if !expected.holds(compiled, found) {
                    let current = Record::new(Arc::clone(compiled), found.clone());
                    return Err(ErrorKind::VersionConflict { current }.into());
                }
                Ok(())
            }
            // The marker was the item's own and is gone: the item has changed meanwhile.
            Some(OnFailure::ValueTaken(_)) if failed.current.is_none() => Ok(()),
            Some(OnFailure::ValueTaken(fields)) => Err(ErrorKind::NotUnique { fields: fields.clone() }.into()),
            Some(OnFailure::NoReference { field, entity }) => Err(Error::no_reference(field, entity)),
            Some(OnFailure::SideRecordChanged(name)) => {
                Err(ErrorKind::SideRecordConflict { name: name.clone() }.into())
            }
            Some(OnFailure::Replan) | None => Ok(()),
        }
    }
}

/// Keeps one check for each item that is referred to, and none for items that the set writes anyway.
fn dedupe_checks(writes: Vec<(Write, OnFailure)>) -> Vec<(Write, OnFailure)> {
    let location = |(write, on_failure): &(Write, OnFailure)| {
        let key = match (&write.action, on_failure) {
            (WriteAction::Put { item }, OnFailure::IdTaken(compiled)) => compiled.stored_key(item)?,
            (WriteAction::Put { .. }, _) => return None,
            (
                WriteAction::Update { key, .. } | WriteAction::Delete { key } | WriteAction::ConditionCheck { key },
                _,
            ) => key.clone(),
        };
        Some((write.table.clone(), key))
    };
    let is_check = |(_, on_failure): &(Write, OnFailure)| matches!(on_failure, OnFailure::NoReference { .. });
    let (checks, mut kept): (Vec<_>, Vec<_>) = writes.into_iter().partition(is_check);
    if checks.is_empty() {
        return kept;
    }
    let mut locations: Vec<_> = kept.iter().filter_map(location).collect();
    for check in checks {
        let Some(at) = location(&check).filter(|at| !locations.contains(at)) else { continue };
        locations.push(at);
        kept.push(check);
    }
    kept
}
