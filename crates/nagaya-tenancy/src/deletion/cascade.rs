//! Removing what goes with an item, and at last the item.

use std::{collections::HashSet, future::Future, pin::Pin, sync::Arc};

use nagaya_store::{Item, Key, Write, WriteSet, limits};

use super::{
    Deletion,
    pending::{self, Phase},
};
use crate::{
    Error, ErrorKind, Expected,
    blueprint::Blueprint,
    plan::{Planned, distinct},
    referers::Referer,
};

/// Actions of a set that takes several items along; the rest is for the check of the mark.
const ACTIONS: usize = limits::MAX_ACTIONS - 1;
/// Bytes of such a set, of which audit entries make the most.
const BYTES: usize = limits::MAX_WRITE_SET_BYTES / 2;
/// How often what refers to an item is gone through, while it keeps changing.
const PASSES: usize = 1_000;

/// Whether the deletion is still under way; `false`: somebody else has ended it.
type UnderWay = Result<bool, Error>;

impl Deletion<'_> {
    /// Removes everything that goes, and at last the item; whether it was this call that did so.
    pub(super) async fn remove_all(&self) -> Result<bool, Error> {
        let Some(item) = self.marked().await? else {
            // Where the last two writes are not one, the item may be gone and the note still there.
            let forget = Write::delete(&self.blueprint.table, pending::key(&self.token));
            self.room.all(forget.when(Phase::Removing.is_noted()).into()).await?;
            return Ok(false);
        };
        let mut seen = HashSet::from([(self.blueprint.table.clone(), self.key.clone())]);
        if !self.remove_below(self.blueprint, &item, &mut seen).await? {
            return Ok(false);
        }
        self.remove_item().await
    }

    async fn remove_item(&self) -> Result<bool, Error> {
        for _ in 0..PASSES {
            let Some(item) = self.marked().await? else { return Ok(false) };
            let mut planned = Planned::default();
            self.room.plan_removal(self.blueprint, self.key.clone(), &item, &Expected::Any, &mut planned)?;
            let forget = Write::delete(&self.blueprint.table, pending::key(&self.token));
            let forget = forget.when(Phase::Removing.is_noted());
            let together = self.room.house.store.capabilities().cross_partition;
            let mut writes = self.writes(planned).await?;
            if together {
                writes.push(forget.clone());
            }
            if self.room.all(writes.into_iter().collect()).await? {
                if !together {
                    self.room.all(forget.into()).await?;
                }
                return Ok(true);
            }
        }
        Err(ErrorKind::Contended.into())
    }

    /// Removes what refers to an item and goes with it, and before that what refers to that.
    fn remove_below<'a>(
        &'a self,
        target: &'a Arc<Blueprint>,
        item: &'a Item,
        seen: &'a mut HashSet<(String, Key)>,
    ) -> Pin<Box<dyn Future<Output = UnderWay> + Send + 'a>> {
        Box::pin(async move {
            for referer in self.room.house.referers(target).iter().filter(|referer| referer.cascade) {
                let mut passes = 0..PASSES;
                loop {
                    match self.pass(referer, target, item, seen).await? {
                        None => return Ok(false),
                        Some(0) => break,
                        Some(_) if passes.next().is_none() => return Err(ErrorKind::Contended.into()),
                        Some(_) => {}
                    }
                }
            }
            Ok(true)
        })
    }

    /// Goes once through what refers to an item by a field and removes it; how many there were, `None` if somebody else has
    /// ended the deletion.
    async fn pass(
        &self,
        referer: &Referer,
        target: &Arc<Blueprint>,
        item: &Item,
        seen: &mut HashSet<(String, Key)>,
    ) -> Result<Option<usize>, Error> {
        let child = referer.blueprint(&self.room.house)?;
        let mut count = 0;
        let mut after = None;
        loop {
            let page = self.room.children(referer, target, item, after).await?;
            let mut removals = Vec::with_capacity(page.items.len());
            for (key, item) in page.items {
                // What refers to it in a circle goes at its own place.
                if child.referred {
                    let place = (child.table.clone(), key.clone());
                    if !seen.insert(place.clone()) {
                        continue;
                    }
                    if !self.remove_below(child, &item, seen).await? {
                        return Ok(None);
                    }
                    // Should its own removal lose a race, the next pass comes to it again.
                    seen.remove(&place);
                }
                let mut planned = Planned::default();
                self.room.plan_removal(child, key, &item, &Expected::Any, &mut planned)?;
                if let (Some((write, _)), Some(refers)) = (planned.writes.first_mut(), referer.still_refers(&item)) {
                    write.condition = write.condition.take().map(|unchanged| unchanged.and(refers));
                }
                removals.push(self.writes(planned).await?);
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

    /// Writes removals in as few sets as they fit in.
    async fn remove_together(&self, removals: Vec<Vec<Write>>) -> UnderWay {
        let mut sets: Vec<(Vec<Vec<Write>>, usize, usize)> = Vec::new();
        for removal in removals {
            let actions = removal.len();
            let bytes = removal.iter().cloned().collect::<WriteSet>().put_bytes();
            match sets.last_mut() {
                Some(last) if last.1 + actions <= ACTIONS && last.2 + bytes <= BYTES => {
                    last.0.push(removal);
                    last.1 += actions;
                    last.2 += bytes;
                }
                _ => sets.push((vec![removal], actions, bytes)),
            }
        }
        for (removals, ..) in sets {
            if !self.room.all(self.while_marked(removals.concat())).await? {
                // One of them has changed: each for itself, and what fails is left to the next pass.
                for removal in removals {
                    self.room.all(self.while_marked(removal)).await?;
                }
                if self.marked().await?.is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes that happen only while the item is about to go. An item that was made anew since then, under the same id, keeps
    /// what refers to it.
    fn while_marked(&self, writes: Vec<Write>) -> WriteSet {
        let set: WriteSet = writes.into_iter().collect();
        match self.room.house.store.capabilities().cross_partition {
            true => set.and(Write::check(&self.blueprint.table, self.key.clone(), self.is_marked())),
            false => set,
        }
    }

    /// The writes of something planned, with its audit entries.
    async fn writes(&self, planned: Planned) -> Result<Vec<Write>, Error> {
        let Planned { mut writes, acts, .. } = planned;
        self.room.write_down(&acts, &mut writes).await?;
        Ok(distinct(writes).into_iter().map(|(write, _)| write).collect())
    }
}
