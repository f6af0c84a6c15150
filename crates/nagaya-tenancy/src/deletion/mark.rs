//! Marking everything that goes and can be referred to, and taking the marks back.

use std::{collections::HashSet, sync::Arc};

use nagaya_store::{Condition, Item, Key, Update, Write, WriteSet};

use super::{
    Deletion, Hindrance, mark_of,
    pending::{self, Phase},
};
use crate::{
    Error,
    blueprint::{Blueprint, DELETING},
    referers::Referer,
    room::Room,
};

/// What was found by looking at everything that goes.
pub(super) enum Looked {
    /// The item itself has no mark: there is nothing to do.
    Unmarked,
    /// Nothing forbids the deletion, and nothing new can.
    Free,
    /// Something does.
    Hindered(Hindrance),
    /// Somebody else has noted what comes next.
    Outrun,
}

/// An item that goes and can be referred to.
struct Node {
    blueprint: Arc<Blueprint>,
    key: Key,
    item: Item,
    /// It still refers to what takes it along.
    refers: Option<Condition>,
}

/// Items that a look before anything is marked comes across, by and large.
const SHORT_LOOK: usize = 200;

/// The items that were come across, by table and key.
type Seen = HashSet<(String, Key)>;

impl Node {
    fn root(blueprint: &Arc<Blueprint>, key: &Key, item: Item) -> Self {
        Node { blueprint: Arc::clone(blueprint), key: key.clone(), item, refers: None }
    }

    fn child(blueprint: &Arc<Blueprint>, referer: &Referer, key: Key, item: Item) -> Self {
        let refers = referer.still_refers(&item);
        Node { blueprint: Arc::clone(blueprint), key, item, refers }
    }

    fn place(&self) -> (String, Key) {
        (self.blueprint.table.clone(), self.key.clone())
    }
}

/// What has come of marking one item.
enum Marked {
    Done,
    Gone,
    By(String),
    Outrun,
}

impl Room {
    /// The entity of an item that forbids a deletion, as far as a short look can say before anything is marked. While others
    /// go on making what refers to it, a long look might never end.
    pub(super) async fn forbidden(&self, blueprint: &Arc<Blueprint>, item: &Item) -> Result<Option<String>, Error> {
        let Some(key) = blueprint.stored_key(item) else { return Ok(None) };
        let mut level = vec![Node::root(blueprint, &key, item.clone())];
        let mut seen: Seen = level.iter().map(Node::place).collect();
        while !level.is_empty() && seen.len() <= SHORT_LOOK {
            let mut next = Vec::new();
            for node in &level {
                if let Some(by) = self.look(node, 1, &mut seen, &mut next).await? {
                    return Ok(Some(by));
                }
            }
            level = next;
        }
        Ok(None)
    }

