//! Saved counts: whatever happens at once, twice or late, in the end they are the number of saves.

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
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, TestServer, memory_store, runtime, text};
use serde_json::{Map, Value as Json, json};

use crate::{
    catalog::{cook, counts_to, publish, saving},
    harness::{at_once, design, kitchen, system},
};

/// Proves the counting part of K14, and the saved counts of K19.
#[test]
fn fifty_who_save_at_once_are_counted_exactly() {
    many_save_at_once(&kitchen(), 50);
}

/// Users save and let go at random, several times, all at once, while two more follow the same store.
pub(crate) fn many_save_at_once(server: &TestServer, users: usize) {
    let ann = cook(server, "u_cnt_a");
    let copies: Vec<Json> = ["one", "two", "three"].iter().map(|title| publish(&ann, title)).collect();
    let done = AtomicBool::new(false);
    let kept: Vec<BTreeSet<usize>> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let nagaya = another(server);
                while !done.load(Ordering::SeqCst) {
                    server.block_on(catch_up(&nagaya)).expect("it follows");
                }
            });
        }
        let kept = at_once(users, |n| {
            let name = format!("u_cnt_{n}");
            let user = server.user(&name, &name);
            let mut chance = Chance::new(n as u64);
            let mut kept = BTreeSet::new();
            for _ in 0..6 {
                let at = chance.below(3);
                if chance.below(3) > 0 {
                    user.put(&saving(&copies[at])).data(200);
                    kept.insert(at);
                } else {
                    assert_eq!(user.delete(&saving(&copies[at])).status, 204);
                    kept.remove(&at);
                }
            }
            kept
        });
        done.store(true, Ordering::SeqCst);
        kept
    });
    server.block_on(catch_up(&server.nagaya)).expect("it follows");
    for (at, copy) in copies.iter().enumerate() {
        let truth = kept.iter().filter(|kept| kept.contains(&at)).count();
        assert!(truth > 0);
        counts_to(server, copy, truth as u64);
    }

    // All of them let go at once: nothing is left.
    at_once(users, |n| {
        let name = format!("u_cnt_{n}");
        let user = server.user(&name, &name);
        copies.iter().for_each(|copy| assert_eq!(user.delete(&saving(copy)).status, 204));
    });
    copies.iter().for_each(|copy| counts_to(server, copy, 0));
}

/// The same data layer again, as another server has it.
fn another(server: &TestServer) -> Nagaya {
    let settings = Settings { clock: server.clock.clock(), ..Settings::default() };
    Nagaya::open_with(design(), Arc::clone(&server.store), settings)
}

/// The same numbers every time.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 32) % end).expect("small")
    }
}

/// A publication that is withdrawn and published anew starts from nothing, and those who saved it before are not counted.
#[test]
fn a_publication_counts_its_own_saves_only() {
    a_new_publication_starts_from_nothing(&kitchen());
}

pub(crate) fn a_new_publication_starts_from_nothing(server: &TestServer) {
    let ann = cook(server, "u_new_a");
    let copy = publish(&ann, "x");
    let users: Vec<_> = ["u_new_1", "u_new_2", "u_new_3"].map(|name| server.user(name, name)).into();
    users.iter().for_each(|user| drop(user.put(&saving(&copy)).data(200)));
    counts_to(server, &copy, 3);
    let own = format!("/v1/recipes/{}", text(&copy, "recipeId"));
    // A change that is published keeps the count, and its place.
    ann.patch(&own, &json!({ "title": "y" })).data(200);
    ann.post_empty(&format!("{own}/publish")).data(200);
    counts_to(server, &copy, 3);
    ann.post_empty(&format!("{own}/withdraw"));
    ann.post_empty(&format!("{own}/publish")).data(200);
    counts_to(server, &copy, 0);
    // One lets go of the old one, one saves the new one, one does nothing.
    assert_eq!(users[0].delete(&saving(&copy)).status, 204);
    let path = format!("/v1/catalog/recipes/{}", text(&copy, "recipeId"));
    ann.until(&path, |answer| answer.status == 200 && answer.body["data"]["createdAt"] != copy["createdAt"]);
    users[1].put(&saving(&copy)).data(200);
    counts_to(server, &copy, 1);
    server.block_on(catch_up(&server.nagaya)).expect("it follows");
    counts_to(server, &copy, 1);
    assert_eq!(users[1].delete(&saving(&copy)).status, 204);
    counts_to(server, &copy, 0);
}

/// A kitchen without a server: what is written nobody follows until somebody catches up.
struct Larder {
    store: Arc<dyn Store>,
    clock: ManualClock,
    nagaya: Nagaya,
    runtime: tokio::runtime::Runtime,
}

const AT: &str = "2030-01-01T00:00:00Z";

