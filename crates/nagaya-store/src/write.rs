//! Write sets: conditional actions that all succeed or all fail.

use serde::{Deserialize, Serialize};

use crate::{Condition, Item, Key, Update};

/// Actions that all succeed or all fail, at most one per item.
///
/// ```
/// use nagaya_store::{Condition, Item, Key, Update, Write, WriteSet};
///
/// let set = WriteSet::new()
///     .and(Write::put("users", Item::new().with("PK", "TENANT#t1").with("SK", "USER#u1")).when(Condition::absent("PK")))
///     .and(Write::update("tenants", Key::new("TENANT#t1", "TENANT#t1"), Update::new().add("userCount", 1)));
/// assert_eq!(set.actions().len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSet {
    actions: Vec<Write>,
}

/// One action of a write set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The table.
    pub table: String,
    /// What to do.
    pub action: WriteAction,
    /// The condition on the item before the action.
    pub condition: Option<Condition>,
}

/// What to do with an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteAction {
    /// Creates or replaces the item.
    Put {
        /// The item.
        item: Item,
    },
    /// Changes the item, or creates it if it does not exist.
    Update {
        /// Its key.
        key: Key,
        /// The changes.
        update: Update,
    },
    /// Deletes the item.
    Delete {
        /// Its key.
        key: Key,
    },
    /// Only checks the condition.
    ConditionCheck {
        /// Its key.
        key: Key,
    },
}

impl WriteSet {
    /// An empty write set.
    pub fn new() -> Self {
        WriteSet::default()
    }

    /// Adds an action.
    #[must_use]
    pub fn and(mut self, write: Write) -> Self {
        self.actions.push(write);
        self
    }

    /// The actions.
    pub fn actions(&self) -> &[Write] {
        &self.actions
    }

    /// The actions, by value.
    pub fn into_actions(self) -> Vec<Write> {
        self.actions
    }

    /// The total size of the items that it puts.
    pub fn put_bytes(&self) -> usize {
        let size = |write: &Write| match &write.action {
            WriteAction::Put { item } => item.size(),
            WriteAction::Update { .. } | WriteAction::Delete { .. } | WriteAction::ConditionCheck { .. } => 0,
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
    /// Creates or replaces an item.
    pub fn put(table: impl Into<String>, item: Item) -> Self {
        Write { table: table.into(), action: WriteAction::Put { item }, condition: None }
    }

    /// Changes an item, or creates it if it does not exist.
    pub fn update(table: impl Into<String>, key: Key, update: Update) -> Self {
        Write { table: table.into(), action: WriteAction::Update { key, update }, condition: None }
    }

    /// Deletes an item.
    pub fn delete(table: impl Into<String>, key: Key) -> Self {
        Write { table: table.into(), action: WriteAction::Delete { key }, condition: None }
    }

    /// Checks a condition on an item without writing it.
    pub fn condition_check(table: impl Into<String>, key: Key, condition: Condition) -> Self {
        Write { table: table.into(), action: WriteAction::ConditionCheck { key }, condition: Some(condition) }
    }

    /// Performs the action only if this holds for the item before it.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }
}

/// The result of a write set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteOutcome {
    /// The item after the write, if the set is a single put or update.
    pub item: Option<Item>,
}
