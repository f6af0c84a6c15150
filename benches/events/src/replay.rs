//! The write sets of commands for the bare engine: those of the events layer for one todo, with other ids.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use anyhow::Context as _;
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{
    AssignedValue, Condition, Item, Key, KeyValue, TableSpec, Update, UpdateAction, Value, Write, WriteAction, WriteSet,
};
use nagaya_testing::{Call, InstrumentedStore};
use nagaya_todo::Todo;
use serde::{Deserialize, Serialize};

use crate::todo_app::{TodoApp, change, create, family, id, ulid};

/// The write sets of the first and of the second command of a todo.
pub(crate) struct Templates {
    pub(crate) tables: Vec<TableSpec>,
    pub(crate) sizes: Sizes,
    first: WriteSet,
    second: WriteSet,
    /// The texts that differ between todos: position, length, and index in [`Own`].
    places: HashMap<String, (usize, usize, usize)>,
}

/// The values that differ between todos: its id, its family, its two events and the two requests that caused them.
type Own = [String; 6];

/// The size of the write sets.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sizes {
    /// Actions in the set of a first and of a second event.
    pub(crate) actions: [usize; 2],
    /// Bytes of the items in them.
    pub(crate) bytes: [usize; 2],
}

impl Templates {
    /// Records the write sets of two commands.
    pub(crate) async fn make() -> anyhow::Result<Self> {
        const NUMBER: u64 = 0;
        let store = InstrumentedStore::new(Arc::new(EmbeddedStore::in_memory(Options::default())?));
        let app = TodoApp::open_on(store.clone()).await?;
        let events = app.events::<Todo>()?;
        let one = app.execute(&events, NUMBER, &create(NUMBER)).await?;
        let other = app.execute(&events, NUMBER, &change(NUMBER)).await?;
        let tables = |call| if let Call::Ensure(tables) = call { tables } else { Vec::new() };
        let tables = store.take(|call| matches!(call, Call::Ensure(_))).into_iter().flat_map(tables).collect();
        let set = |call| if let Call::Write(set) = call { Some(set) } else { None };
        let mut sets: Vec<WriteSet> = store.take(Call::is_write).into_iter().filter_map(set).collect();
        anyhow::ensure!(sets.len() == 2, "two commands are {} write sets", sets.len());
        let (second, first) = sets.pop().zip(sets.pop()).context("two commands write twice")?;
        let request = |event: &nagaya_events::RecordedEvent| event.metadata_text("correlationId").map(str::to_owned);
        let requests = request(&one).zip(request(&other)).context("an event has no request")?;
        let own: Own = [id(NUMBER), family(NUMBER), one.id, other.id, requests.0, requests.1];
        let places = RefCell::new(HashMap::new());
        let look = Swap(|text: &str| {
            let mut found = own.iter().zip(0..).filter_map(|(old, which)| Some((text.find(old)?, old.len(), which)));
            places.borrow_mut().extend(found.next().map(|found| (text.to_owned(), found)));
            None
        });
        first.actions().iter().chain(second.actions()).for_each(|write| drop(look.write(write)));
        let places = places.into_inner();
        let sizes = Sizes {
            actions: [&first, &second].map(|set| set.actions().len()),
            bytes: [&first, &second].map(WriteSet::put_bytes),
        };
        Ok(Templates { tables, sizes, first, second, places })
    }

    /// The write set of the first event of a todo.
    pub(crate) fn first(&self, number: u64) -> WriteSet {
        self.made(&self.first, number)
    }

    /// The write set of its second event.
    pub(crate) fn second(&self, number: u64) -> WriteSet {
        self.made(&self.second, number)
    }

    fn made(&self, template: &WriteSet, number: u64) -> WriteSet {
        // Ids increase in time, as in production.
        let event = |which: u64| ulid(1_770_000_000_000 + which * 1_000_000_000 + number / 16, 4 * number + which);
        let own: Own = [id(number), family(number), event(0), event(1), event(2), event(3)];
        let swap = Swap(|text: &str| {
            let (at, length, which) = *self.places.get(text)?;
            Some([&text[..at], &own[which], &text[at + length..]].concat())
        });
        template.actions().iter().map(|write| swap.write(write)).collect()
    }
}

/// Replaces texts; `None`: unchanged.
struct Swap<F>(F);

impl<F: Fn(&str) -> Option<String>> Swap<F> {
    fn write(&self, write: &Write) -> Write {
        let Write { table, action, condition } = write;
        let action = match action {
            WriteAction::Put { item } => WriteAction::Put { item: self.item(item) },
            WriteAction::Update { key, update } => {
                WriteAction::Update { key: self.key(key), update: self.update(update) }
            }
            WriteAction::Delete { key } => WriteAction::Delete { key: self.key(key) },
            WriteAction::ConditionCheck { key } => WriteAction::ConditionCheck { key: self.key(key) },
        };
        Write { table: table.clone(), action, condition: condition.as_ref().map(|each| self.condition(each)) }
    }

    fn item(&self, item: &Item) -> Item {
        item.iter().map(|(name, value)| (name, self.value(value))).collect()
    }

    fn key(&self, key: &Key) -> Key {
        let part = |part: &KeyValue| match part {
            KeyValue::String(text) => KeyValue::from((self.0)(text).unwrap_or_else(|| text.to_string())),
            other => other.clone(),
        };
        Key { partition: part(&key.partition), sort: part(&key.sort) }
    }

    fn update(&self, update: &Update) -> Update {
        update.changes().iter().fold(Update::new(), |made, change| {
            made.with_action(match change {
                UpdateAction::Set(path, AssignedValue::Value(value)) => {
                    UpdateAction::Set(path.clone(), AssignedValue::Value(self.value(value)))
                }
                other => other.clone(),
            })
        })
    }

    fn condition(&self, condition: &Condition) -> Condition {
        match condition {
            Condition::Compare(operand, comparison, value) => {
                Condition::Compare(operand.clone(), *comparison, self.value(value))
            }
            Condition::And(all) => Condition::And(all.iter().map(|each| self.condition(each)).collect()),
            Condition::Or(any) => Condition::Or(any.iter().map(|each| self.condition(each)).collect()),
            Condition::Not(inner) => Condition::Not(Box::new(self.condition(inner))),
            other => other.clone(),
        }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => (self.0)(text).map_or_else(|| value.clone(), Value::from),
            Value::Map(values) => {
                Value::Map(values.iter().map(|(name, value)| (name.clone(), self.value(value))).collect())
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nagaya_store::Store as _;

    use super::*;

    /// The bare engine gets the write sets of the events layer for the same todo.
    #[tokio::test(flavor = "current_thread")]
    async fn sets_have_the_size_of_what_the_layer_writes_and_their_conditions_hold() -> anyhow::Result<()> {
        let templates = Templates::make().await?;
        let store = EmbeddedStore::in_memory(Options::default())?;
        store.ensure_tables(&templates.tables).await?;
        for number in 1..100 {
            for (set, template) in
                [(templates.first(number), &templates.first), (templates.second(number), &templates.second)]
            {
                assert_eq!(set.put_bytes(), template.put_bytes());
                assert_ne!(&set, template);
                store.write(set).await?;
            }
            let error = store.write(templates.first(number)).await.expect_err("it is there already");
            assert!(error.failed_conditions().is_some(), "{error}");
        }
        Ok(())
    }
}
