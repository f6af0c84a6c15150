//! Updates: changes to single attributes, with the semantics of DynamoDB.

use serde::{Deserialize, Serialize};

use crate::{Item, Number, NumberError, Path, PathSegment, Value};

/// Changes to an item, applied together. Every change reads the item as it was before the update.
///
/// ```
/// use nagaya_store::{AssignedValue, Item, Update};
///
/// let item = Item::new().with("stock", 5);
/// let update = Update::new().set("stock", AssignedValue::Minus("stock".into(), 2.into())).set("name", "tea");
/// let item = update.apply(&item)?;
/// assert_eq!(item, Item::new().with("stock", 3).with("name", "tea"));
/// # Ok::<(), nagaya_store::InvalidUpdate>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    actions: Vec<UpdateAction>,
}

/// One change of an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateAction {
    /// Sets the value at a path. The map or list that contains it must exist; an index beyond the end of a list
    /// appends.
    Set(Path, AssignedValue),
    /// Removes the value at a path, if it exists.
    Remove(Path),
    /// Adds to a number or a set; an absent value counts as zero or as an empty set.
    Add(Path, Value),
    /// Removes elements from a set; a set that becomes empty is removed.
    Delete(Path, Value),
}

/// The new value of a [`UpdateAction::Set`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AssignedValue {
    /// This value.
    Value(Value),
    /// The value at another path.
    Copy(Path),
    /// The number at a path plus this number.
    Plus(Path, Number),
    /// The number at a path minus this number.
    Minus(Path, Number),
    /// The value at a path, or this value if there is none.
    IfAbsent(Path, Value),
    /// The list at a path with these elements appended.
    Append(Path, Vec<Value>),
}

impl<V: Into<Value>> From<V> for AssignedValue {
    fn from(value: V) -> Self {
        AssignedValue::Value(value.into())
    }
}

/// Why an update cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` cannot be updated: {reason}")]
pub struct InvalidUpdate {
    /// The path of the change.
    pub path: Path,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The reason when a path leads through a value that is absent, or neither a map nor a list.
const NO_CONTAINER: &str = "there is no map or list that could contain it";

impl Update {
    /// An update that changes nothing.
    pub fn new() -> Self {
        Update::default()
    }

    /// Adds a change that sets a value.
    #[must_use]
    pub fn set(self, path: impl Into<Path>, assign: impl Into<AssignedValue>) -> Self {
        self.with_action(UpdateAction::Set(path.into(), assign.into()))
    }

    /// Adds a change that removes a value.
    #[must_use]
    pub fn remove(self, path: impl Into<Path>) -> Self {
        self.with_action(UpdateAction::Remove(path.into()))
    }

    /// Adds a change that adds to a number or a set.
    #[must_use]
    pub fn add(self, path: impl Into<Path>, value: impl Into<Value>) -> Self {
        self.with_action(UpdateAction::Add(path.into(), value.into()))
    }

    /// Adds a change that removes elements from a set.
    #[must_use]
    pub fn delete(self, path: impl Into<Path>, value: impl Into<Value>) -> Self {
        self.with_action(UpdateAction::Delete(path.into(), value.into()))
    }

    /// Adds a change.
    #[must_use]
    pub fn with_action(mut self, change: UpdateAction) -> Self {
        self.actions.push(change);
        self
    }

    /// The changes.
    pub fn changes(&self) -> &[UpdateAction] {
        &self.actions
    }

