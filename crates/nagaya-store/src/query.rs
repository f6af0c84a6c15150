//! Reading: queries within a partition, and scans for migration and backup.

use crate::{Condition, Item, Key, KeyValue};

/// A query on one partition of a table or of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The table.
    pub table: String,
    /// The index; `None`: the table itself.
    pub index: Option<String>,
    /// The partition.
    pub partition: KeyValue,
    /// What the sort key has to be.
    pub sort: Sort,
    /// Whether it runs from the end.
    pub descending: bool,
    /// What is returned of what is read.
    pub filter: Option<Condition>,
    /// How many items are read at most, before the filter; a page may have fewer.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub after: Option<Position>,
}

/// A condition on the sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort {
    /// None.
    Any,
    /// It is this.
    Equal(KeyValue),
    /// It begins so.
    BeginsWith(KeyValue),
    /// It is between these two, both included.
    Between(KeyValue, KeyValue),
    /// It comes before this.
    Less(KeyValue),
    /// It is this or comes before.
    LessOrEqual(KeyValue),
    /// It comes after this.
    Greater(KeyValue),
    /// It is this or comes after.
    GreaterOrEqual(KeyValue),
}

impl Sort {
    /// Whether a sort key fulfils it.
    pub fn holds(&self, key: &KeyValue) -> bool {
        match self {
            Sort::Any => true,
            Sort::Equal(value) => key == value,
            Sort::BeginsWith(start) => match (key, start) {
                (KeyValue::String(text), KeyValue::String(start)) => text.starts_with(start.as_str()),
                (KeyValue::Binary(bytes), KeyValue::Binary(start)) => bytes.starts_with(start),
                _ => false,
            },
            Sort::Between(least, most) => key >= least && key <= most,
            Sort::Less(value) => key < value,
            Sort::LessOrEqual(value) => key <= value,
            Sort::Greater(value) => key > value,
            Sort::GreaterOrEqual(value) => key >= value,
        }
    }
}

impl Query {
    /// All items of a partition of a table.
    pub fn table(table: impl Into<String>, partition: impl Into<KeyValue>) -> Self {
        Query {
            table: table.into(),
            index: None,
            partition: partition.into(),
            sort: Sort::Any,
            descending: false,
            filter: None,
            limit: None,
            after: None,
        }
    }

    /// All items of a partition of an index.
    pub fn index(table: impl Into<String>, index: impl Into<String>, partition: impl Into<KeyValue>) -> Self {
        Query { index: Some(index.into()), ..Query::table(table, partition) }
    }

    /// Only those with such a sort key.
    #[must_use]
    pub fn sort(mut self, sort: Sort) -> Self {
        self.sort = sort;
        self
    }

    /// From the end.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// Only those for which this holds; the others are read all the same.
    #[must_use]
    pub fn filter(mut self, filter: Condition) -> Self {
        self.filter = Some(filter);
        self
    }

    /// At most so many read.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// From where a page ended.
    #[must_use]
    pub fn after(mut self, position: Position) -> Self {
        self.after = Some(position);
        self
    }
}

/// Where a page ended: the keys of the last item read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Its key in the table.
    pub key: Key,
    /// Its key in the index, if an index was read.
    pub index_key: Option<Key>,
}

/// A page of items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The items, in order.
    pub items: Vec<Item>,
    /// Where to go on; `None`: that was all. A page may be empty and still go on.
    pub next: Option<Position>,
    /// How many items were read, before the filter.
    pub read: usize,
}

/// A pass over all items of a table, in no particular order. For migration and backup only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The table.
    pub table: String,
    /// Which part of how many: parts can be read side by side, and together are the whole.
    pub segment: (u32, u32),
    /// How many items are read at most.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub after: Option<Position>,
}

impl Scan {
    /// All items of a table.
    pub fn table(table: impl Into<String>) -> Self {
        Scan { table: table.into(), segment: (0, 1), limit: None, after: None }
    }
}
