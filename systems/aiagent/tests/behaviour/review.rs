//! Reviews that break off, and reviews that meet.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use nagaya_embedded::{Embedded, Options};
use nagaya_store::{
    Action, Answer, Capabilities, Changes, Error, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet,
    Written,
};
use serde_json::{Value as Json, json};

use crate::house::{House, Time};

/// A store that breaks off when a tenant is made, as if the process had ended: before the write, or after it, before anybody
/// knows.
struct Breaking {
    store: Embedded,
    before: AtomicBool,
    after: AtomicBool,
}

impl Store for Breaking {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.store.ensure(tables)
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        self.store.get(table, key)
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        self.store.batch_get(keys)
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        self.store.query(query)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.store.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        let makes_tenant = |item: &Item| item.get("GSI1PK").and_then(|value| value.as_str()) == Some("TENANT");
        let makes =
            set.actions().iter().any(|write| matches!(&write.action, Action::Put { item } if makes_tenant(item)));
        Box::pin(async move {
            if makes && self.before.swap(false, Ordering::SeqCst) {
                return Err(Error::engine("the process has ended"));
            }
            let written = self.store.write(set).await;
            if makes && self.after.swap(false, Ordering::SeqCst) {
                return Err(Error::engine("the process has ended"));
            }
            written
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(table, from, limit)
    }
}

fn breaking(design: &str) -> (House, Arc<Breaking>) {
    let time = Time::new();
    let store = Embedded::memory(Options { clock: time.clock(), ..Options::default() }).expect("memory");
    let store = Arc::new(Breaking { store, before: AtomicBool::new(false), after: AtomicBool::new(false) });
    (House::serve(design, Arc::<Breaking>::clone(&store), time), store)
}

/// Somebody applies; the path of the application.
fn applied(house: &House, user: &str) -> String {
    let said = json!({ "tenantName": user, "applicantName": user, "applicantEmail": format!("{user}@example.com") });
    let application = house.stranger(user).post("/tenant-applications", &said).data(201);
    format!("/tenant-applications/{}", application["applicationId"].as_str().expect("an id"))
}

/// The tenant has its item, its first user and its policy.
fn is_open(house: &House, tenant: &str, user: &str) {
    let admin = house.user(tenant, user, &["admin"]);
    assert_eq!(admin.get("/tenants").data(200)["name"], user);
    let users = admin.get("/users").list();
    assert_eq!((users.len(), &users[0]["userId"], &users[0]["role"]), (1, &json!(user), &json!("admin")));
    assert_eq!(admin.get("/permission-policies").data(200)["roles"]["admin"], json!(["*"]));
}

/// Proves the review's part of M8.
#[test]
fn an_approval_that_broke_off_is_completed_by_approving_again() {
    for design in ["single", "multi"] {
        let (house, store) = breaking(design);
        let operator = house.operator("op-1");
        // Before the tenant was made.
        let path = applied(&house, "ren");
        store.before.store(true, Ordering::SeqCst);
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t1" })).problem(500, "internal");
        assert_eq!(operator.get(&path).data(200)["createdTenantId"], "t1", "it is decided");
        house.admin("t1").get("/tenants").problem(404, "not_found");
        operator.post(&format!("{path}/reject"), &json!({})).problem(409, "not_pending");
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t2" })).problem(409, "not_pending");
        let completed = operator.post(&format!("{path}/approve"), &json!({})).data(200);
        assert_eq!((&completed["status"], &completed["createdTenantId"]), (&json!("approved"), &json!("t1")));
        is_open(&house, "t1", "ren");
        house.admin("t2").get("/tenants").problem(404, "not_found");

        // After it was made, before anybody knew.
        let path = applied(&house, "mio");
        store.after.store(true, Ordering::SeqCst);
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t3" })).problem(500, "internal");
        house.operator("op-2").post(&format!("{path}/approve"), &json!({})).problem(409, "not_pending");
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t3" })).data(200);
        is_open(&house, "t3", "mio");

        // By another operator, when the first one is gone.
        let path = applied(&house, "sora");
        store.before.store(true, Ordering::SeqCst);
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t4" })).problem(500, "internal");
        let completed = house.operator("op-2").post(&format!("{path}/approve"), &json!({})).data(200);
        assert_eq!(completed["reviewedBy"], "op-1");
        is_open(&house, "t4", "sora");

        // Somebody else got the id meanwhile: the application is to be reviewed again.
        let (early, late) = (applied(&house, "aoi"), applied(&house, "yui"));
        store.before.store(true, Ordering::SeqCst);
        operator.post(&format!("{early}/approve"), &json!({ "tenantId": "t5" })).problem(500, "internal");
        operator.post(&format!("{late}/approve"), &json!({ "tenantId": "t5" })).data(200);
        operator.post(&format!("{early}/approve"), &json!({})).problem(409, "taken");
        let again = operator.get(&early).data(200);
        assert_eq!(again["status"], "pending");
        assert_eq!((again.get("createdTenantId"), again.get("reviewedBy")), (None, None));
        operator.post(&format!("{early}/approve"), &json!({ "tenantId": "t6" })).data(200);
        is_open(&house, "t5", "yui");
        is_open(&house, "t6", "aoi");
    }
}

/// Asks side by side; the answers' status and code.
fn at_once(house: &House, asked: Vec<(String, String, Json)>) -> Vec<(u16, String)> {
    thread::scope(|scope| {
        let asking = asked.iter().map(|(user, path, body)| {
            scope.spawn(move || {
                let answer = house.operator(user).ask("POST", path, Some(body));
                (answer.status, answer.body["code"].as_str().unwrap_or_default().to_owned())
            })
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    })
}

/// Proves the review's part of M8.
#[test]
fn of_many_reviews_at_once_one_counts() {
    let house = House::in_memory("single");
    let operator = house.operator("op");
    for round in 0..5 {
        let path = applied(&house, "ren");
        let review = |nth: usize| match nth % 3 {
            0 => (format!("op-{nth}"), format!("{path}/reject"), json!({})),
            _ => (format!("op-{nth}"), format!("{path}/approve"), json!({ "tenantId": format!("t{round}-{nth}") })),
        };
        let answers = at_once(&house, (0..9).map(review).collect());
        let fine = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(fine, 1, "{answers:?}");
        let over = (409, "not_pending".to_owned());
        assert!(answers.iter().all(|answer| answer.0 == 200 || *answer == over), "{answers:?}");
        let made = (0..9).filter(|nth| house.admin(&format!("t{round}-{nth}")).get("/tenants").status == 200);
        let approved = operator.get(&path).data(200)["status"] == "approved";
        assert_eq!(made.count(), usize::from(approved));
    }
}

/// Proves the review's part of M8.
#[test]
fn of_many_applications_for_one_id_one_gets_it() {
    let house = House::in_memory("single");
    let operator = house.operator("op");
    for round in 0..5 {
        let tenant = format!("t{round}");
        let paths: Vec<_> = (0..6).map(|nth| applied(&house, &format!("user-{nth}"))).collect();
        let review = |path: &String| ("op".to_owned(), format!("{path}/approve"), json!({ "tenantId": tenant }));
        let answers = at_once(&house, paths.iter().map(review).collect());
        let fine = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(fine, 1, "{answers:?}");
        for (path, (status, code)) in paths.iter().zip(&answers) {
            let application = operator.get(path).data(200);
            match status {
                200 => assert_eq!(application["createdTenantId"], json!(tenant)),
                _ => assert_eq!((code.as_str(), &application["status"]), ("taken", &json!("pending")), "{application}"),
            }
        }
        assert_eq!(house.admin(&tenant).get("/users").list().len(), 1);
    }
}

#[test]
fn a_task_that_many_change_at_once_is_completed_exactly_when_it_is_done() {
    let house = House::in_memory("single");
    let member = house.user("t1", "u1", &["member"]);
    member.post("/tasks", &json!({ "taskId": "k1", "userId": "u1", "title": "a" })).data(201);
    thread::scope(|scope| {
        for nth in 0..6 {
            let member = &member;
            scope.spawn(move || {
                for _ in 0..20 {
                    let status = if nth % 2 == 0 { "done" } else { "open" };
                    let task = member.ask("PATCH", "/tasks/k1", Some(&json!({ "status": status }))).data(200);
                    assert_eq!(task["status"], status);
                    assert_eq!(task.get("completedAt").is_some(), status == "done", "{task}");
                }
            });
        }
    });
}
