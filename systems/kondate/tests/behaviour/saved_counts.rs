//! Saved counts converge to the number of saves, whatever is concurrent, repeated or late.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_kondate::catch_up;
use nagaya_store::{ErrorKind, Store, WriteAction};
use nagaya_tenancy::{List, Nagaya, Principal, RecordOwner, Settings, Tenant};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, TestServer, build_runtime, memory_store, text};
use serde_json::{Map, Value as Json, json};

use crate::{
    catalog::{cook, publish, save_path, wait_for_count},
    harness::{design, kondate_server, run_concurrently, system},
};

/// Proves the counting part of K14, and the saved counts of K19.
#[test]
fn fifty_concurrent_saves_are_counted_exactly() {
    concurrent_saves_are_counted_exactly(&kondate_server(), 50);
}

/// Users save and remove saves at random and concurrently, while two more subscriptions read the same store.
pub(crate) fn concurrent_saves_are_counted_exactly(server: &TestServer, users: usize) {
    let ann = cook(server, "u_cnt_a");
    let copies: Vec<Json> = ["one", "two", "three"].iter().map(|title| publish(&ann, title)).collect();
    let done = AtomicBool::new(false);
    let kept: Vec<BTreeSet<usize>> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let nagaya = second_instance(server);
                while !done.load(Ordering::SeqCst) {
                    server.block_on(catch_up(&nagaya)).expect("it catches up");
                }
            });
        }
        let kept = run_concurrently(users, |n| {
            let name = format!("u_cnt_{n}");
            let user = server.client_of_user(&name, &name);
            let mut chance = Rng::new(n as u64);
            let mut kept = BTreeSet::new();
            for _ in 0..6 {
                let at = chance.below(3);
                if chance.below(3) > 0 {
                    user.put(&save_path(&copies[at])).expect_data(200);
                    kept.insert(at);
                } else {
                    assert_eq!(user.delete(&save_path(&copies[at])).status, 204);
                    kept.remove(&at);
                }
            }
            kept
        });
        done.store(true, Ordering::SeqCst);
        kept
    });
    server.block_on(catch_up(&server.nagaya)).expect("it catches up");
    for (at, copy) in copies.iter().enumerate() {
        let truth = kept.iter().filter(|kept| kept.contains(&at)).count();
        assert!(truth > 0);
        wait_for_count(server, copy, truth as u64);
    }

    // All users remove their saves concurrently: the count is zero.
    run_concurrently(users, |n| {
        let name = format!("u_cnt_{n}");
        let user = server.client_of_user(&name, &name);
        copies.iter().for_each(|copy| assert_eq!(user.delete(&save_path(copy)).status, 204));
    });
    copies.iter().for_each(|copy| wait_for_count(server, copy, 0));
}

/// A second instance on the same store, like another server.
fn second_instance(server: &TestServer) -> Nagaya {
    let settings = Settings { clock: server.clock.clock(), audit_keys: [7; 32].into(), ..Settings::default() };
    Nagaya::open_with(design(), Arc::clone(&server.store), settings)
}

/// A reproducible random number generator.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 32) % end).expect("small")
    }
}

/// A publication that is withdrawn and published again starts at zero; saves of the former one are not counted.
#[test]
fn a_publication_counts_its_own_saves_only() {
    a_new_publication_starts_with_a_count_of_zero(&kondate_server());
}

pub(crate) fn a_new_publication_starts_with_a_count_of_zero(server: &TestServer) {
    let ann = cook(server, "u_new_a");
    let copy = publish(&ann, "x");
    let users: Vec<_> = ["u_new_1", "u_new_2", "u_new_3"].map(|name| server.client_of_user(name, name)).into();
    users.iter().for_each(|user| drop(user.put(&save_path(&copy)).expect_data(200)));
    wait_for_count(server, &copy, 3);
    let own = format!("/v1/recipes/{}", text(&copy, "recipeId"));
    // Publishing a change keeps the count and the position.
    ann.patch(&own, &json!({ "title": "y" })).expect_data(200);
    ann.post_empty(&format!("{own}/publish")).expect_data(200);
    wait_for_count(server, &copy, 3);
    ann.post_empty(&format!("{own}/withdraw"));
    ann.post_empty(&format!("{own}/publish")).expect_data(200);
    wait_for_count(server, &copy, 0);
    // One user removes the old save, one saves the new publication, one does nothing.
    assert_eq!(users[0].delete(&save_path(&copy)).status, 204);
    let path = format!("/v1/catalog/recipes/{}", text(&copy, "recipeId"));
    ann.get_until(&path, |answer| answer.status == 200 && answer.body["data"]["createdAt"] != copy["createdAt"]);
    users[1].put(&save_path(&copy)).expect_data(200);
    wait_for_count(server, &copy, 1);
    server.block_on(catch_up(&server.nagaya)).expect("it catches up");
    wait_for_count(server, &copy, 1);
    assert_eq!(users[1].delete(&save_path(&copy)).status, 204);
    wait_for_count(server, &copy, 0);
}

