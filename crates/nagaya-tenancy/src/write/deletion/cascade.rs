//! Deleting the items that are deleted with an item, and last the item.

use std::{collections::HashSet, future::Future, pin::Pin, sync::Arc};

use nagaya_store::{Condition, Item, Key, Write, WriteSet, limits};

use super::{Deletion, record::Phase};
use crate::{
    Error, ErrorKind, Expected,
    compiled::CompiledEntity,
    read::Referrer,
    write::{LogEntry, draft::Draft, plan::Plan},
};

/// Actions of a set that deletes several items; one is left for the check of the mark, and one for the head of the operator log.
const MAX_SET_ACTIONS: usize = limits::MAX_ACTIONS - 2;
/// Bytes of such a set, most of them for audit entries.
const MAX_SET_BYTES: usize = limits::MAX_WRITE_SET_BYTES / 2;
/// How often the referring items of an item are read while they keep changing.
const PASSES: usize = 1_000;

/// The writes that delete an item, and the entries of the operator log about it.
type Removal = (Vec<Write>, Vec<LogEntry>);

/// Whether the deletion is still under way; `false`: another process has ended it.
type DeletionContinues = Result<bool, Error>;

impl Deletion<'_> {
    /// Deletes everything, and last the item; whether this call deleted the item.
    pub(super) async fn remove_all(&self) -> Result<bool, Error> {
        let Some(item) = self.marked_item().await? else {
            // Where item and record are two writes, the record may be left.
            self.session.commit_if(self.delete_record(Phase::Removing)).await?;
            return Ok(false);
        };
        let mut seen = HashSet::from([(self.compiled.table.clone(), self.key.clone())]);
        if !self.remove_below(self.compiled, &item, &mut seen).await? {
            return Ok(false);
        }
        self.remove_item().await
    }

    async fn remove_item(&self) -> Result<bool, Error> {
        for _ in 0..PASSES {
            let Some(item) = self.marked_item().await? else { return Ok(false) };
            let delete_record = self.delete_record(Phase::Removing);
            let (writes, log) = self.removal(self.compiled, self.key.clone(), item, None).await?;
            let set: WriteSet = writes.into_iter().collect();
            let (set, after) = match self.session.state.cross_partition() {
                true => (set.and(delete_record), WriteSet::new()),
                false => (set, delete_record.into()),
            };
            if self.session.commit_logged_if(set, &log).await? {
                self.session.commit_if(after).await?;
                return Ok(true);
            }
        }
        Err(ErrorKind::Contention.into())
    }

    /// Deletes the items that refer to an item and are deleted with it, and before them those that refer to them.
    fn remove_below<'a>(
        &'a self,
        target: &'a Arc<CompiledEntity>,
        item: &'a Item,
        seen: &'a mut HashSet<(String, Key)>,
    ) -> Pin<Box<dyn Future<Output = DeletionContinues> + Send + 'a>> {
        Box::pin(async move {
            for referrer in self.session.state.referrers(target).iter().filter(|referrer| referrer.cascade) {
                let mut passes = 0..PASSES;
                loop {
                    match self.remove_referring(referrer, target, item, seen).await? {
                        None => return Ok(false),
                        Some(0) => break,
                        Some(_) if passes.next().is_none() => return Err(ErrorKind::Contention.into()),
                        Some(_) => {}
                    }
                }
            }
            Ok(true)
        })
    }

    /// Deletes the items that refer to an item by a field; gives their number, `None` if another process has ended the deletion.
    async fn remove_referring(
        &self,
        referrer: &Referrer,
        target: &Arc<CompiledEntity>,
        item: &Item,
        seen: &mut HashSet<(String, Key)>,
    ) -> Result<Option<usize>, Error> {
        let child = referrer.compiled(&self.session.state)?;
        let mut count = 0;
        let mut after = None;
        loop {
            let page = self.session.referring_items(referrer, target, item, after).await?;
            let mut removals = Vec::with_capacity(page.items.len());
            for (key, item) in page.items {
                // An item that refers to it in a circle is deleted at its own place.
                let location = (child.table.clone(), key.clone());
                if !seen.insert(location.clone()) {
                    continue;
                }
                if !self.remove_below(child, &item, seen).await? {
                    return Ok(None);
                }
                // If its deletion loses a race, the next pass finds it again.
                seen.remove(&location);
                let refers = referrer.still_refers(&item);
                removals.push(self.removal(child, key, item, refers).await?);
            }
            count += removals.len();
            if !self.remove_together(removals).await? {
                return Ok(None);
            }
            after = page.next;
            if after.is_none() {
                return Ok(Some(count));
            }
        }
    }

    /// Commits deletions in as few sets as possible.
    async fn remove_together(&self, removals: Vec<Removal>) -> DeletionContinues {
        let mut sets: Vec<(Vec<Removal>, usize, usize)> = Vec::new();
        for removal in removals {
            let (writes, log) = &removal;
            let actions = writes.len() + log.len();
            let bytes = writes.iter().cloned().collect::<WriteSet>().put_bytes();
            let bytes = bytes + log.iter().map(LogEntry::size).sum::<usize>();
            match sets.last_mut() {
                Some(last) if last.1 + actions <= MAX_SET_ACTIONS && last.2 + bytes <= MAX_SET_BYTES => {
                    last.0.push(removal);
                    last.1 += actions;
                    last.2 += bytes;
                }
                _ => sets.push((vec![removal], actions, bytes)),
            }
        }
        for (removals, ..) in sets {
            let (writes, logs): (Vec<_>, Vec<_>) = removals.iter().cloned().unzip();
            if !self.session.commit_logged_if(self.while_marked(writes.concat()), &logs.concat()).await? {
                // One of the items has changed: commit each by itself, and leave those that fail to the next pass.
                for (writes, log) in removals {
                    self.session.commit_logged_if(self.while_marked(writes), &log).await?;
                }
                if self.marked_item().await?.is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes that happen only while the item has the mark. An item that was created again under the same id keeps the items that
    /// refer to it.
    fn while_marked(&self, writes: Vec<Write>) -> WriteSet {
        let set: WriteSet = writes.into_iter().collect();
        match self.session.state.cross_partition() {
            true => set.and(Write::condition_check(&self.compiled.table, self.key.clone(), self.is_marked())),
            false => set,
        }
    }

    /// The writes that delete an item, if it is unchanged and this condition holds.
    async fn removal(
        &self,
        compiled: &Arc<CompiledEntity>,
        key: Key,
        item: Item,
        condition: Option<Condition>,
    ) -> Result<Removal, Error> {
        let mut plan = Plan::default();
        plan.add(self.session, Draft::removal(self.session, compiled, key, item, &Expected::Any)?)?;
        if let (Some((write, _)), Some(condition)) = (plan.writes.first_mut(), condition) {
            write.condition = write.condition.take().map(|unchanged| unchanged.and(condition));
        }
        let (writes, log) = self.session.writes_of(plan).await?;
        Ok((writes.into_iter().map(|(write, _)| write).collect(), log))
    }
}