    /// Looks at what refers to an item: the entity of one that forbids its deletion, or else what goes with it and can be
    /// referred to itself. At most so many pages of each kind are looked at.
    async fn look(
        &self,
        node: &Node,
        pages: usize,
        seen: &mut Seen,
        next: &mut Vec<Node>,
    ) -> Result<Option<String>, Error> {
        let target = &node.blueprint;
        for referer in self.house.referers(target) {
            let child = referer.blueprint(&self.house)?;
            if referer.cascade && !child.referred {
                continue;
            }
            let mut after = None;
            for _ in 0..pages {
                let page = self.children(referer, target, &node.item, after).await?;
                for (key, item) in page.items {
                    let child = Node::child(child, referer, key, item);
                    let place = child.place();
                    if !referer.cascade && place != node.place() {
                        return Ok(Some(referer.entity.clone()));
                    }
                    if referer.cascade && seen.insert(place) {
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
    /// Marks everything that goes and can be referred to, level by level, and looks at what refers to it.
    pub(super) async fn mark_all(&self) -> Result<Looked, Error> {
        let Some(item) = self.marked().await? else { return Ok(Looked::Unmarked) };
        let mut level = vec![Node::root(self.blueprint, &self.key, item)];
        let mut seen: Seen = level.iter().map(Node::place).collect();
        while !level.is_empty() {
            self.settle(&level).await;
            let mut next = Vec::new();
            for node in &level {
                if let Some(by) = self.room.look(node, usize::MAX, &mut seen, &mut next).await? {
                    return Ok(Looked::Hindered(Hindrance::Referred(by)));
                }
            }
            let mut marked = Vec::with_capacity(next.len());
            for node in next {
                match self.mark_or_help(&node).await? {
                    Marked::Done => marked.push(node),
                    Marked::Gone => {}
                    Marked::By(token) => {
                        return Ok(Looked::Hindered(Hindrance::Marked { entity: node.blueprint, token }));
                    }
                    Marked::Outrun => return Ok(Looked::Outrun),
                }
            }
            level = marked;
        }
        Ok(Looked::Free)
    }

    /// Waits until the indexes of the store show everything that was written before the marks.
    async fn settle(&self, level: &[Node]) {
        let house = &self.room.house;
        let by_index = |node: &Node| house.referers(&node.blueprint).iter().any(|referer| referer.by_index);
        if !house.store.capabilities().consistent_indexes && level.iter().any(by_index) {
            tokio::time::sleep(house.settings.index_lag).await;
        }
    }

    /// Marks an item. If another deletion was faster, that one is finished first, but for one that is itself in the way of
    /// another: of two that wait for each other both could wait for ever.
    async fn mark_or_help(&self, node: &Node) -> Result<Marked, Error> {
        let Node { blueprint, key, item, .. } = node;
        let mut found = Some(item.clone());
        for _ in 0..self.room.house.settings.attempts {
            match self.mark(node, found).await? {
                Marked::By(token) if !self.helping => {
                    Box::pin(self.room.resume(blueprint, key.clone(), token, true)).await?;
                    found = self.room.house.store.get(&blueprint.table, key).await?;
                }
                other => return Ok(other),
            }
        }
        self.mark(node, found).await
    }

    async fn mark(&self, node: &Node, mut found: Option<Item>) -> Result<Marked, Error> {
        let house = &self.room.house;
        let Node { blueprint, key, refers, .. } = node;
        loop {
            let goes = |item: &Item| {
                !blueprint.is_soft_deleted(item) && refers.as_ref().is_none_or(|refers| refers.holds(item))
            };
            let Some(item) = found.filter(goes) else { return Ok(Marked::Gone) };
            match mark_of(&item) {
                Some(token) if token == self.token => return Ok(Marked::Done),
                Some(token) => return Ok(Marked::By(token)),
                None => {}
            }
            let unchanged = self.room.unchanged(blueprint, key, &item, &blueprint.sources);
            let unchanged = refers.iter().cloned().fold(unchanged, Condition::and);
            let mark = Write::update(&blueprint.table, key.clone(), Update::new().set(DELETING, self.token.as_str()));
            let mut set = WriteSet::new().and(mark.when(unchanged));
            // Nobody has noted the next step: marks that come after that would stay.
            if house.store.capabilities().cross_partition {
                let noted = Phase::Marking.is_noted();
                set = set.and(Write::check(&self.blueprint.table, pending::key(&self.token), noted));
            }
            if self.room.all(set).await? {
                return Ok(Marked::Done);
            }
            let note = pending::Pending::get(house, self.blueprint, &self.token).await?;
            if note.is_none_or(|note| note.phase != Phase::Marking) {
                return Ok(Marked::Outrun);
            }
            found = house.store.get(&blueprint.table, key).await?;
        }
    }

    /// Takes all marks back, the farthest first, and at last that of the item together with the note.
    pub(super) async fn take_back(&self) -> Result<(), Error> {
        let unmark = |blueprint: &Blueprint, key: &Key| {
            Write::update(&blueprint.table, key.clone(), Update::new().remove(DELETING)).when(self.is_marked())
        };
        let forget = Write::delete(&self.blueprint.table, pending::key(&self.token)).when(Phase::Returning.is_noted());
        if let Some(item) = self.marked().await? {
            for (blueprint, key) in self.marks(item).await?.iter().rev() {
                self.room.all(unmark(blueprint, key).into()).await?;
            }
            let last = unmark(self.blueprint, &self.key);
            if self.room.house.store.capabilities().cross_partition {
                self.room.all(WriteSet::new().and(last).and(forget)).await?;
                return Ok(());
            }
            self.room.all(last.into()).await?;
        }
        self.room.all(forget.into()).await?;
        Ok(())
    }

    /// What this deletion has marked besides the item itself, the nearest first.
    async fn marks(&self, item: Item) -> Result<Vec<(Arc<Blueprint>, Key)>, Error> {
        let mut found: Vec<(Arc<Blueprint>, Key)> = Vec::new();
        let mut level = vec![Node::root(self.blueprint, &self.key, item)];
        let mut seen: Seen = level.iter().map(Node::place).collect();
        while !level.is_empty() {
            let mut next: Vec<Node> = Vec::new();
            for node in &level {
                for referer in self.room.house.referers(&node.blueprint).iter().filter(|referer| referer.cascade) {
                    let child = referer.blueprint(&self.room.house)?;
                    if !child.referred {
                        continue;
                    }
                    let mut after = None;
                    loop {
                        let page = self.room.children(referer, &node.blueprint, &node.item, after).await?;
                        let ours = |(_, item): &(Key, Item)| mark_of(item).as_ref() == Some(&self.token);
                        let nodes = page.items.into_iter().filter(ours);
                        let nodes = nodes.map(|(key, item)| Node::child(child, referer, key, item));
                        next.extend(nodes.filter(|node| seen.insert(node.place())));
                        after = page.next;
                        if after.is_none() {
                            break;
                        }
                    }
                }
            }
            found.extend(next.iter().map(|node| (Arc::clone(&node.blueprint), node.key.clone())));
            level = next;
        }
        Ok(found)
    }
}
