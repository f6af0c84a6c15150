//! What a list asks for, and the page that it gets.

use crate::Record;

/// A query by an access pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub(super) access: String,
    pub(super) parameters: Vec<(String, String)>,
    pub(super) limit: Option<usize>,
    pub(super) descending: Option<bool>,
    pub(super) cursor: Option<String>,
    pub(super) after: Option<Vec<String>>,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The cursor of the next page; `None`: this is the last one.
    pub next: Option<String>,
    /// The number of items, for access patterns that count.
    pub count: Option<u64>,
}

impl List {
    /// A list by an access pattern of the design.
    pub fn by(access: impl Into<String>) -> Self {
        List { access: access.into(), parameters: Vec::new(), limit: None, descending: None, cursor: None, after: None }
    }

    /// Sets a parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Sets the largest number of records; otherwise it is the access pattern's page size.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the order; otherwise it is the access pattern's.
    #[must_use]
    pub fn descending(mut self, descending: bool) -> Self {
        self.descending = Some(descending);
        self
    }

    /// Continues where a page ended.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Starts after the place of the item with this id, whether there is such an item or not. The access pattern has to read the
    /// table itself, and the id has to be one that it could list.
    #[must_use]
    pub fn after(mut self, id: Vec<String>) -> Self {
        self.after = Some(id);
        self
    }

    /// The access pattern.
    pub fn access(&self) -> &str {
        &self.access
    }

    /// All of it as the query parameters of a request: those of the access pattern, `limit`, `order`, `cursor`.
    pub fn to_parameters(&self) -> Vec<(String, String)> {
        let order = |descending: bool| if descending { "desc" } else { "asc" }.to_owned();
        let own = [
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("order", self.descending.map(order)),
            ("cursor", self.cursor.clone()),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.parameters.iter().cloned().chain(own).collect()
    }
}
