//! Queries within a partition, and scans for migration and backup.

use serde::{Deserialize, Serialize};

use crate::{Condition, Item, Key, KeyValue};

/// A query on one partition of a table or of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The table.
    pub table: String,
    /// The index; `None` for the table itself.
    pub index: Option<String>,
    /// The partition key.
    pub partition: KeyValue,
    /// The condition on the sort key.
    pub sort: SortCondition,
    /// Whether it reads in descending order.
    pub descending: bool,
    /// Which of the items read are returned.
    pub filter: Option<Condition>,
    /// The maximum number of items read, before the filter; a page may have fewer.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub after: Option<PagePosition>,
}

/// A condition on the sort key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SortCondition {
    /// Any sort key.
    Any,
    /// Equal to this.
    Equal(KeyValue),
    /// Starts with this.
    BeginsWith(KeyValue),
    /// Between these two, both included.
    Between(KeyValue, KeyValue),
    /// Less than this.
    Less(KeyValue),
    /// Less than or equal to this.
    LessOrEqual(KeyValue),
    /// Greater than this.
    Greater(KeyValue),
    /// Greater than or equal to this.
    GreaterOrEqual(KeyValue),
}

impl SortCondition {
    /// Whether it holds for a sort key.
    pub fn is_satisfied_by(&self, key: &KeyValue) -> bool {
        match self {
            SortCondition::Any => true,
            SortCondition::Equal(value) => key == value,
            SortCondition::BeginsWith(start) => match (key, start) {
                (KeyValue::String(text), KeyValue::String(start)) => text.starts_with(start.as_str()),
                (KeyValue::Binary(bytes), KeyValue::Binary(start)) => bytes.starts_with(start),
                _ => false,
            },
            SortCondition::Between(least, most) => key >= least && key <= most,
            SortCondition::Less(value) => key < value,
            SortCondition::LessOrEqual(value) => key <= value,
            SortCondition::Greater(value) => key > value,
            SortCondition::GreaterOrEqual(value) => key >= value,
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
            sort: SortCondition::Any,
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

    /// Restricts the sort key.
    #[must_use]
    pub fn sort(mut self, sort: SortCondition) -> Self {
        self.sort = sort;
        self
    }

    /// Reads in descending order.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// Returns only the items for which this holds; the others are still read and count.
    #[must_use]
    pub fn filter(mut self, filter: Condition) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Limits the number of items read.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Continues after the end of a page.
    #[must_use]
    pub fn after(mut self, position: PagePosition) -> Self {
        self.after = Some(position);
        self
    }
}

/// Where a page ended: the keys of the last item read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagePosition {
    /// Its key in the table.
    pub key: Key,
    /// Its key in the index, if an index was read.
    pub index_key: Option<Key>,
}

/// A page of items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The items, in order.
    pub items: Vec<Item>,
    /// Where the next page starts; `None` after the last page. A page may be empty and still have a next one.
    pub next: Option<PagePosition>,
    /// How many items were read, before the filter.
    pub scanned_count: usize,
}

/// Reads all items of a table, in no particular order. For migration and backup only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The table.
    pub table: String,
    /// The segment and the number of segments. Segments can be read in parallel; together they are the whole table.
    pub segment: (u32, u32),
    /// The maximum number of items read.
    pub limit: Option<usize>,
    /// Where the page before ended.
    pub after: Option<PagePosition>,
}

impl Scan {
    /// A scan of a whole table.
    pub fn table(table: impl Into<String>) -> Self {
        Scan { table: table.into(), segment: (0, 1), limit: None, after: None }
    }
}
