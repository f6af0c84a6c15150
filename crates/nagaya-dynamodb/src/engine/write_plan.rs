//! The requests for an action of the port, where DynamoDB's rules differ from the port's.
//!
//! An expired item that is not deleted yet is absent in the port, but exists for DynamoDB. An update that only removes
//! attributes creates an absent item in the port, but does nothing in DynamoDB. Such cases are rare. So the first request is
//! the action itself, with a further condition that excludes them. If the condition fails, the response contains the
//! stored item, which shows the case. Then a second request does what the action means in that case, on the condition that
//! the item is unchanged.

use std::sync::Arc;

use nagaya_store::{
    AssignedValue, ComparisonOp, Condition, Error, Item, Key, Operand, Path, PathSegment, Update, UpdateAction, Value,
    Write, WriteAction, limits,
};

use super::table_cache::Table;

/// A validated action of a write set.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    pub(crate) table: Arc<Table>,
    pub(crate) key: Key,
    pub(crate) write: Write,
}

/// A request for an action.
#[derive(Debug, Clone)]
pub(crate) struct ItemRequest {
    pub(crate) action: WriteAction,
    pub(crate) condition: Option<Condition>,
}

/// What follows from a failed condition.
#[derive(Debug)]
pub(crate) enum FailureMeaning {
    /// The action's own condition failed on this item.
    ConditionFailed(Option<Item>),
    /// It was one of the rare cases: send this request instead.
    SendInstead(Box<ItemRequest>),
}

impl PlannedWrite {
    /// Validates an action.
    pub(crate) fn new(table: Arc<Table>, write: Write) -> Result<Self, Error> {
        let key = limits::check_write(&table.spec, &write)?;
        Ok(PlannedWrite { table, key, write })
    }

    /// The first request.
    pub(crate) fn first_request(&self, now: i64) -> ItemRequest {
        let Write { action, condition, .. } = &self.write;
        let mut all: Vec<Condition> = condition.iter().cloned().collect();
        // A create fails on any stored item, expired or not, so it needs no condition on the expiry.
        let is_create =
            matches!(condition, Some(Condition::Absent(path)) if self.table.spec.key.has_attribute(path.root()));
        let reads_item = condition.is_some() && !is_create
            || matches!(action, WriteAction::Update { .. } | WriteAction::ConditionCheck { .. });
        if let (true, Some(ttl)) = (reads_item, &self.table.spec.ttl) {
            all.push(Condition::Not(Box::new(due(ttl, now))));
        }
        if matches!(action, WriteAction::Update { update, .. } if only_removes(update)) {
            all.push(Condition::exists(self.table.spec.key.partition.0.as_str()));
        }
        ItemRequest { action: action.clone(), condition: joined(all) }
    }

    /// What follows when the condition of the first request failed on this item.
    pub(crate) fn on_failure(&self, found: Option<Item>, now: i64) -> Result<FailureMeaning, Error> {
        let spec = &self.table.spec;
        let alive = found.as_ref().filter(|item| !spec.is_expired(item, now));
        let condition = self.write.condition.as_ref();
        let nothing = Item::new();
        if condition.is_some_and(|condition| !condition.is_satisfied_by(alive.unwrap_or(&nothing))) {
            return Ok(FailureMeaning::ConditionFailed(alive.cloned()));
        }
        let expiry = |item: &Item| {
            let name = spec.ttl.as_deref()?;
            Some(Condition::equal(name, item.get(name)?.clone()))
        };
        let instead = match (&found, alive) {
            // The item has expired. While its expiry is unchanged, it counts as absent.
            (Some(item), None) => expiry(item).map(|same| (self.on_absent_item(), Some(same))),
            (None, _) => match &self.write.action {
                WriteAction::Update { update, .. } if only_removes(update) => {
                    let absent = Condition::absent(spec.key.partition.0.as_str());
                    Some((self.on_absent_item(), Some(absent)))
                }
                _ => None,
            },
            // An expiry that is not a whole second is none in the port, but DynamoDB compares it as a number.
            (Some(item), Some(_)) => {
                let looks_due = spec.ttl.as_deref().is_some_and(|ttl| due(ttl, now).is_satisfied_by(item));
                let same = expiry(item).filter(|_| looks_due);
                same.map(|same| {
                    let both = condition.cloned().into_iter().chain([same]).collect();
                    (Ok(self.write.action.clone()), joined(both))
                })
            }
        };
        match instead {
            Some((action, condition)) => {
                Ok(FailureMeaning::SendInstead(Box::new(ItemRequest { action: action?, condition })))
            }
            // The server evaluated the condition differently, and its result counts.
            None => Ok(FailureMeaning::ConditionFailed(alive.cloned())),
        }
    }