/// The data layer without a server: no subscription runs until `catch_up`.
struct Backend {
    store: Arc<dyn Store>,
    clock: ManualClock,
    nagaya: Nagaya,
    runtime: tokio::runtime::Runtime,
}

const AT: &str = "2030-01-01T00:00:00Z";

impl Backend {
    fn open(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        let settings = Settings { clock: clock.clock(), audit_keys: [7; 32].into(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design(), Arc::clone(&store), settings);
        let runtime = build_runtime();
        runtime.block_on(nagaya.ensure_tables()).expect("the tables are made");
        let backend = Backend { store, clock, nagaya, runtime };
        for id in ["r_01", "r_02"] {
            let page = json!({ "recipeId": id, "creatorName": "Ann", "title": "x", "createdAt": AT });
            backend.runtime.block_on(backend.tenant("ann").create("creator_recipe", fields(page))).expect("it is made");
        }
        backend
    }

    fn tenant(&self, user: &str) -> Tenant {
        self.nagaya.tenant(&Principal::new(user, user)).expect("a user")
    }

    fn save(&self, users: std::ops::Range<usize>) {
        self.save_recipe("r_01", users);
    }

    fn save_recipe(&self, id: &str, users: std::ops::Range<usize>) {
        let saved = json!({ "recipeId": id, "creatorId": "ann", "catalogCreatedAt": AT, "title": "x" });
        for user in users {
            let user = self.tenant(&format!("u{user}"));
            self.runtime.block_on(user.create("saved_recipe", fields(saved.clone()))).expect("it is saved");
        }
    }

    fn unsave(&self, users: std::ops::Range<usize>) {
        for user in users {
            let user = self.tenant(&format!("u{user}"));
            self.runtime.block_on(user.delete("saved_recipe", &["r_01"], None)).expect("it was saved");
        }
    }

    fn catch_up(&self) {
        self.runtime.block_on(catch_up(&self.nagaya)).expect("it catches up");
    }

    fn count(&self) -> Json {
        self.count_of_recipe("r_01")
    }

    fn count_of_recipe(&self, id: &str) -> Json {
        let page =
            self.runtime.block_on(self.tenant("ann").get("creator_recipe", &["ann", AT, id])).expect("it is there");
        page.json("savedCount").expect("it counts")
    }

    /// Deletes the stored position of the subscription.
    fn delete_position(&self) {
        let operator = self.nagaya.operator("a test of it", &Principal::new("", "test"));
        self.runtime.block_on(async {
            let (entity, name) = ("saved_recipe", "followers-position-2");
            let position = operator.side_record(entity, RecordOwner::System, name).await.expect("it is read");
            let set = operator.change_set().side_record(entity, RecordOwner::System, name, None, position.as_ref());
            set.commit().await.expect("the position is deleted");
        });
    }
}

fn fields(value: Json) -> Map<String, Json> {
    value.as_object().cloned().expect("fields")
}

/// The key of the item whose count a call changes.
fn counted(call: &Call) -> Option<String> {
    call.writes().iter().find_map(|write| match &write.action {
        WriteAction::Update { key, .. } => Some(format!("{key:?}")).filter(|key| key.contains("CATALOG_RECIPE#")),
        _ => None,
    })
}

/// An action that runs once, just before a save is counted.
fn before_counting<F: Future<Output = ()> + Send + 'static>(act: impl Fn() -> F + Send + Sync + 'static) -> Fault {
    Fault::run_before(move |_| act()).matching(|call| counted(call).is_some()).once()
}

