//! Marking the items of a deletion that can be referred to, and removing the marks.

use std::{collections::HashSet, sync::Arc};

use nagaya_store::{Condition, Item, Key, Update, Write, WriteSet};

use super::{
    Deletion, mark_of,
    record::{self, DeletionRecord, Phase},
};
use crate::{
    Error,
    compiled::{CompiledEntity, DELETING},
    read::Referrer,
    session::Session,
};

/// What marking has found.
pub(super) enum MarkOutcome {
    /// The item itself has no mark: there is nothing to delete.
    Unmarked,
    /// Nothing forbids the deletion, and nothing new can.
    Clear,
    /// Something forbids it: items of this entity, or if there are none, another deletion.
    Blocked(Option<String>),
    /// Another process has written the next phase.
    Superseded,
}

/// An item to delete that can be referred to.
struct Node {
    compiled: Arc<CompiledEntity>,
    key: Key,
    item: Item,
    /// It still refers to the item that it is deleted with.
    refers: Option<Condition>,
}

/// About how many items the check before marking looks at.
const PRECHECK_ITEMS: usize = 200;

/// The items that were seen, by table and key.
type Seen = HashSet<(String, Key)>;

impl Node {
    fn root(compiled: &Arc<CompiledEntity>, key: &Key, item: Item) -> Self {
        Node { compiled: Arc::clone(compiled), key: key.clone(), item, refers: None }
    }

    fn child(compiled: &Arc<CompiledEntity>, referrer: &Referrer, key: Key, item: Item) -> Self {
        let refers = referrer.still_refers(&item);
        Node { compiled: Arc::clone(compiled), key, item, refers }
    }

    fn location(&self) -> (String, Key) {
        (self.compiled.table.clone(), self.key.clone())
    }
}

/// What marking one item has come to.
enum Marked {
    Done,
    /// The item is gone, or no longer refers to what is deleted.
    Gone,
    /// The deletion with this token has marked it.
    ByOther(String),
    Superseded,
}

impl Session {
    /// The entity of an item that forbids a deletion, found by a short check before anything is marked. A complete check might
    /// never end while others create referring items.
    pub(super) async fn precheck(&self, compiled: &Arc<CompiledEntity>, item: &Item) -> Result<Option<String>, Error> {
        let Some(key) = compiled.stored_key(item) else { return Ok(None) };
        let mut level = vec![Node::root(compiled, &key, item.clone())];
        let mut seen: Seen = level.iter().map(Node::location).collect();
        while !level.is_empty() && seen.len() <= PRECHECK_ITEMS {
            let mut next = Vec::new();
            for node in &level {
                if let Some(by) = self.find_blocker(node, 1, &mut seen, &mut next).await? {
                    return Ok(Some(by));
                }
            }
            level = next;
        }
        Ok(None)
    }