    /// Checks that the update is valid for some item.
    pub(crate) fn check(&self) -> Result<(), InvalidUpdate> {
        for (at, change) in self.actions.iter().enumerate() {
            let earlier = || self.actions[..at].iter().map(UpdateAction::path);
            if earlier().any(|path| path.overlaps(change.path())) {
                return Err(change.bad("another change touches the same value"));
            }
            if earlier().any(|path| path.is_incompatible_with(change.path())) {
                return Err(change.bad("another change needs a list where this one needs a map, or the reverse"));
            }
            match change {
                UpdateAction::Add(_, value) if !value.is_set() && value.as_number().is_none() => {
                    return Err(change.bad("only numbers and sets can be added to"));
                }
                UpdateAction::Delete(_, value) if !value.is_set() => {
                    return Err(change.bad("elements can only be removed from sets"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The item with all changes applied. No two changes may touch the same value.
    pub fn apply(&self, item: &Item) -> Result<Item, InvalidUpdate> {
        self.check()?;
        let mut new = item.clone();
        let mut values: Vec<(&UpdateAction, Value)> = Vec::new();
        let mut removals: Vec<&UpdateAction> = Vec::new();
        for change in &self.actions {
            match change {
                UpdateAction::Set(path, assign) => {
                    require_container(item, path).map_err(|reason| change.bad(reason))?;
                    values.push((change, assign.value(item).map_err(|reason| change.bad(reason))?));
                }
                UpdateAction::Remove(path) => {
                    require_container(item, path).map_err(|reason| change.bad(reason))?;
                    removals.push(change);
                }
                UpdateAction::Add(path, value) => {
                    require_container(item, path).map_err(|reason| change.bad(reason))?;
                    values.push((change, add(item.value_at(path), value).map_err(|reason| change.bad(reason))?));
                }
                UpdateAction::Delete(path, value) => {
                    require_container(item, path).map_err(|reason| change.bad(reason))?;
                    match delete(item.value_at(path), value).map_err(|reason| change.bad(reason))? {
                        Some(left) => values.push((change, left)),
                        None => removals.push(change),
                    }
                }
            }
        }
        // Values that are appended to a list come in the order of their indexes.
        values.sort_by(|(one, _), (other, _)| one.path().segments().cmp(other.path().segments()));
        for (change, value) in values {
            set_at(&mut new, change.path(), value).ok_or_else(|| change.bad(NO_CONTAINER))?;
        }
        // List elements are removed from the back, so that the indexes of the others stay valid.
        removals.sort_by(|one, other| other.path().segments().cmp(one.path().segments()));
        for removal in removals {
            remove_at(&mut new, removal.path());
        }
        Ok(new)
    }
}

impl UpdateAction {
    /// The path that it changes.
    pub fn path(&self) -> &Path {
        match self {
            UpdateAction::Set(path, _)
            | UpdateAction::Remove(path)
            | UpdateAction::Add(path, _)
            | UpdateAction::Delete(path, _) => path,
        }
    }

    fn bad(&self, reason: &'static str) -> InvalidUpdate {
        InvalidUpdate { path: self.path().clone(), reason }
    }
}

impl AssignedValue {
    fn value(&self, item: &Item) -> Result<Value, &'static str> {
        let number = |path: &Path| match item.value_at(path) {
            Some(Value::Number(number)) => Ok(*number),
            Some(_) => Err("it is not a number"),
            None => Err("there is no number to start from"),
        };
        match self {
            AssignedValue::Value(value) => Ok(value.clone()),
            AssignedValue::Copy(path) => item.value_at(path).cloned().ok_or("there is nothing to copy"),
            AssignedValue::Plus(path, by) => number(path)?.plus(by).map(Value::Number).map_err(overflow),
            AssignedValue::Minus(path, by) => number(path)?.minus(by).map(Value::Number).map_err(overflow),
            AssignedValue::IfAbsent(path, value) => Ok(item.value_at(path).unwrap_or(value).clone()),
            AssignedValue::Append(path, values) => match item.value_at(path) {
                Some(Value::List(list)) => Ok(Value::List(list.iter().chain(values).cloned().collect())),
                Some(_) => Err("it is not a list"),
                None => Err("there is no list to append to"),
            },
        }
    }
}

fn overflow(error: NumberError) -> &'static str {
    match error {
        NumberError::OutOfRange => "the number is out of range",
        _ => "the number would have more than 38 digits",
    }
}

/// The result of adding to a number or a set.
fn add(old: Option<&Value>, value: &Value) -> Result<Value, &'static str> {
    match (old, value) {
        (None, Value::Number(_) | Value::StringSet(_) | Value::NumberSet(_) | Value::BinarySet(_)) => Ok(value.clone()),
        (Some(Value::Number(old)), Value::Number(by)) => old.plus(by).map(Value::Number).map_err(overflow),
        (Some(Value::StringSet(old)), Value::StringSet(more)) => Ok(Value::StringSet(old | more)),
        (Some(Value::NumberSet(old)), Value::NumberSet(more)) => Ok(Value::NumberSet(old | more)),
        (Some(Value::BinarySet(old)), Value::BinarySet(more)) => Ok(Value::BinarySet(old | more)),
        (None, _) => Err("only numbers and sets can be added to"),
        (Some(_), _) => Err("it is of another kind than what is added"),
    }
}

/// The rest of a set; `None` if it is empty.
fn delete(old: Option<&Value>, value: &Value) -> Result<Option<Value>, &'static str> {
    let left = match (old, value) {
        (None, Value::StringSet(_) | Value::NumberSet(_) | Value::BinarySet(_)) => return Ok(None),
        (Some(Value::StringSet(old)), Value::StringSet(gone)) => Value::StringSet(old - gone),
        (Some(Value::NumberSet(old)), Value::NumberSet(gone)) => Value::NumberSet(old - gone),
        (Some(Value::BinarySet(old)), Value::BinarySet(gone)) => Value::BinarySet(old - gone),
        (None, _) => return Err("elements can only be removed from sets"),
        (Some(_), _) => return Err("it is of another kind than what is removed"),
    };
    Ok((left.length() != Some(0)).then_some(left))
}

/// Fails unless the item, map or list that the last segment of a path refers to exists.
fn require_container(item: &Item, path: &Path) -> Result<(), &'static str> {
    let Some((last, parents)) = path.segments().split_last() else { return Err(NO_CONTAINER) };
    match (item.value_at_segments(parents), last) {
        _ if parents.is_empty() => Ok(()),
        (Some(Value::Map(_)), PathSegment::Attribute(_)) | (Some(Value::List(_)), PathSegment::Index(_)) => Ok(()),
        _ => Err(NO_CONTAINER),
    }
}

/// The item, map or list that the last segment of a path refers to, and that segment.
fn container<'i, 'p>(item: &'i mut Item, path: &'p Path) -> Option<(Container<'i>, &'p PathSegment)> {
    let (last, parents) = path.segments().split_last()?;
    let mut container = Container::Item(item);
    for step in parents {
        let value = match (container, step) {
            (Container::Item(item), PathSegment::Attribute(name)) => item.get_mut(name),
            (Container::Value(Value::Map(values)), PathSegment::Attribute(name)) => values.get_mut(name),
            (Container::Value(Value::List(values)), PathSegment::Index(at)) => values.get_mut(*at),
            _ => None,
        };
        container = Container::Value(value?);
    }
    Some((container, last))
}

enum Container<'i> {
    Item(&'i mut Item),
    Value(&'i mut Value),
}

fn set_at(item: &mut Item, path: &Path, value: Value) -> Option<()> {
    match container(item, path)? {
        (Container::Item(item), PathSegment::Attribute(name)) => item.insert(name.as_str(), value),
        (Container::Value(Value::Map(values)), PathSegment::Attribute(name)) => {
            values.insert(name.clone(), value);
        }
        (Container::Value(Value::List(values)), PathSegment::Index(at)) => match values.get_mut(*at) {
            Some(old) => *old = value,
            None => values.push(value),
        },
        _ => return None,
    }
    Some(())
}

fn remove_at(item: &mut Item, path: &Path) {
    match container(item, path) {
        Some((Container::Item(item), PathSegment::Attribute(name))) => {
            item.remove(name);
        }
        Some((Container::Value(Value::Map(values)), PathSegment::Attribute(name))) => {
            values.remove(name);
        }
        Some((Container::Value(Value::List(values)), PathSegment::Index(at))) if *at < values.len() => {
            values.remove(*at);
        }
        _ => {}
    }
}
