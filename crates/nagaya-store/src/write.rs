//! Write sets: actions that all happen or none.

use crate::{Condition, Item, Key, Update};

/// Actions that happen together or not at all, at most one for each item.
///
/// ```
/// use nagaya_store::{Condition, Item, Key, Update, Write, WriteSet};
///
/// let set = WriteSet::new()
///     .and(Write::put("users", Item::new().with("PK", "TENANT#t1").with("SK", "USER#u1")).when(Condition::absent("PK")))
///     .and(Write::update("tenants", Key::new("TENANT#t1", "TENANT#t1"), Update::new().add("userCount", 1)));
/// assert_eq!(set.actions().len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteSet {
    actions: Vec<Write>,
}

/// One action of a write set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The table.
    pub table: String,
    /// What happens.
    pub action: Action,
    /// What has to hold for the item as it is before.
    pub condition: Option<Condition>,
}

/// What happens to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It becomes this one.
    Put {
        /// The item.
        item: Item,
    },
    /// It is changed; made, if it is not there.
    Update {
        /// Its key.
        key: Key,
        /// The changes.
        update: Update,
    },
    /// It goes.
    Delete {
        /// Its key.
        key: Key,
    },
    /// Nothing, but the condition has to hold.
    Check {
        /// Its key.
        key: Key,
    },
}

impl WriteSet {
    /// An empty write set.
    pub fn new() -> Self {
        WriteSet::default()
    }

    /// The write set with one action more.
    #[must_use]
    pub fn and(mut self, write: Write) -> Self {
        self.actions.push(write);
        self
    }

    /// The actions.
    pub fn actions(&self) -> &[Write] {
        &self.actions
    }

    /// The actions themselves.
    pub fn into_actions(self) -> Vec<Write> {
        self.actions
    }

    /// The bytes of the items that it puts.
    pub fn put_bytes(&self) -> usize {
        let size = |write: &Write| match &write.action {
            Action::Put { item } => item.size(),
            Action::Update { .. } | Action::Delete { .. } | Action::Check { .. } => 0,
        };
        self.actions.iter().map(size).sum()
    }
}

impl From<Write> for WriteSet {
    fn from(write: Write) -> Self {
        WriteSet { actions: vec![write] }
    }
}

impl FromIterator<Write> for WriteSet {
    fn from_iter<I: IntoIterator<Item = Write>>(writes: I) -> Self {
        WriteSet { actions: writes.into_iter().collect() }
    }
}

impl Write {
    /// An item becomes this one.
    pub fn put(table: impl Into<String>, item: Item) -> Self {
        Write { table: table.into(), action: Action::Put { item }, condition: None }
    }

    /// An item is changed; made, if it is not there.
    pub fn update(table: impl Into<String>, key: Key, update: Update) -> Self {
        Write { table: table.into(), action: Action::Update { key, update }, condition: None }
    }

    /// An item goes.
    pub fn delete(table: impl Into<String>, key: Key) -> Self {
        Write { table: table.into(), action: Action::Delete { key }, condition: None }
    }

    /// A condition has to hold for an item that is not written.
    pub fn check(table: impl Into<String>, key: Key, condition: Condition) -> Self {
        Write { table: table.into(), action: Action::Check { key }, condition: Some(condition) }
    }

    /// The action, only if this holds for the item as it is before.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }
}

/// What a write set gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The item as it is after a set of one put or update.
    pub item: Option<Item>,
}
