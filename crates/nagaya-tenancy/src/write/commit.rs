//! The last stage of every write: a plan goes to the store, and failed conditions become errors.

use std::sync::Arc;

use nagaya_design::Verb;
use nagaya_store::{FailedCondition, Item, Write, WriteAction, WriteSet, limits};

use super::{
    audit::{
        AuditEntries, LogEntry,
        chain::{self, Head},
    },
    plan::{OnFailure, Plan},
};
use crate::{Error, ErrorKind, Record, Retry, session::Session};

impl Session {
    /// Writes a plan and gives the items as they are afterwards; `None` if another write was faster and the changes have to be
    /// planned again.
    pub(super) async fn commit(&self, mut plan: Plan) -> Result<Option<Vec<Option<Record>>>, Error> {
        let results = std::mem::take(&mut plan.results);
        let (writes, log) = self.writes_of(plan).await?;
        let (writes, on_failures): (Vec<_>, Vec<_>) = writes.into_iter().unzip();
        let failed = self.write_logged(writes.into_iter().collect(), &log).await?;
        if !failed.is_empty() {
            for failed in &failed {
                self.explain_failure(failed, on_failures.get(failed.action))?;
            }
            return Ok(None);
        }
        let record = |(compiled, item)| Record::new(compiled, item);
        Ok(Some(results.into_iter().map(|result| result.map(record)).collect()))
    }

    /// Writes a set all or nothing; `false` if a condition failed.
    pub(super) async fn commit_if(&self, set: impl Into<WriteSet>) -> Result<bool, Error> {
        self.commit_logged_if(set, &[]).await
    }

    /// Writes a set all or nothing. Returns the conditions that failed; none if it is written.
    pub(super) async fn unmet_conditions(&self, set: impl Into<WriteSet>) -> Result<Vec<FailedCondition>, Error> {
        failed_conditions(self.write(set.into()).await)
    }

    /// The same with entries of the operator log.
    pub(super) async fn commit_logged_if(&self, set: impl Into<WriteSet>, log: &[LogEntry]) -> Result<bool, Error> {
        Ok(self.write_logged(set.into(), log).await?.is_empty())
    }

    /// Writes audit entries by themselves.
    pub(super) async fn commit_entries(&self, entries: AuditEntries) -> Result<(), Error> {
        // The log comes first: it refuses what it cannot link, and then nothing is written.
        self.append_log(&entries.log).await?;
        let together = if self.state.cross_partition() { limits::MAX_ACTIONS } else { 1 };
        for writes in entries.writes.chunks(together) {
            self.write(writes.iter().cloned().collect()).await?;
        }
        Ok(())
    }

    /// Writes entries of the operator log by themselves.
    pub(super) async fn append_log(&self, log: &[LogEntry]) -> Result<(), Error> {
        if self.state.cross_partition() {
            // One action of each set is the head of the log.
            for log in log.chunks(limits::MAX_ACTIONS - 1) {
                self.write_linked(&WriteSet::new(), log).await?;
            }
            return Ok(());
        }
        // The entries of one process wait for each other, and do not race.
        let _turn = self.state.operator_log_turn().await;
        for entry in log {
            self.append_in_steps(entry).await?;
        }
        Ok(())
    }

    /// The writes of a plan, with the entries of the tenants' audit among them, and the entries of the operator log.
    pub(super) async fn writes_of(&self, plan: Plan) -> Result<(Vec<(Write, OnFailure)>, Vec<LogEntry>), Error> {
        let Plan { mut writes, entries, .. } = plan;
        if self.state.cross_partition() {
            writes.extend(entries.writes.into_iter().map(|entry| (entry, OnFailure::Replan)));
            return Ok((dedupe_checks(writes), entries.log));
        }
        // A set of one partition cannot hold the entries. They are written first: an entry without a change is better than a
        // change without an entry.
        self.commit_entries(entries).await?;
        Ok((dedupe_checks(writes), Vec::new()))
    }

    /// Writes a set with entries of the operator log. Returns the conditions of the set that failed; none if it is written.
    async fn write_logged(&self, set: WriteSet, log: &[LogEntry]) -> Result<Vec<FailedCondition>, Error> {
        if log.is_empty() {
            return failed_conditions(self.write(set).await);
        }
        if self.fit_together(&set, log) {
            return self.write_linked(&set, log).await;
        }
        // The entries come first: an entry without a change is better than a change without an entry. What cannot be written has
        // none.
        limits::check_write_set(&set)?;
        self.append_log(log).await?;
        failed_conditions(self.write(set).await)
    }

