//! Updates: changes to single attributes, evaluated the way DynamoDB does.

use std::fmt;

use crate::{Item, NotANumber, Number, Path, Step, Value};

/// Changes to an item, made together. What they read is the item as it was before.
///
/// ```
/// use nagaya_store::{Assign, Item, Update};
///
/// let item = Item::new().with("stock", 5);
/// let update = Update::new().set("stock", Assign::Minus("stock".into(), 2.into())).set("name", "tea");
/// let item = update.apply(&item)?;
/// assert_eq!(item, Item::new().with("stock", 3).with("name", "tea"));
/// # Ok::<(), nagaya_store::BadUpdate>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Update {
    changes: Vec<Change>,
}

/// One change of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets the value at a path. The map or list around it has to be there; an index beyond a list's end appends.
    Set(Path, Assign),
    /// Removes the value at a path, if it is there.
    Remove(Path),
    /// Adds to a number or to a set; starts from zero or from nothing.
    Add(Path, Value),
    /// Takes elements out of a set; one that is empty then is removed.
    Delete(Path, Value),
}

/// What a set gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assign {
    /// A value.
    Value(Value),
    /// The value at another path.
    Copy(Path),
    /// A number at a path, and so much more.
    Plus(Path, Number),
    /// A number at a path, and so much less.
    Minus(Path, Number),
    /// The value at a path, or this one where there is none.
    IfAbsent(Path, Value),
    /// The list at a path with these elements after its own.
    Append(Path, Vec<Value>),
}

impl<V: Into<Value>> From<V> for Assign {
    fn from(value: V) -> Self {
        Assign::Value(value.into())
    }
}

/// Why an update cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUpdate {
    /// The path of the change.
    pub path: Path,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for BadUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be updated: {}", self.path, self.reason)
    }
}

impl std::error::Error for BadUpdate {}

impl Update {
    /// An update that changes nothing.
    pub fn new() -> Self {
        Update::default()
    }

    /// Also sets a value.
    #[must_use]
    pub fn set(self, path: impl Into<Path>, assign: impl Into<Assign>) -> Self {
        self.then(Change::Set(path.into(), assign.into()))
    }

    /// Also removes a value.
    #[must_use]
    pub fn remove(self, path: impl Into<Path>) -> Self {
        self.then(Change::Remove(path.into()))
    }

    /// Also adds to a number or a set.
    #[must_use]
    pub fn add(self, path: impl Into<Path>, value: impl Into<Value>) -> Self {
        self.then(Change::Add(path.into(), value.into()))
    }

    /// Also takes elements out of a set.
    #[must_use]
    pub fn delete(self, path: impl Into<Path>, value: impl Into<Value>) -> Self {
        self.then(Change::Delete(path.into(), value.into()))
    }

