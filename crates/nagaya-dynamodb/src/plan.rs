//! What an action of the port is to the server, which knows nothing of some of the port's rules.
//!
//! An item that has expired but is not swept yet is absent in the port, and there for the server. An update that only
//! takes away makes an absent item in the port, and nothing on the server. Such cases are rare, so the first request is
//! the action itself, under the further condition that it is no such case. When that fails, the answer has the item that
//! was found, which says which case it was: then a second request does what the action does there, on the condition that
//! the same is still found.

use std::sync::Arc;

use nagaya_store::{
    Action, Assign, Change, Comparison, Condition, Error, Item, Key, Operand, Path, Step, Update, Value, Write, limits,
};

use crate::known::Table;

/// An action of a write set that can be sent.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) table: Arc<Table>,
    pub(crate) key: Key,
    pub(crate) write: Write,
}

/// What is sent for an action.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) action: Action,
    pub(crate) condition: Option<Condition>,
}

/// What a failed condition means.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The action's own condition does not hold; the item as the port sees it.
    Failed(Option<Item>),
    /// It was one of the rare cases, for which this is to be sent.
    Instead(Box<Request>),
}

impl Plan {
    /// An action of the table, if it can be done at all.
    pub(crate) fn new(table: Arc<Table>, write: Write) -> Result<Self, Error> {
        let key = limits::check_write(&table.spec, &write)?;
        Ok(Plan { table, key, write })
    }

    /// The first request.
    pub(crate) fn first(&self, now: i64) -> Request {
        let Write { action, condition, .. } = &self.write;
        let mut all: Vec<Condition> = condition.iter().cloned().collect();
        // That nothing is there needs no second look: what is there, expired or not, fails it, and the verdict tells.
        let is_create = matches!(condition, Some(Condition::Absent(path)) if self.table.spec.key.has(path.root()));
        let sees = condition.is_some() && !is_create || matches!(action, Action::Update { .. } | Action::Check { .. });
        if let (true, Some(ttl)) = (sees, &self.table.spec.ttl) {
            all.push(Condition::Not(Box::new(due(ttl, now))));
        }
        if matches!(action, Action::Update { update, .. } if only_takes_away(update)) {
            all.push(Condition::exists(self.table.spec.key.partition.0.as_str()));
        }
        Request { action: action.clone(), condition: joined(all) }
    }

    /// What it means that the first request failed on this item.
    pub(crate) fn verdict(&self, found: Option<Item>, now: i64) -> Result<Verdict, Error> {
        let spec = &self.table.spec;
        let alive = found.as_ref().filter(|item| !spec.is_expired(item, now));
        let condition = self.write.condition.as_ref();
        let nothing = Item::new();
        if condition.is_some_and(|condition| !condition.holds(alive.unwrap_or(&nothing))) {
            return Ok(Verdict::Failed(alive.cloned()));
        }
        let expiry = |item: &Item| {
            let name = spec.ttl.as_deref()?;
            Some(Condition::equal(name, item.get(name)?.clone()))
        };
        let instead = match (&found, alive) {
            // It has expired: as long as its second is the same, whatever else is in it, it is not there.
            (Some(item), None) => expiry(item).map(|same| (self.anew(), Some(same))),
            (None, _) => match &self.write.action {
                Action::Update { update, .. } if only_takes_away(update) => {
                    let absent = Condition::absent(spec.key.partition.0.as_str());
                    Some((self.anew(), Some(absent)))
                }
                _ => None,
            },
            // A number that is no whole second has the server's eyes only.
            (Some(item), Some(_)) => {
                let looks_due = spec.ttl.as_deref().is_some_and(|ttl| due(ttl, now).holds(item));
                let same = expiry(item).filter(|_| looks_due);
                same.map(|same| {
                    let both = condition.cloned().into_iter().chain([same]).collect();
                    (Ok(self.write.action.clone()), joined(both))
                })
            }
        };
        match instead {
            Some((action, condition)) => Ok(Verdict::Instead(Box::new(Request { action: action?, condition }))),
            // The server saw it otherwise than we do, and it is the server that decides.
            None => Ok(Verdict::Failed(alive.cloned())),
        }
    }

    /// The action where there is no item, or none any more.
    fn anew(&self) -> Result<Action, Error> {
        let Action::Update { update, .. } = &self.write.action else { return Ok(self.write.action.clone()) };
        let schema = &self.table.spec.key;
        let made = Item::new()
            .with(&schema.partition.0, self.key.partition.clone())
            .with(&schema.sort.0, self.key.sort.clone());
        let item = update.apply(&made)?;
        limits::check_item(&self.table.spec, &item)?;
        Ok(Action::Put { item })
    }

    /// Whether the action may be done again when the answer was lost: it asks for nothing, and twice gives what once gives.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.write.condition.is_none()
            && match &self.write.action {
                Action::Put { .. } | Action::Delete { .. } | Action::Check { .. } => true,
                Action::Update { update, .. } => update.changes().iter().all(|change| match change {
                    Change::Set(path, Assign::Value(_)) | Change::Remove(path) => !has_index(path),
                    Change::Set(path, Assign::IfAbsent(source, _)) => source == path && !has_index(path),
                    Change::Set(..) => false,
                    Change::Add(_, value) => !matches!(value, Value::Number(_)),
                    Change::Delete(..) => true,
                }),
            }
    }
}