    /// The action on an absent item.
    fn on_absent_item(&self) -> Result<WriteAction, Error> {
        let WriteAction::Update { update, .. } = &self.write.action else { return Ok(self.write.action.clone()) };
        let schema = &self.table.spec.key;
        let made = Item::new()
            .with(&schema.partition.0, self.key.partition.clone())
            .with(&schema.sort.0, self.key.sort.clone());
        let item = update.apply(&made)?;
        limits::check_item(&self.table.spec, &item)?;
        Ok(WriteAction::Put { item })
    }

    /// Whether the action may be sent again after a lost response: it has no condition and is idempotent.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.write.condition.is_none()
            && match &self.write.action {
                WriteAction::Put { .. } | WriteAction::Delete { .. } | WriteAction::ConditionCheck { .. } => true,
                WriteAction::Update { update, .. } => update.changes().iter().all(|change| match change {
                    UpdateAction::Set(path, AssignedValue::Value(_)) | UpdateAction::Remove(path) => !has_index(path),
                    UpdateAction::Set(path, AssignedValue::IfAbsent(source, _)) => source == path && !has_index(path),
                    UpdateAction::Set(..) => false,
                    UpdateAction::Add(_, value) => !matches!(value, Value::Number(_)),
                    UpdateAction::Delete(..) => true,
                }),
            }
    }
}

/// Holds for items that have expired; DynamoDB cannot check that the expiry is a whole number.
fn due(ttl: &str, now: i64) -> Condition {
    Condition::Compare(Operand::Value(ttl.into()), ComparisonOp::LessOrEqual, now.into())
}

fn joined(mut all: Vec<Condition>) -> Option<Condition> {
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(Condition::And(all)),
    }
}

/// Whether an update has no change for which DynamoDB would create an absent item.
fn only_removes(update: &Update) -> bool {
    update.changes().iter().all(|change| matches!(change, UpdateAction::Remove(_) | UpdateAction::Delete(..)))
}

