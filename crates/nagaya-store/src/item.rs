//! Items and paths into them.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::Value;

/// An item: attributes by name.
///
/// ```
/// use nagaya_store::{Item, Path};
///
/// let item = Item::new().with("PK", "TENANT#t1").with("SK", "USER#u1").with("age", 7);
/// assert_eq!(item.get("SK").and_then(|value| value.as_str()), Some("USER#u1"));
/// assert_eq!(item.value_at(&Path::attribute("name")), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item(Attributes);

/// Sorted by name. Items have few attributes and are read far more often than changed. [`SmolStr`] stores short names
/// without an allocation.
type Attributes = Vec<(SmolStr, Value)>;

impl Item {
    /// An item without attributes.
    pub fn new() -> Self {
        Item::default()
    }

    /// Adds an attribute.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.insert(name, value);
        self
    }

    /// The index of an attribute, or where it would be inserted.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(name))
    }

    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.position(name).ok().map(|at| &mut self.0[at].1)
    }

    /// Sets an attribute.
    pub fn insert(&mut self, name: impl AsRef<str>, value: impl Into<Value>) {
        let name = name.as_ref();
        match self.position(name) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (name.into(), value.into())),
        }
    }

    /// Removes an attribute.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.position(name).ok().map(|at| self.0.remove(at).1)
    }

    /// The value at a path.
    pub fn value_at(&self, path: &Path) -> Option<&Value> {
        self.value_at_segments(&path.0)
    }

    pub(crate) fn value_at_segments(&self, steps: &[PathSegment]) -> Option<&Value> {
        let (first, rest) = steps.split_first()?;
        let PathSegment::Attribute(name) = first else { return None };
        rest.iter().try_fold(self.get(name)?, |value, step| match (step, value) {
            (PathSegment::Attribute(name), Value::Map(values)) => values.get(name),
            (PathSegment::Index(at), Value::List(values)) => values.get(*at),
            _ => None,
        })
    }

    /// The attributes, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The names of the attributes, in order.
    pub fn names(&self) -> impl Iterator<Item = &SmolStr> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Its size in bytes as DynamoDB counts it: names and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.size()).sum()
    }
}

impl<N: Into<SmolStr>> FromIterator<(N, Value)> for Item {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(attributes: I) -> Self {
        let mut attributes: Attributes = attributes.into_iter().map(|(name, value)| (name.into(), value)).collect();
        if attributes.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Item(attributes);
        }
        attributes.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Of two attributes with one name the later one wins, as with `insert`.
        let mut item = Item::new();
        for (name, value) in attributes {
            match item.0.last_mut() {
                Some((last, old)) if *last == name => *old = value,
                _ => item.0.push((name, value)),
            }
        }
        item
    }
}

impl IntoIterator for Item {
    type Item = (String, Value);
    type IntoIter = std::iter::Map<std::vec::IntoIter<(SmolStr, Value)>, fn((SmolStr, Value)) -> (String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(name, value)| (name.into(), value))
    }
}

/// One segment of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathSegment {
    /// An attribute, or an entry of a map.
    Attribute(String),
    /// An element of a list.
    Index(usize),
}

/// The path of a value: an attribute, then entries of maps and elements of lists.
///
/// Names are used literally, dots and brackets included, so a name from outside cannot change where the path leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Path(Vec<PathSegment>);

impl Path {
    /// A top-level attribute.
    pub fn attribute(name: impl Into<String>) -> Self {
        Path(vec![PathSegment::Attribute(name.into())])
    }

    /// The entry of the map at this path.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.0.push(PathSegment::Attribute(name.into()));
        self
    }

    /// The element of the list at this path.
    #[must_use]
    pub fn index(mut self, at: usize) -> Self {
        self.0.push(PathSegment::Index(at));
        self
    }

    /// Its segments.
    pub fn segments(&self) -> &[PathSegment] {
        &self.0
    }

    /// The top-level attribute at which it starts.
    pub fn root(&self) -> &str {
        match self.0.first() {
            Some(PathSegment::Attribute(name)) => name,
            _ => "",
        }
    }

    /// Whether one path is a prefix of the other, or both are equal.
    pub fn overlaps(&self, other: &Path) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine == theirs)
    }

    /// Whether no item can have both paths: where they diverge, one expects a map and the other a list.
    pub(crate) fn is_incompatible_with(&self, other: &Path) -> bool {
        let diverging = self.0.iter().zip(&other.0).find(|(mine, theirs)| mine != theirs);
        matches!(
            diverging,
            Some(
                (PathSegment::Attribute(_), PathSegment::Index(_)) | (PathSegment::Index(_), PathSegment::Attribute(_))
            )
        )
    }
}

impl From<&str> for Path {
    fn from(name: &str) -> Self {
        Path::attribute(name)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathSegment::Attribute(name) if at == 0 => f.write_str(name)?,
                PathSegment::Attribute(name) => write!(f, ".{name}")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