/// Whether the server would see an item as expired: it cannot tell whole numbers from others.
fn due(ttl: &str, now: i64) -> Condition {
    Condition::Compare(Operand::Value(ttl.into()), Comparison::LessOrEqual, now.into())
}

fn joined(mut all: Vec<Condition>) -> Option<Condition> {
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(Condition::And(all)),
    }
}

/// Whether an update has nothing for which the server would make an item that is absent.
fn only_takes_away(update: &Update) -> bool {
    let takes = |change: &Change| matches!(change, Change::Remove(_) | Change::Delete(..));
    update.changes().iter().all(takes)
}

/// Whether a path leads through a list, where places move.
fn has_index(path: &Path) -> bool {
    path.steps().iter().any(|step| matches!(step, Step::Index(_)))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nagaya_store::{KeySchema, TableSpec};

    use super::*;

    const NOW: i64 = 1000;

    fn plan(write: Write) -> Plan {
        let spec = TableSpec::new("t", KeySchema::strings("PK", "SK")).with_ttl("until");
        let table = Table { name: "t".to_owned(), spec, learned: Instant::now() };
        Plan::new(Arc::new(table), write).expect("the write is possible")
    }

    fn key() -> Key {
        Key::new("p", "s")
    }

    fn item() -> Item {
        Item::new().with("PK", "p").with("SK", "s")
    }

    fn update(update: Update) -> Plan {
        plan(Write::update("t", key(), update))
    }

    fn not_due() -> Condition {
        Condition::Not(Box::new(due("until", NOW)))
    }

    #[test]
    fn only_what_looks_at_the_item_asks_whether_it_has_expired() {
        assert_eq!(plan(Write::put("t", item())).first(NOW).condition, None);
        assert_eq!(plan(Write::delete("t", key())).first(NOW).condition, None);
        assert_eq!(update(Update::new().add("n", 1)).first(NOW).condition, Some(not_due()));
        let create = plan(Write::put("t", item()).when(Condition::absent("PK")));
        assert_eq!(create.first(NOW).condition, Some(Condition::absent("PK")));
        let change = plan(Write::put("t", item()).when(Condition::absent("n")));
        assert_eq!(change.first(NOW).condition, Some(Condition::absent("n").and(not_due())));
    }

    #[test]
    fn an_update_of_an_expired_item_is_a_put_of_a_new_one() {
        let found = item().with("until", 999).with("n", 41);
        let verdict = update(Update::new().add("n", 1)).verdict(Some(found), NOW).expect("it can be done");
        let Verdict::Instead(request) = verdict else { panic!("{verdict:?}") };
        assert_eq!(request.action, Action::Put { item: item().with("n", 1) });
        assert_eq!(request.condition, Some(Condition::equal("until", 999)));
    }

    #[test]
    fn an_expired_item_does_not_fulfil_a_condition() {
        let write = plan(Write::delete("t", key()).when(Condition::exists("PK")));
        let verdict = write.verdict(Some(item().with("until", 999)), NOW).expect("it can be judged");
        assert!(matches!(verdict, Verdict::Failed(None)), "{verdict:?}");
    }

    #[test]
    fn half_a_second_does_not_expire() {
        let until: nagaya_store::Number = "998.5".parse().expect("a number");
        let found = item().with("until", until);
        let verdict = update(Update::new().add("n", 1)).verdict(Some(found), NOW).expect("it can be done");
        let Verdict::Instead(request) = verdict else { panic!("{verdict:?}") };
        assert!(matches!(request.action, Action::Update { .. }));
        assert_eq!(request.condition, Some(Condition::equal("until", until)));
    }

    #[test]
    fn an_update_that_only_takes_away_makes_what_is_not_there() {
        let plan = update(Update::new().remove("n"));
        let verdict = plan.verdict(None, NOW).expect("it can be done");
        let Verdict::Instead(request) = verdict else { panic!("{verdict:?}") };
        assert_eq!(request.action, Action::Put { item: item() });
        assert_eq!(request.condition, Some(Condition::absent("PK")));
    }

    #[test]
    fn what_gives_the_same_twice_may_be_repeated() {
        let list = || Path::attribute("list").index(0);
        let texts = || Value::StringSet(["x".to_owned()].into());
        let cases = [
            (Update::new().set("a", 1).remove("b"), true),
            (Update::new().add("tags", texts()).delete("others", texts()), true),
            (Update::new().set("a", Assign::IfAbsent("a".into(), 1.into())), true),
            (Update::new().set("a", Assign::IfAbsent("b".into(), 1.into())), false),
            (Update::new().add("n", 1), false),
            (Update::new().set("n", Assign::Plus("n".into(), 1.into())), false),
            (Update::new().set("l", Assign::Append("l".into(), Vec::new())), false),
            (Update::new().set("a", Assign::Copy("b".into())), false),
            (Update::new().set(list(), 1), false),
            (Update::new().remove(list()), false),
        ];
        for (changes, expected) in cases {
            let told = format!("{changes:?}");
            assert_eq!(update(changes).is_repeatable(), expected, "{told}");
        }
        assert!(plan(Write::put("t", item())).is_repeatable());
        assert!(!plan(Write::put("t", item()).when(Condition::absent("PK"))).is_repeatable());
        assert!(!plan(Write::delete("t", key()).when(Condition::exists("PK"))).is_repeatable());
    }
}