/// Whether a path has a list index, which other changes can shift.
fn has_index(path: &Path) -> bool {
    path.segments().iter().any(|step| matches!(step, PathSegment::Index(_)))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nagaya_store::{KeySchema, TableSpec};

    use super::*;

    const NOW: i64 = 1000;

    fn plan(write: Write) -> PlannedWrite {
        let spec = TableSpec::new("t", KeySchema::strings("PK", "SK")).with_ttl("until");
        let table = Table { name: "t".to_owned(), spec, described_at: Instant::now() };
        PlannedWrite::new(Arc::new(table), write).expect("the write is possible")
    }

    fn key() -> Key {
        Key::new("p", "s")
    }

    fn item() -> Item {
        Item::new().with("PK", "p").with("SK", "s")
    }

    fn update(update: Update) -> PlannedWrite {
        plan(Write::update("t", key(), update))
    }

    fn not_due() -> Condition {
        Condition::Not(Box::new(due("until", NOW)))
    }

    #[test]
    fn only_actions_that_depend_on_the_item_check_its_expiry() {
        assert_eq!(plan(Write::put("t", item())).first_request(NOW).condition, None);
        assert_eq!(plan(Write::delete("t", key())).first_request(NOW).condition, None);
        assert_eq!(update(Update::new().add("n", 1)).first_request(NOW).condition, Some(not_due()));
        let create = plan(Write::put("t", item()).when(Condition::absent("PK")));
        assert_eq!(create.first_request(NOW).condition, Some(Condition::absent("PK")));
        let change = plan(Write::put("t", item()).when(Condition::absent("n")));
        assert_eq!(change.first_request(NOW).condition, Some(Condition::absent("n").and(not_due())));
    }

    #[test]
    fn an_update_of_an_expired_item_is_a_put_of_a_new_one() {
        let found = item().with("until", 999).with("n", 41);
        let meaning = update(Update::new().add("n", 1)).on_failure(Some(found), NOW).expect("it can be done");
        let FailureMeaning::SendInstead(request) = meaning else { panic!("{meaning:?}") };
        assert_eq!(request.action, WriteAction::Put { item: item().with("n", 1) });
        assert_eq!(request.condition, Some(Condition::equal("until", 999)));
    }

    #[test]
    fn an_expired_item_does_not_fulfil_a_condition() {
        let write = plan(Write::delete("t", key()).when(Condition::exists("PK")));
        let meaning = write.on_failure(Some(item().with("until", 999)), NOW).expect("it can be judged");
        assert!(matches!(meaning, FailureMeaning::ConditionFailed(None)), "{meaning:?}");
    }

    #[test]
    fn an_expiry_that_is_not_a_whole_second_is_ignored() {
        let until: nagaya_store::Number = "998.5".parse().expect("a number");
        let found = item().with("until", until);
        let meaning = update(Update::new().add("n", 1)).on_failure(Some(found), NOW).expect("it can be done");
        let FailureMeaning::SendInstead(request) = meaning else { panic!("{meaning:?}") };
        assert!(matches!(request.action, WriteAction::Update { .. }));
        assert_eq!(request.condition, Some(Condition::equal("until", until)));
    }

    #[test]
    fn an_update_that_only_removes_creates_an_absent_item() {
        let plan = update(Update::new().remove("n"));
        let meaning = plan.on_failure(None, NOW).expect("it can be done");
        let FailureMeaning::SendInstead(request) = meaning else { panic!("{meaning:?}") };
        assert_eq!(request.action, WriteAction::Put { item: item() });
        assert_eq!(request.condition, Some(Condition::absent("PK")));
    }

    #[test]
    fn only_unconditional_actions_with_fixed_results_are_idempotent() {
        let list = || Path::attribute("list").index(0);
        let texts = || Value::StringSet(["x".to_owned()].into());
        let cases = [
            (Update::new().set("a", 1).remove("b"), true),
            (Update::new().add("tags", texts()).delete("others", texts()), true),
            (Update::new().set("a", AssignedValue::IfAbsent("a".into(), 1.into())), true),
            (Update::new().set("a", AssignedValue::IfAbsent("b".into(), 1.into())), false),
            (Update::new().add("n", 1), false),
            (Update::new().set("n", AssignedValue::Plus("n".into(), 1.into())), false),
            (Update::new().set("l", AssignedValue::Append("l".into(), Vec::new())), false),
            (Update::new().set("a", AssignedValue::Copy("b".into())), false),
            (Update::new().set(list(), 1), false),
            (Update::new().remove(list()), false),
        ];
        for (changes, expected) in cases {
            let text = format!("{changes:?}");
            assert_eq!(update(changes).is_idempotent(), expected, "{text}");
        }
        assert!(plan(Write::put("t", item())).is_idempotent());
        assert!(!plan(Write::put("t", item()).when(Condition::absent("PK"))).is_idempotent());
        assert!(!plan(Write::delete("t", key()).when(Condition::exists("PK"))).is_idempotent());
    }
}