    /// Also makes this change.
    #[must_use]
    pub fn then(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// The changes.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Whether it can be made on any item at all.
    pub(crate) fn check(&self) -> Result<(), BadUpdate> {
        for (at, change) in self.changes.iter().enumerate() {
            let earlier = || self.changes[..at].iter().map(Change::path);
            if earlier().any(|path| path.overlaps(change.path())) {
                return Err(change.bad("another change touches the same value"));
            }
            if earlier().any(|path| path.contradicts(change.path())) {
                return Err(change.bad("to another change, what is around it is a map and not a list, or the reverse"));
            }
            match change {
                Change::Add(_, value) if !value.is_set() && value.as_number().is_none() => {
                    return Err(change.bad("only numbers and sets can be added to"));
                }
                Change::Delete(_, value) if !value.is_set() => {
                    return Err(change.bad("elements can only be taken out of sets"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The item with all changes made, or why they cannot be. No two changes may touch the same value.
    pub fn apply(&self, item: &Item) -> Result<Item, BadUpdate> {
        self.check()?;
        let mut new = item.clone();
        // Elements are removed from the back, so that the places of the others stay what they were.
        let mut removals: Vec<&Change> = Vec::new();
        for change in &self.changes {
            match change {
                Change::Set(path, assign) => {
                    let value = assign.value(item).map_err(|reason| change.bad(reason))?;
                    put(&mut new, path, value).ok_or_else(|| change.bad("there is no map or list around it"))?;
                }
                Change::Remove(path) => {
                    around(item, path).ok_or_else(|| change.bad("there is no map or list around it"))?;
                    removals.push(change);
                }
                Change::Add(path, value) => {
                    let sum = add(item.at(path), value).map_err(|reason| change.bad(reason))?;
                    put(&mut new, path, sum).ok_or_else(|| change.bad("there is no map or list around it"))?;
                }
                Change::Delete(path, value) => {
                    around(item, path).ok_or_else(|| change.bad("there is no map or list around it"))?;
                    match delete(item.at(path), value).map_err(|reason| change.bad(reason))? {
                        Some(left) => {
                            put(&mut new, path, left);
                        }
                        None => removals.push(change),
                    }
                }
            }
        }
        removals.sort_by(|one, other| other.path().steps().cmp(one.path().steps()));
        for removal in removals {
            take(&mut new, removal.path());
        }
        Ok(new)
    }
}

impl Change {
    /// The path that it changes.
    pub fn path(&self) -> &Path {
        match self {
            Change::Set(path, _) | Change::Remove(path) | Change::Add(path, _) | Change::Delete(path, _) => path,
        }
    }

    fn bad(&self, reason: &'static str) -> BadUpdate {
        BadUpdate { path: self.path().clone(), reason }
    }
}

impl Assign {
    fn value(&self, item: &Item) -> Result<Value, &'static str> {
        let number = |path: &Path| match item.at(path) {
            Some(Value::Number(number)) => Ok(*number),
            Some(_) => Err("it is not a number"),
            None => Err("there is no number to start from"),
        };
        match self {
            Assign::Value(value) => Ok(value.clone()),
            Assign::Copy(path) => item.at(path).cloned().ok_or("there is nothing to copy"),
            Assign::Plus(path, by) => number(path)?.plus(by).map(Value::Number).map_err(overflow),
            Assign::Minus(path, by) => number(path)?.minus(by).map(Value::Number).map_err(overflow),
            Assign::IfAbsent(path, value) => Ok(item.at(path).unwrap_or(value).clone()),
            Assign::Append(path, values) => match item.at(path) {
                Some(Value::List(list)) => Ok(Value::List(list.iter().chain(values).cloned().collect())),
                Some(_) => Err("it is not a list"),
                None => Err("there is no list to append to"),
            },
        }
    }
}

fn overflow(error: NotANumber) -> &'static str {
    match error {
        NotANumber::OutOfRange => "the number is out of range",
        _ => "the number would have more than 38 digits",
    }
}

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

/// What is left of a set; `None` when nothing is.
fn delete(old: Option<&Value>, value: &Value) -> Result<Option<Value>, &'static str> {
    let left = match (old, value) {
        (None, Value::StringSet(_) | Value::NumberSet(_) | Value::BinarySet(_)) => return Ok(None),
        (Some(Value::StringSet(old)), Value::StringSet(gone)) => Value::StringSet(old - gone),
        (Some(Value::NumberSet(old)), Value::NumberSet(gone)) => Value::NumberSet(old - gone),
        (Some(Value::BinarySet(old)), Value::BinarySet(gone)) => Value::BinarySet(old - gone),
        (None, _) => return Err("elements can only be taken out of sets"),
        (Some(_), _) => return Err("it is of another kind than what is taken out"),
    };
    Ok((left.length() != Some(0)).then_some(left))
}

/// Something, if there is what the last step of a path could lead into.
fn around(item: &Item, path: &Path) -> Option<()> {
    let (last, way) = path.steps().split_last()?;
    if way.is_empty() {
        return Some(());
    }
    match (item.at_steps(way)?, last) {
        (Value::Map(_), Step::Attribute(_)) | (Value::List(_), Step::Index(_)) => Some(()),
        _ => None,
    }
}

/// The value that holds the last step of a path, and that step.
fn parent<'i, 'p>(item: &'i mut Item, path: &'p Path) -> Option<(Holder<'i>, &'p Step)> {
    let (last, way) = path.steps().split_last()?;
    let mut holder = Holder::Item(item);
    for step in way {
        let value = match (holder, step) {
            (Holder::Item(item), Step::Attribute(name)) => item.get_mut(name),
            (Holder::Value(Value::Map(values)), Step::Attribute(name)) => values.get_mut(name),
            (Holder::Value(Value::List(values)), Step::Index(at)) => values.get_mut(*at),
            _ => None,
        };
        holder = Holder::Value(value?);
    }
    Some((holder, last))
}

enum Holder<'i> {
    Item(&'i mut Item),
    Value(&'i mut Value),
}

fn put(item: &mut Item, path: &Path, value: Value) -> Option<()> {
    match parent(item, path)? {
        (Holder::Item(item), Step::Attribute(name)) => item.insert(name.as_str(), value),
        (Holder::Value(Value::Map(values)), Step::Attribute(name)) => {
            values.insert(name.clone(), value);
        }
        (Holder::Value(Value::List(values)), Step::Index(at)) => match values.get_mut(*at) {
            Some(old) => *old = value,
            None => values.push(value),
        },
        _ => return None,
    }
    Some(())
}

fn take(item: &mut Item, path: &Path) {
    match parent(item, path) {
        Some((Holder::Item(item), Step::Attribute(name))) => {
            item.remove(name);
        }
        Some((Holder::Value(Value::Map(values)), Step::Attribute(name))) => {
            values.remove(name);
        }
        Some((Holder::Value(Value::List(values)), Step::Index(at))) if *at < values.len() => {
            values.remove(*at);
        }
        _ => {}
    }
}