/// Proves the followers' part of K19.
#[test]
fn saves_without_a_running_subscription_are_counted_later() {
    let clock = ManualClock::default();
    let backend = Backend::open(memory_store(&clock), clock);
    backend.save(0..120);
    assert_eq!(backend.count(), 0);
    backend.catch_up();
    assert_eq!(backend.count(), 120);
    backend.catch_up();
    assert_eq!(backend.count(), 120, "nothing is counted twice");

    // Stopped again; then two instances and a server catch up together.
    backend.unsave(0..30);
    backend.save(120..150);
    backend.unsave(140..150);
    let settings = Settings { audit_keys: [7; 32].into(), ..Settings::default() };
    let other = Nagaya::open_with(design(), Arc::clone(&backend.store), settings);
    let (mine, other) = backend.runtime.block_on(async { tokio::join!(catch_up(&backend.nagaya), catch_up(&other)) });
    mine.and(other).expect("both catch up");
    assert_eq!(backend.count(), 110);
    backend.unsave(30..31);
    let whole = json!({ "recipeId": "r_01", "creatorName": "Ann", "title": "x", "createdAt": AT });
    backend.runtime.block_on(backend.tenant("ann").create("catalog_recipe", fields(whole))).expect("it is made");
    let server = TestServer::builder(system()).store(Arc::clone(&backend.store), &backend.clock).start();
    wait_for_count(&server, &json!({ "recipeId": "r_01" }), 109);
}

/// Proves the many-at-once part of K19: a burst is a few writes, not one for each save.
#[test]
fn a_burst_of_saves_updates_the_item_a_few_times() {
    let clock = ManualClock::default();
    let backend = Backend::open(memory_store(&clock), clock);
    backend.catch_up();
    backend.save(0..200);
    backend.catch_up();
    let page = backend
        .runtime
        .block_on(backend.tenant("ann").get("creator_recipe", &["ann", AT, "r_01"]))
        .expect("it is there");
    assert_eq!(page.json("savedCount"), Some(json!(200)));
    assert!(page.version().expect("it has one") <= 1 + 6, "{:?}", page.version());
    let popular =
        backend.runtime.block_on(backend.tenant("ann").list(&List::by("catalog_recipes_popular"))).expect("a page");
    assert_eq!(popular.records.first().and_then(|first| first.json("savedCount")), Some(json!(200)));
}

/// Proves the lost changes' part of K19.
#[test]
fn a_gap_in_the_changes_triggers_a_full_recount() {
    let clock = ManualClock::default();
    let options = Options { clock: clock.clock(), sweep_interval: None, ..Options::default() };
    let store = Arc::new(EmbeddedStore::in_memory(options).expect("memory"));
    let backend = Backend::open(Arc::clone(&store) as Arc<dyn Store>, clock);
    backend.save(0..50);
    let soup = json!({ "recipeId": "r_03", "title": "豚汁" });
    backend.runtime.block_on(backend.tenant("ann").create("recipe", fields(soup))).expect("it is made");
    let published = json!({ "recipeId": "r_03", "title": "豚汁", "creatorName": "Ann", "createdAt": AT });
    backend.runtime.block_on(backend.tenant("ann").create("catalog_recipe", fields(published))).expect("it is made");
    backend.catch_up();
    let terms = || {
        let (own, catalog) = (List::by("search_terms"), List::by("catalog_terms").with("initial", "豚"));
        [own, catalog].map(|list| {
            let list = list.with("kind", "RECIPE").with("term", "豚汁");
            backend.runtime.block_on(backend.tenant("ann").list(&list)).expect("a page").records.len()
        })
    };
    assert_eq!(terms(), [1, 1]);
    for (entity, id) in [("recipe", &["r_03"][..]), ("catalog_recipe", &[AT, "r_03"])] {
        backend.runtime.block_on(backend.tenant("ann").delete(entity, id, None)).expect("it was there");
    }
    backend.unsave(0..20);
    backend.save(50..55);
    // Changes are retained for a week, and no subscription has read them.
    backend.clock.advance(Duration::from_secs(15 * 24 * 3_600));
    backend.runtime.block_on(store.sweep()).expect("it is swept");
    backend.catch_up();
    assert_eq!(backend.count(), 35, "removed saves are noticed too");
    assert_eq!(terms(), [0, 0], "deleted items are not found");

    // A full recount also corrects a wrong count.
    let wrong = backend.tenant("ann");
    let wrong = wrong.update("creator_recipe", &["ann", AT, "r_01"], fields(json!({ "savedCount": 77 })), None);
    backend.runtime.block_on(wrong).expect("it is written");
    backend.catch_up();
    assert_eq!(backend.count(), 77);
    backend.delete_position();
    backend.catch_up();
    assert_eq!(backend.count(), 35);
}

