//! Random operations, with reopening in between, compared with a simple model.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{
    Clock, Condition, ErrorKind, Item, Key, KeySchema, Query, Scan, SortCondition, Store as _, TableSpec, Update,
    Value, Write, WriteAction, WriteSet,
};
use proptest::prelude::*;

const TABLE: &str = "things";

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_ttl("expiresAt")
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(Target, Kind)>),
    /// Advances the clock, in seconds.
    Wait(i64),
    Sweep,
    Reopen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    partition: u8,
    sort: u8,
}

impl Target {
    fn key(self) -> Key {
        Key::new(format!("P{}", self.partition), format!("S{}", self.sort))
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Create {
        index: Option<u8>,
        lives: Option<i64>,
    },
    Put {
        index: Option<u8>,
        lives: Option<i64>,
    },
    /// An increment, on the condition that the item exists.
    Count,
    /// Moves the item within the index, or removes it from the index.
    Move(Option<u8>),
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    let target = (0..3u8, 0..4u8).prop_map(|(partition, sort)| Target { partition, sort });
    let index = proptest::option::of(0..3u8);
    let lives = proptest::option::weighted(0.3, 1..5i64);
    let kind = prop_oneof![
        (index.clone(), lives.clone()).prop_map(|(index, lives)| Kind::Create { index, lives }),
        (index.clone(), lives).prop_map(|(index, lives)| Kind::Put { index, lives }),
        Just(Kind::Count),
        index.prop_map(Kind::Move),
        Just(Kind::Delete),
    ];
    prop_oneof![
        12 => proptest::collection::vec((target, kind), 1..4).prop_map(Step::Write),
        2 => (1..3i64).prop_map(Step::Wait),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reopen),
    ]
}

/// The simplest possible store: items by key, and a clock.
#[derive(Default)]
struct Model {
    items: BTreeMap<(String, String), Item>,
    now: i64,
}

impl Model {
    fn unexpired(&self, target: Target) -> Option<&Item> {
        let item = self.items.get(&names(target))?;
        (!spec().is_expired(item, self.now)).then_some(item)
    }

    /// Applies a write set, unless conditions fail; returns the actions whose conditions failed.
    fn write(&mut self, actions: &[(Target, Kind)]) -> Vec<usize> {
        let holds = |(target, kind): &(Target, Kind)| match kind {
            Kind::Create { .. } => self.unexpired(*target).is_none(),
            Kind::Count | Kind::Move(_) => self.unexpired(*target).is_some(),
            Kind::Put { .. } | Kind::Delete => true,
        };
        let failed: Vec<_> = (0..actions.len()).filter(|at| !holds(&actions[*at])).collect();
        if failed.is_empty() {
            for (target, kind) in actions {
                let old = self.unexpired(*target).cloned();
                match new_item(*target, kind, old, self.now) {
                    Some(item) => self.items.insert(names(*target), item),
                    None => self.items.remove(&names(*target)),
                };
            }
        }
        failed
    }
}

fn names(target: Target) -> (String, String) {
    (format!("P{}", target.partition), format!("S{}", target.sort))
}

fn new_item(target: Target, kind: &Kind, old: Option<Item>, now: i64) -> Option<Item> {
    let (partition, sort) = names(target);
    let placed = |mut item: Item, index: Option<u8>| {
        item.remove("GSI1PK");
        item.remove("GSI1SK");
        if let Some(index) = index {
            item.insert("GSI1PK", format!("I{index}"));
            item.insert("GSI1SK", sort.clone());
        }
        item
    };
    match kind {
        Kind::Create { index, lives } | Kind::Put { index, lives } => {
            let mut item = Item::new().with("PK", partition).with("SK", sort.clone()).with("n", 0);
            if let Some(lives) = lives {
                item.insert("expiresAt", now + lives);
            }
            Some(placed(item, *index))
        }
        Kind::Count => old.map(|mut item| {
            let n: i64 = item.get("n").and_then(Value::as_number).and_then(|n| n.try_into().ok()).expect("a count");
            item.insert("n", n + 1);
            item
        }),
        Kind::Move(index) => old.map(|item| placed(item, *index)),
        Kind::Delete => None,
    }
}

fn write(target: Target, kind: &Kind, now: i64) -> Write {
    match kind {
        Kind::Create { .. } => Write::put(TABLE, new_item(target, kind, None, now).expect("a create makes an item"))
            .when(Condition::absent("PK")),
        Kind::Put { .. } => Write::put(TABLE, new_item(target, kind, None, now).expect("a put makes an item")),
        Kind::Count => Write::update(TABLE, target.key(), Update::new().add("n", 1)).when(Condition::exists("PK")),
        Kind::Move(index) => {
            let update = match index {
                Some(index) => Update::new().set("GSI1PK", format!("I{index}")).set("GSI1SK", names(target).1),
                None => Update::new().remove("GSI1PK").remove("GSI1SK"),
            };
            Write::update(TABLE, target.key(), update).when(Condition::exists("PK"))
        }
        Kind::Delete => {
            Write { table: TABLE.to_owned(), action: WriteAction::Delete { key: target.key() }, condition: None }
        }
    }
}