impl Larder {
    fn on(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        let settings = Settings { clock: clock.clock(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design(), Arc::clone(&store), settings);
        let runtime = runtime();
        runtime.block_on(nagaya.ensure_tables()).expect("the tables are made");
        let larder = Larder { store, clock, nagaya, runtime };
        for id in ["r_01", "r_02"] {
            let page = json!({ "recipeId": id, "creatorName": "Ann", "title": "x", "createdAt": AT });
            larder.runtime.block_on(larder.of("ann").create("creator_recipe", fields(page))).expect("it is made");
        }
        larder
    }

    fn of(&self, user: &str) -> Tenant {
        self.nagaya.tenant(&Principal::new(user, user)).expect("a user")
    }

    fn save(&self, users: std::ops::Range<usize>) {
        self.save_of("r_01", users);
    }

    fn save_of(&self, id: &str, users: std::ops::Range<usize>) {
        let saved = json!({ "recipeId": id, "creatorId": "ann", "catalogCreatedAt": AT, "title": "x" });
        for user in users {
            let user = self.of(&format!("u{user}"));
            self.runtime.block_on(user.create("saved_recipe", fields(saved.clone()))).expect("it is saved");
        }
    }

    fn unsave(&self, users: std::ops::Range<usize>) {
        for user in users {
            let user = self.of(&format!("u{user}"));
            self.runtime.block_on(user.delete("saved_recipe", &["r_01"], None)).expect("it was saved");
        }
    }

    fn catch_up(&self) {
        self.runtime.block_on(catch_up(&self.nagaya)).expect("it follows");
    }

    fn count(&self) -> Json {
        self.count_of("r_01")
    }

    fn count_of(&self, id: &str) -> Json {
        let page = self.runtime.block_on(self.of("ann").get("creator_recipe", &["ann", AT, id])).expect("it is there");
        page.json("savedCount").expect("it counts")
    }

    /// As if nothing had been followed yet.
    fn forget(&self) {
        let operator = self.nagaya.operator("a test", &Principal::new("", "test"));
        self.runtime.block_on(async {
            let (entity, name) = ("saved_recipe", "followers-position");
            let note = operator.side_record(entity, RecordOwner::System, name).await.expect("it is read");
            let set = operator.change_set().side_record(entity, RecordOwner::System, name, None, note.as_ref());
            set.commit().await.expect("it is forgotten");
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

/// Does something once, just before a save is counted.
fn before_counting<F: Future<Output = ()> + Send + 'static>(act: impl Fn() -> F + Send + Sync + 'static) -> Fault {
    Fault::run_before(move |_| act()).on(|call| counted(call).is_some()).once()
}

/// Proves the followers' part of K19.
#[test]
fn what_happened_while_nobody_followed_is_counted_afterwards() {
    let clock = ManualClock::default();
    let larder = Larder::on(memory_store(&clock), clock);
    larder.save(0..120);
    assert_eq!(larder.count(), 0);
    larder.catch_up();
    assert_eq!(larder.count(), 120);
    larder.catch_up();
    assert_eq!(larder.count(), 120, "nothing is counted twice");

    // Away again, and there are two when it is back, and a server.
    larder.unsave(0..30);
    larder.save(120..150);
    larder.unsave(140..150);
    let other = Nagaya::open(design(), Arc::clone(&larder.store));
    let (mine, other) = larder.runtime.block_on(async { tokio::join!(catch_up(&larder.nagaya), catch_up(&other)) });
    mine.and(other).expect("both follow");
    assert_eq!(larder.count(), 110);
    larder.unsave(30..31);
    let server = TestServer::builder(system()).store(Arc::clone(&larder.store), &larder.clock).start();
    counts_to(&server, &json!({ "recipeId": "r_01" }), 109);
}

/// Proves the many-at-once part of K19: a burst is a few writes, not one for each save.
#[test]
fn a_burst_of_saves_moves_the_item_a_few_times() {
    let clock = ManualClock::default();
    let larder = Larder::on(memory_store(&clock), clock);
    larder.catch_up();
    larder.save(0..200);
    larder.catch_up();
    let page =
        larder.runtime.block_on(larder.of("ann").get("creator_recipe", &["ann", AT, "r_01"])).expect("it is there");
    assert_eq!(page.json("savedCount"), Some(json!(200)));
    assert!(page.version().expect("it has one") <= 1 + 6, "{:?}", page.version());
    let popular = larder.runtime.block_on(larder.of("ann").list(&List::by("catalog_recipes_popular"))).expect("a page");
    assert_eq!(popular.records.first().and_then(|first| first.json("savedCount")), Some(json!(200)));
}

/// Proves the lost changes' part of K19.
#[test]
fn where_changes_are_lost_everything_is_looked_at() {
    let clock = ManualClock::default();
    let options = Options { clock: clock.clock(), sweep_interval: None, ..Options::default() };
    let store = Arc::new(EmbeddedStore::in_memory(options).expect("memory"));
    let larder = Larder::on(Arc::clone(&store) as Arc<dyn Store>, clock);
    larder.save(0..50);
    let soup = json!({ "recipeId": "r_03", "title": "豚汁" });
    larder.runtime.block_on(larder.of("ann").create("recipe", fields(soup))).expect("it is made");
    larder.catch_up();
    let terms = || {
        let list = List::by("search_terms").with("kind", "RECIPE").with("term", "豚汁");
        larder.runtime.block_on(larder.of("ann").list(&list)).expect("a page").records.len()
    };
    assert_eq!(terms(), 1);
    larder.runtime.block_on(larder.of("ann").delete("recipe", &["r_03"], None)).expect("it was there");
    larder.unsave(0..20);
    larder.save(50..55);
    // What happened is kept for a week; nobody looked.
    larder.clock.advance(Duration::from_secs(15 * 24 * 3_600));
    larder.runtime.block_on(store.sweep()).expect("it is swept");
    larder.catch_up();
    assert_eq!(larder.count(), 35, "also those who let go and left nothing behind are known");
    assert_eq!(terms(), 0, "what is gone is not found");

    // A count that somebody has made wrong is mended then as well.
    let wrong = larder.of("ann");
    let wrong = wrong.update("creator_recipe", &["ann", AT, "r_01"], fields(json!({ "savedCount": 77 })), None);
    larder.runtime.block_on(wrong).expect("it is written");
    larder.catch_up();
    assert_eq!(larder.count(), 77);
    larder.forget();
    larder.catch_up();
    assert_eq!(larder.count(), 35);
}

/// Proves the twice and late part of K19.
#[test]
fn changes_that_come_again_change_nothing() {
    let clock = ManualClock::default();
    let larder = Larder::on(memory_store(&clock), clock);
    let mut truth: BTreeMap<usize, bool> = BTreeMap::new();
    let mut chance = Chance::new(7);
    for round in 0..20 {
        for _ in 0..10 {
            let user = chance.below(12);
            match truth.insert(user, !truth.get(&user).copied().unwrap_or_default()) {
                Some(true) => larder.unsave(user..user + 1),
                _ => larder.save(user..user + 1),
            }
        }
        if chance.below(3) == 0 {
            larder.forget();
        }
        larder.catch_up();
        let saved = truth.values().filter(|saved| **saved).count();
        assert_eq!(larder.count(), saved, "round {round}");
    }
}

/// Proves the looking again part of K19: one has read that something is saved, and is held up; it is let go, which another one
/// sees and finds right, because nothing is counted yet; then the first one counts.
#[test]
fn whoever_has_counted_looks_again() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let larder = Larder::on(store.clone(), clock);
    larder.catch_up();
    larder.save(0..1);
    let other = larder.nagaya.clone();
    let interrupted = store.inject(before_counting(move || {
        let other = other.clone();
        async move {
            let user = other.tenant(&Principal::new("u0", "u0")).expect("a user");
            user.delete("saved_recipe", &["r_01"], None).await.expect("it was saved");
            catch_up(&other).await.expect("it follows");
        }
    }));
    larder.catch_up();
    assert_eq!(interrupted.hits(), 1);
    assert_eq!(larder.count(), 0);
}

/// The same where it is withdrawn just before it is counted: nothing counts any more, and nothing is in the way.
#[test]
fn what_is_withdrawn_while_it_is_counted_is_counted_no_more() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let larder = Larder::on(store.clone(), clock);
    larder.catch_up();
    larder.save(0..3);
    let ann = larder.of("ann");
    let interrupted = store.inject(before_counting(move || {
        let ann = ann.clone();
        async move {
            ann.delete("creator_recipe", &["ann", AT, "r_01"], None).await.expect("it was published");
        }
    }));
    larder.catch_up();
    assert_eq!(interrupted.hits(), 1);
    larder.unsave(0..3);
    larder.catch_up();
    let page = larder.runtime.block_on(larder.of("ann").get("creator_recipe", &["ann", AT, "r_01"]));
    page.expect_err("it stays withdrawn");
}

/// Proves the others' part of K19: what cannot be counted is in nobody's way, and is counted when it can be.
#[test]
fn one_that_cannot_be_counted_does_not_stop_the_others() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let larder = Larder::on(store.clone(), clock);
    larder.catch_up();
    let refused = Fault::fail_before(|| ErrorKind::Busy.into());
    let refused = store.inject(refused.on(|call| counted(call).is_some_and(|key| key.contains("r_02"))));
    larder.save_of("r_02", 0..2);
    larder.save(0..3);
    larder.catch_up();
    larder.save(3..5);
    larder.catch_up();
    assert_eq!((larder.count(), larder.count_of("r_02")), (json!(5), json!(0)));

    // The next change of the same one is counted, and when all is looked at, all.
    refused.remove();
    larder.save_of("r_02", 2..3);
    larder.catch_up();
    assert_eq!(larder.count_of("r_02"), 1);
    larder.forget();
    larder.catch_up();
    assert_eq!((larder.count(), larder.count_of("r_02")), (json!(5), json!(3)));
}