    /// Reads the items that refer to one, at most so many pages of each kind. Gives the entity of one that forbids the deletion;
    /// adds those to `next` that are deleted too and can be referred to themselves.
    async fn find_blocker(
        &self,
        node: &Node,
        pages: usize,
        seen: &mut Seen,
        next: &mut Vec<Node>,
    ) -> Result<Option<String>, Error> {
        let target = &node.compiled;
        for referrer in self.state.referrers(target) {
            let child = referrer.compiled(&self.state)?;
            if referrer.cascade && !child.referenceable {
                continue;
            }
            let mut after = None;
            for _ in 0..pages {
                let page = self.referring_items(referrer, target, &node.item, after).await?;
                for (key, item) in page.items {
                    let child = Node::child(child, referrer, key, item);
                    let location = child.location();
                    if !referrer.cascade && location != node.location() {
                        return Ok(Some(referrer.entity.clone()));
                    }
                    if referrer.cascade && seen.insert(location) {
                        next.push(child);
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(None)
    }
}

impl Deletion<'_> {
    /// Marks everything to delete that can be referred to, level by level, and checks what refers to it.
    pub(super) async fn mark_all(&self) -> Result<MarkOutcome, Error> {
        let Some(item) = self.marked_item().await? else { return Ok(MarkOutcome::Unmarked) };
        let mut level = vec![Node::root(self.compiled, &self.key, item)];
        let mut seen: Seen = level.iter().map(Node::location).collect();
        while !level.is_empty() {
            self.wait_for_indexes(&level).await;
            let mut next = Vec::new();
            for node in &level {
                if let Some(by) = self.session.find_blocker(node, usize::MAX, &mut seen, &mut next).await? {
                    return Ok(MarkOutcome::Blocked(Some(by)));
                }
            }
            let mut marked = Vec::with_capacity(next.len());
            for node in next {
                match self.mark_or_assist(&node).await? {
                    Marked::Done => marked.push(node),
                    Marked::Gone => {}
                    Marked::ByOther(_) => return Ok(MarkOutcome::Blocked(None)),
                    Marked::Superseded => return Ok(MarkOutcome::Superseded),
                }
            }
            level = marked;
        }
        Ok(MarkOutcome::Clear)
    }

    /// Waits until the indexes of the store show everything that was written before the marks.
    async fn wait_for_indexes(&self, level: &[Node]) {
        let state = &self.session.state;
        let by_index = |node: &Node| state.referrers(&node.compiled).iter().any(|referrer| referrer.by_index);
        if !state.store.capabilities().consistent_indexes && level.iter().any(by_index) {
            tokio::time::sleep(state.settings.index_lag).await;
        }
    }

    /// Marks an item. If another deletion has marked it, that one is finished first, unless this one is itself being assisted:
    /// two deletions that assist each other might never end.
    async fn mark_or_assist(&self, node: &Node) -> Result<Marked, Error> {
        let Node { compiled, key, item, .. } = node;
        let mut found = Some(item.clone());
        for _ in 0..self.session.state.settings.attempts {
            match self.mark(node, found).await? {
                Marked::ByOther(token) if !self.assisting => {
                    Box::pin(self.session.resume(compiled, key.clone(), token, true)).await?;
                    found = self.session.state.store.get(&compiled.table, key).await?;
                }
                other => return Ok(other),
            }
        }
        self.mark(node, found).await
    }

    async fn mark(&self, node: &Node, mut found: Option<Item>) -> Result<Marked, Error> {
        let state = &self.session.state;
        let Node { compiled, key, refers, .. } = node;
        loop {
            let goes = |item: &Item| {
                !compiled.is_soft_deleted(item) && refers.as_ref().is_none_or(|refers| refers.is_satisfied_by(item))
            };
            let Some(item) = found.filter(goes) else { return Ok(Marked::Gone) };
            match mark_of(&item) {
                Some(token) if token == self.token => return Ok(Marked::Done),
                Some(token) => return Ok(Marked::ByOther(token)),
                None => {}
            }
            let unchanged = self.session.unchanged(compiled, key, &item, &compiled.sources);
            let unchanged = refers.iter().cloned().fold(unchanged, Condition::and);
            let mark = Write::update(&compiled.table, key.clone(), Update::new().set(DELETING, self.token.as_str()));
            let mut set = WriteSet::new().and(mark.when(unchanged));
            // The record is still in this phase: a mark after it would stay.
            if state.cross_partition() {
                let marking = Phase::Marking.condition();
                set = set.and(Write::condition_check(&self.compiled.table, record::key(&self.token), marking));
            }
            if self.session.commit_if(set).await? {
                return Ok(Marked::Done);
            }
            let record = DeletionRecord::get(state, self.compiled, &self.token).await?;
            if record.is_none_or(|record| record.phase != Phase::Marking) {
                return Ok(Marked::Superseded);
            }
            found = state.store.get(&compiled.table, key).await?;
        }
    }

    /// Removes all marks, the farthest first, and after that of the item the record.
    pub(super) async fn unmark_all(&self) -> Result<(), Error> {
        let unmark = |compiled: &CompiledEntity, key: &Key| {
            Write::update(&compiled.table, key.clone(), Update::new().remove(DELETING)).when(self.is_marked())
        };
        if let Some(item) = self.marked_item().await? {
            for (compiled, key) in self.marked_items(item).await?.iter().rev() {
                self.session.commit_if(unmark(compiled, key)).await?;
            }
            self.session.commit_if(unmark(self.compiled, &self.key)).await?;
        }
        self.session.commit_if(self.delete_record(Phase::Restoring)).await?;
        Ok(())
    }

    /// The items that this deletion has marked besides the item itself, the nearest first.
    async fn marked_items(&self, item: Item) -> Result<Vec<(Arc<CompiledEntity>, Key)>, Error> {
        let mut found: Vec<(Arc<CompiledEntity>, Key)> = Vec::new();
        let mut level = vec![Node::root(self.compiled, &self.key, item)];
        let mut seen: Seen = level.iter().map(Node::location).collect();
        while !level.is_empty() {
            let mut next: Vec<Node> = Vec::new();
            for node in &level {
                for referrer in self.session.state.referrers(&node.compiled).iter().filter(|referrer| referrer.cascade)
                {
                    let child = referrer.compiled(&self.session.state)?;
                    if !child.referenceable {
                        continue;
                    }
                    let mut after = None;
                    loop {
                        let page = self.session.referring_items(referrer, &node.compiled, &node.item, after).await?;
                        let ours = |(_, item): &(Key, Item)| mark_of(item).as_ref() == Some(&self.token);
                        let nodes = page.items.into_iter().filter(ours);
                        let nodes = nodes.map(|(key, item)| Node::child(child, referrer, key, item));
                        next.extend(nodes.filter(|node| seen.insert(node.location())));
                        after = page.next;
                        if after.is_none() {
                            break;
                        }
                    }
                }
            }
            found.extend(next.iter().map(|node| (Arc::clone(&node.compiled), node.key.clone())));
            level = next;
        }
        Ok(found)
    }
}