/// Checks that all reads return what the model has.
async fn check_reads(store: &EmbeddedStore, model: &Model) {
    let expected: Vec<&Item> = model.items.values().filter(|item| !spec().is_expired(item, model.now)).collect();
    let scanned = store.scan(Scan::table(TABLE)).await.expect("a scan").items;
    assert_eq!(scanned.iter().collect::<Vec<_>>(), expected);
    for partition in 0..3 {
        let name = format!("P{partition}");
        let of: Vec<_> = expected.iter().filter(|item| item.get("PK") == Some(&name.as_str().into())).collect();
        let forward = store.query(Query::table(TABLE, name.as_str())).await.expect("a query").items;
        assert_eq!(forward.iter().collect::<Vec<_>>(), of.iter().map(|item| **item).collect::<Vec<_>>());
        let index = format!("I{partition}");
        let mut indexed =
            expected.iter().filter(|item| item.get("GSI1PK") == Some(&index.as_str().into())).collect::<Vec<_>>();
        indexed.sort_by_key(|item| (text(item, "GSI1SK"), text(item, "PK"), text(item, "SK")));
        let found = store
            .query(Query::index(TABLE, "GSI1", index.as_str()).sort(SortCondition::BeginsWith("S".into())))
            .await
            .expect("a query");
        assert_eq!(found.items.iter().collect::<Vec<_>>(), indexed.iter().map(|item| **item).collect::<Vec<_>>());
    }
}

fn text(item: &Item, name: &str) -> String {
    item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Checks that replaying all changes gives the stored items.
async fn check_changes(store: &EmbeddedStore, model: &Model) {
    let mut items: BTreeMap<Key, Item> = BTreeMap::new();
    let changes = store.changes(TABLE, nagaya_store::StartPosition::Oldest, usize::MAX).await.expect("changes").records;
    let sequences: BTreeSet<_> = changes.iter().map(|change| change.sequence).collect();
    assert_eq!(sequences.len(), changes.len(), "each sequence number is used once");
    for change in changes {
        assert_eq!(items.get(&change.key), change.old.as_ref(), "the old image is the last new one");
        match change.new {
            Some(new) => items.insert(change.key, new),
            None => items.remove(&change.key),
        };
    }
    let unexpired = items.into_values().filter(|item| !spec().is_expired(item, model.now)).collect::<Vec<_>>();
    let expected = model.items.values().filter(|item| !spec().is_expired(item, model.now)).cloned().collect::<Vec<_>>();
    assert_eq!(unexpired, expected);
}

async fn run(steps: Vec<Step>, directory: Option<&std::path::Path>) {
    let now = Arc::new(AtomicI64::new(1_000));
    let options = || {
        let now = Arc::clone(&now);
        Options {
            clock: Clock::new(move || now.load(Ordering::SeqCst) * 1000),
            sweep_interval: None,
            ..Options::default()
        }
    };
    let open = || match directory {
        Some(directory) => EmbeddedStore::open(directory, options()),
        None => EmbeddedStore::in_memory(options()),
    };
    let mut store = open().expect("the store opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    let mut model = Model { now: 1_000, ..Model::default() };
    for step in steps {
        match step {
            Step::Write(actions) => {
                let targets: BTreeSet<_> = actions.iter().map(|(target, _)| *target).collect();
                let set: WriteSet = actions.iter().map(|(target, kind)| write(*target, kind, model.now)).collect();
                let result = store.write(set).await;
                if targets.len() < actions.len() {
                    let error = result.expect_err("two actions for one item are refused");
                    assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
                    continue;
                }
                let before: Vec<Option<Item>> =
                    actions.iter().map(|(target, _)| model.unexpired(*target).cloned()).collect();
                let failed = model.write(&actions);
                match result {
                    Ok(_) => assert!(failed.is_empty(), "{actions:?} should fail at {failed:?}"),
                    Err(error) => {
                        let found = error.failed_conditions().unwrap_or_else(|| panic!("{error}"));
                        assert_eq!(found.iter().map(|each| each.action).collect::<Vec<_>>(), failed);
                        for each in found {
                            assert_eq!(each.current, before[each.action]);
                        }
                    }
                }
            }
            Step::Wait(seconds) => {
                model.now += seconds;
                now.store(model.now, Ordering::SeqCst);
            }
            Step::Sweep => {
                store.sweep().await.expect("a sweep");
            }
            Step::Reopen => {
                if directory.is_some() {
                    drop(store);
                    store = open().expect("the store opens again");
                }
            }
        }
        check_reads(&store, &model).await;
    }
    check_changes(&store, &model).await;
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn memory_behaves_like_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        block_on(run(steps, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_directory_behaves_like_the_model(steps in proptest::collection::vec(step(), 1..25)) {
        let directory = tempfile::tempdir().expect("a directory");
        block_on(run(steps, Some(directory.path())));
    }
}