/// Proves the twice and late part of K19.
#[test]
fn repeated_changes_are_not_counted_twice() {
    let clock = ManualClock::default();
    let backend = Backend::open(memory_store(&clock), clock);
    let mut truth: BTreeMap<usize, bool> = BTreeMap::new();
    let mut chance = Rng::new(7);
    for round in 0..20 {
        for _ in 0..10 {
            let user = chance.below(12);
            match truth.insert(user, !truth.get(&user).copied().unwrap_or_default()) {
                Some(true) => backend.unsave(user..user + 1),
                _ => backend.save(user..user + 1),
            }
        }
        if chance.below(3) == 0 {
            backend.delete_position();
        }
        backend.catch_up();
        let saved = truth.values().filter(|saved| **saved).count();
        assert_eq!(backend.count(), saved, "round {round}");
    }
}

/// Proves the looking again part of K19: one has read that something is saved, and is held up; it is let go, which another one
/// sees and finds right, because nothing is counted yet; then the first one counts.
#[test]
fn a_save_that_is_removed_during_counting_is_not_counted() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let backend = Backend::open(store.clone(), clock);
    backend.catch_up();
    backend.save(0..1);
    let other = backend.nagaya.clone();
    let interrupted = store.inject(before_counting(move || {
        let other = other.clone();
        async move {
            let user = other.tenant(&Principal::new("u0", "u0")).expect("a user");
            user.delete("saved_recipe", &["r_01"], None).await.expect("it was saved");
            catch_up(&other).await.expect("it catches up");
        }
    }));
    backend.catch_up();
    assert_eq!(interrupted.hits(), 1);
    assert_eq!(backend.count(), 0);
}

/// The same where the recipe is withdrawn just before it is counted.
#[test]
fn a_recipe_that_is_withdrawn_during_counting_stays_withdrawn() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let backend = Backend::open(store.clone(), clock);
    backend.catch_up();
    backend.save(0..3);
    let ann = backend.tenant("ann");
    let interrupted = store.inject(before_counting(move || {
        let ann = ann.clone();
        async move {
            ann.delete("creator_recipe", &["ann", AT, "r_01"], None).await.expect("it was published");
        }
    }));
    backend.catch_up();
    assert_eq!(interrupted.hits(), 1);
    backend.unsave(0..3);
    backend.catch_up();
    let page = backend.runtime.block_on(backend.tenant("ann").get("creator_recipe", &["ann", AT, "r_01"]));
    page.expect_err("it stays withdrawn");
}

/// Proves the others' part of K19: what cannot be counted is in nobody's way, and is counted when it can be.
#[test]
fn a_failing_count_does_not_block_the_others() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let backend = Backend::open(store.clone(), clock);
    backend.catch_up();
    let refused = Fault::fail_before(|| ErrorKind::Busy.into());
    let refused = store.inject(refused.matching(|call| counted(call).is_some_and(|key| key.contains("r_02"))));
    backend.save_recipe("r_02", 0..2);
    backend.save(0..3);
    backend.catch_up();
    backend.save(3..5);
    backend.catch_up();
    assert_eq!((backend.count(), backend.count_of_recipe("r_02")), (json!(5), json!(0)));

    // The next change of that recipe is counted, and a full recount counts all.
    refused.remove();
    backend.save_recipe("r_02", 2..3);
    backend.catch_up();
    assert_eq!(backend.count_of_recipe("r_02"), 1);
    backend.delete_position();
    backend.catch_up();
    assert_eq!((backend.count(), backend.count_of_recipe("r_02")), (json!(5), json!(3)));
}
