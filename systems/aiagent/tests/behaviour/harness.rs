//! The product on a test server, and helpers for all tests.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use nagaya_design::{Design, Verb, check};
use nagaya_store::{Error, Item, Key, Store, Write, WriteAction};
use nagaya_tenancy::{IdGenerator, Principal, Settings};
use nagaya_testing::{
    Call, Client, Fault, InstrumentedStore, ManualClock, TestServer, TestServerBuilder, memory_store,
};
use serde_json::{Value as Json, json};

use crate::samples::Sample;

/// The value of `{base}` in table names, as in the documents.
pub(crate) const BASE: &str = "aiagent-dev";

/// A design of the product: `single` or `multi`.
pub(crate) fn design(name: &str) -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("design/{name}.toml"));
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

/// The product with its API below `/v1`.
pub(crate) fn builder(design_name: &str, clock: &ManualClock) -> TestServerBuilder {
    let ids = IdGenerator::sequential();
    let system = nagaya_aiagent::system_with("aiagent", design(design_name), clock.clock(), ids.clone());
    let (base, index_lag) = (Some(BASE.to_owned()), Duration::from_millis(100));
    let settings = Settings { base, ids, index_lag, ..Settings::default() };
    TestServer::builder(system).settings(settings).path_prefix("/v1")
}

/// The product on a store.
pub(crate) fn serve(design_name: &str, store: Arc<dyn Store>, clock: &ManualClock) -> TestServer {
    builder(design_name, clock).store(store, clock).start()
}

/// The product on a store in memory.
pub(crate) fn in_memory(design_name: &str) -> TestServer {
    let clock = ManualClock::default();
    serve(design_name, memory_store(&clock), &clock)
}

/// The product on a store in memory that injects faults.
pub(crate) fn instrumented(design_name: &str) -> (TestServer, Arc<InstrumentedStore>) {
    let (server, store, _) = with_another_writer(design_name);
    (server, store)
}

/// The same, with the store in memory, for another writer.
pub(crate) fn with_another_writer(design_name: &str) -> (TestServer, Arc<InstrumentedStore>, Arc<dyn Store>) {
    let clock = ManualClock::default();
    let memory = memory_store(&clock);
    let store = InstrumentedStore::new(Arc::clone(&memory));
    (serve(design_name, store.clone(), &clock), store, memory)
}

/// Another writer, who is faster with so many updates of an item of the single table: its version is another one then.
pub(crate) fn faster_writer(memory: &Arc<dyn Store>, item: Key, updates: usize) -> Fault {
    let (memory, version) = (Arc::clone(memory), Arc::new(AtomicI64::new(1_000)));
    let (left, updated) = (AtomicUsize::new(updates), item.clone());
    let change = move |_: &Call| {
        let (memory, item) = (Arc::clone(&memory), item.clone());
        let version = version.fetch_add(1, Ordering::SeqCst);
        async move {
            let table = format!("{BASE}-app");
            let found = memory.get(&table, &item).await.expect("the table is there").expect("the item is there");
            memory.write(Write::put(table, found.with("version", version)).into()).await.expect("it is written");
        }
    };
    let is_left = move || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    Fault::run_before(change).matching(move |call| updates_item(call, &updated) && is_left())
}

/// The store fails at each update of an item.
pub(crate) fn failing_updates(item: Key) -> Fault {
    Fault::fail_before(|| Error::engine("the disk is broken")).matching(move |call| updates_item(call, &item))
}

fn updates_item(call: &Call, item: &Key) -> bool {
    call.writes().iter().any(|write| matches!(&write.action, WriteAction::Update { key, .. } if key == item))
}

/// A fault, once, at the write that creates a tenant.
pub(crate) fn at_tenant_creation(fault: fn(fn() -> Error) -> Fault) -> Fault {
    let is_tenant = |item: &Item| item.get("GSI1PK").and_then(|value| value.as_str()) == Some("TENANT");
    let creates = move |call: &Call| {
        call.writes().iter().any(|write| matches!(&write.action, WriteAction::Put { item } if is_tenant(item)))
    };
    fault(|| Error::engine("the process has ended")).matching(creates).once()
}