    /// Whether a set, entries of the log and its head can be one set.
    fn fit_together(&self, set: &WriteSet, log: &[LogEntry]) -> bool {
        /// More than the bytes of a head without an entry.
        const HEAD: usize = 2_000;
        let bytes = || set.put_bytes() + log.iter().map(LogEntry::size).sum::<usize>() + HEAD;
        self.state.cross_partition()
            && set.actions().len() + log.len() < limits::MAX_ACTIONS
            && bytes() <= limits::MAX_WRITE_SET_BYTES
    }

    /// Writes a set and entries of the operator log all or nothing. Returns the conditions of the set that failed; none if it
    /// is written. Entries that lose a race for the head of the log are linked again.
    async fn write_linked(&self, set: &WriteSet, log: &[LogEntry]) -> Result<Vec<FailedCondition>, Error> {
        // The entries of one process wait for each other, and do not race.
        let _turn = self.state.operator_log_turn().await;
        let own = set.actions().len();
        let mut retry = Retry::new(self.state.settings.attempts);
        loop {
            retry.attempt().await?;
            let head = Head::read_known(&self.state).await?;
            let linked = chain::link(&self.state, head.as_ref(), log);
            let all = set.actions().iter().cloned().chain(linked).collect();
            let written = self.write(all).await;
            if is_busy(&written) {
                continue;
            }
            let mut failed = failed_conditions(written)?;
            if failed.is_empty() {
                return Ok(failed);
            }
            failed.retain(|failed| failed.action < own);
            if !failed.is_empty() {
                return Ok(failed);
            }
        }
    }

    /// Appends an entry to the log of a store that cannot write it together with the head: the head comes first and holds the
    /// entry, so that whoever finds the head can store the entry.
    async fn append_in_steps(&self, entry: &LogEntry) -> Result<(), Error> {
        let mut retry = Retry::new(self.state.settings.attempts);
        loop {
            retry.attempt().await?;
            let head = Head::read_known(&self.state).await?;
            match self.store_pending(head.as_ref()).await {
                Err(error) if matches!(error.kind(), ErrorKind::Store(error) if error.is_busy()) => continue,
                stored => stored?,
            }
            let mut linked = chain::link(&self.state, head.as_ref(), std::slice::from_ref(entry));
            let Some(head) = linked.pop() else { return Ok(()) };
            let written = self.write(head.into()).await;
            if is_busy(&written) {
                continue;
            }
            if failed_conditions(written)?.is_empty() {
                let written = self.write(linked.into_iter().collect()).await;
                // The head holds the entry, and the next writer stores it.
                if !is_busy(&written) {
                    failed_conditions(written)?;
                }
                return Ok(());
            }
        }
    }

    /// Stores the entry that a head holds, if a writer ended before it did.
    pub(crate) async fn store_pending(&self, head: Option<&Head>) -> Result<(), Error> {
        let Some(write) = head.and_then(|head| head.pending_write(&self.state)) else { return Ok(()) };
        match failed_conditions(self.write(write.into()).await) {
            // An entry that the store does not accept is forged. It must not keep the log from going on.
            Err(error) if error.is_permanent() => Ok(()),
            stored => stored.map(drop),
        }
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
            Some(OnFailure::ValueTaken(fields)) => Err(ErrorKind::NotUnique { fields: fields.clone() }.into()),
            Some(OnFailure::NoReference { field, entity }) => Err(Error::no_reference(field, entity)),
            Some(OnFailure::SideRecordChanged(name)) => {
                Err(ErrorKind::SideRecordConflict { name: name.clone() }.into())
            }
            Some(OnFailure::Replan) | None => Ok(()),
        }
    }
}

/// Whether the store gave up because others write to the same items, such as the head of the log. Nothing is written then.
fn is_busy(written: &Result<(), nagaya_store::Error>) -> bool {
    written.as_ref().is_err_and(nagaya_store::Error::is_busy)
}

/// The conditions that failed; none if the set is written.
fn failed_conditions(written: Result<(), nagaya_store::Error>) -> Result<Vec<FailedCondition>, Error> {
    match written {
        Ok(()) => Ok(Vec::new()),
        Err(error) => match error.failed_conditions() {
            Some(failed) => Ok(failed.to_vec()),
            None => Err(error.into()),
        },
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
    let mut locations: Vec<_> = kept.iter().filter_map(location).collect();
    for check in checks {
        let Some(at) = location(&check).filter(|at| !locations.contains(at)) else { continue };
        locations.push(at);
        kept.push(check);
    }
    kept
}