/// Creates an item as the platform's own code does, for entities that the API only reads. Only the layer itself writes entries of
/// the audit: they are put into the store.
pub(crate) fn create_directly(server: &TestServer, tenant: &str, entity: &str, fields: &Json) -> Json {
    let design = server.nagaya.design();
    let declared = design.entity(entity).expect("an entity");
    if design.holds_audit_entries(declared) {
        let mut fields = fields.as_object().cloned().expect("an object");
        fields.insert("tenantId".to_owned(), tenant.into());
        let text = |value: &Json| value.as_str().expect("a text").to_owned();
        let mut item: Item = fields.iter().map(|(name, value)| (name.clone(), text(value).into())).collect();
        for (attribute, value) in design.derived_attributes(declared, &fields) {
            value.expect("a key").into_iter().for_each(|value| item.insert(&attribute, value));
        }
        if let (Some(attribute), Some(value)) = (&design.table_of(declared).discriminator, &declared.discriminator) {
            item.insert(attribute, value.as_str());
        }
        let table = design.table_of(declared).physical_name(BASE);
        server.block_on(server.store.write(Write::put(table, item).into())).expect("it is written");
        return Json::Object(fields);
    }
    let tenant = server.nagaya.tenant(&Principal::new(tenant, "worker-1")).expect("a tenant");
    let fields = fields.as_object().cloned().expect("an object");
    Json::Object(server.block_on(tenant.create(entity, fields)).expect("it is created").to_json())
}

/// Creates the sample of an entity: through the API, or directly where the API has no route for it.
pub(crate) fn create_sample(server: &TestServer, client: &Client<'_>, tenant: &str, sample: &Sample) -> Json {
    let design = server.nagaya.design();
    let entity = design.entity(sample.entity).expect("an entity");
    match entity.routes.contains(&Verb::Create) && !design.holds_audit_entries(entity) {
        true => client.post(&entity.path, &sample.new).expect_data(201),
        false => create_directly(server, tenant, sample.entity, &sample.new),
    }
}

/// An invitation, as a tenant's admin makes it: its body with the id and the user, and the hash of [`SECRET`].
pub(crate) fn invitation(id: &str, user: &str) -> Json {
    json!({
        "tokenId": id,
        "purpose": "invitation",
        "userId": user,
        "tokenHash": "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "expiresAt": ManualClock::START / 1_000 + 3_600,
    })
}

/// The secret of an invitation.
pub(crate) const SECRET: &str = "secret";

/// Invites a user of a tenant, who accepts; the user record.
pub(crate) fn invite(server: &TestServer, tenant: &str, user: &str) -> Json {
    let id = format!("invitation-{tenant}-{user}");
    server.admin(tenant).post("/tokens", &invitation(&id, user)).expect_data(201);
    let acceptance = json!({ "tenantId": tenant, "secret": SECRET });
    server.user_without_tenant(user).post(&format!("/invitations/{id}/accept"), &acceptance).expect_data(200)
}

/// Clients that most tests need.
pub(crate) trait Clients {
    /// An administrator of a tenant.
    fn admin(&self, tenant: &str) -> Client<'_>;
}

impl Clients for TestServer {
    fn admin(&self, tenant: &str) -> Client<'_> {
        self.user_with(tenant, "admin-1", &["admin"])
    }
}

/// WaitForLists from an index that lags behind its table.
pub(crate) trait WaitForLists {
    /// The list, as soon as it has this many items.
    fn wait_for_list(&self, path: &str, count: usize) -> Vec<Json>;
}

impl WaitForLists for Client<'_> {
    #[track_caller]
    fn wait_for_list(&self, path: &str, count: usize) -> Vec<Json> {
        let has_all = |list: &Json| list.as_array().is_some_and(|list| list.len() == count);
        self.get_until(path, |response| response.status != 200 || has_all(&response.body["data"])).list()
    }
}
