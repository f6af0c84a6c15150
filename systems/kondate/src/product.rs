//! The extension: custom routes, and what is derived from changes.

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_server::{Answer, Call, CustomRoute, Document, Extension, ExtensionFuture, Problem};
use nagaya_tenancy::{ChangeConsumer, Error, List, Nagaya, Record, Retry, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::{
    archive, catalog, categories, fridge, notifications, payments, payments::PaymentSettings, plans, push,
    reconciler::Reconciler, replacing, search, shares, shopping,
};

/// The most changes of one change set, with room for index and audit records.
pub(crate) const MAX_CHANGES: usize = 90;
/// Records that are read at once where all of a list are needed.
const PAGE_SIZE: usize = 100;

/// The extension of the system.
pub(crate) struct KondateExtension {
    pub(crate) design: Design,
    pub(crate) payments: PaymentSettings,
}

impl Extension for KondateExtension {
    fn routes(&self) -> Vec<CustomRoute> {
        let design = &self.design;
        [
            replacing::routes(design),
            plans::routes(design),
            shopping::routes(design),
            fridge::routes(),
            categories::routes(design),
            archive::routes(),
            notifications::routes(),
            push::routes(design),
            catalog::routes(design),
            shares::routes(design),
            search::routes(),
            payments::routes(design, &self.payments),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Takes the slots of plans in either case.
    fn before<'a>(&'a self, call: &'a mut Call) -> ExtensionFuture<'a, Result<Option<Answer>, Problem>> {
        plans::normalize_slots(call);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Says of catalog items what is not stored in them, and makes previews of paid items for those who have not paid.
    fn restrict<'a>(
        &'a self,
        call: &'a Call,
        records: &'a mut [Record],
    ) -> Option<ExtensionFuture<'a, Result<(), Problem>>> {
        Some(Box::pin(async {
            catalog::completed::complete(call, records).await?;
            catalog::preview::restrict(call, records).await
        }))
    }

    fn customize_openapi(&self, document: &mut Document) {
        catalog::preview::customize_openapi(document);
        catalog::completed::customize_openapi(document);
    }

    /// Saved counts and the search index.
    fn consumers(&self, nagaya: &Nagaya) -> Vec<Arc<dyn ChangeConsumer>> {
        vec![Arc::new(Reconciler::new(nagaya))]
    }
}

/// The schema of an entity's items in the OpenAPI document.
pub(crate) fn item_schema(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schema of a list of an entity's items.
pub(crate) fn items_schema(name: &str) -> Json {
    json!({ "type": "array", "items": item_schema(name) })
}

/// The fields of an object.
pub(crate) fn object_fields(object: Json) -> Map<String, Json> {
    match object {
        Json::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// An object with these fields.
pub(crate) fn object_from_fields(fields: impl IntoIterator<Item = (String, Json)>) -> Map<String, Json> {
    // Collecting would compile a sort for each iterator.
    let mut object = Map::new();
    object.extend(fields);
    object
}

/// Repeats an attempt while another writer is faster.
pub(crate) async fn retry_lost_races<T, F>(attempt: impl Fn() -> F) -> Result<T, Problem>
where
    F: Future<Output = Result<Option<T>, Problem>>,
{
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        if let Some(done) = attempt().await? {
            return Ok(done);
        }
    }
}

/// The result of a write; `None` if another writer was faster.
pub(crate) fn unless_lost_race<T>(written: Result<T, Error>) -> Result<Option<T>, Problem> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.is_lost_race() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// An item, if it exists.
pub(crate) async fn find(tenant: &Tenant, entity: &str, id: &[&str]) -> Result<Option<Record>, Error> {
    Ok(tenant.get_many(&[(entity, id)]).await?.into_iter().next().flatten())
}

/// Passes the records of a list on, one after the other; `false` if there are more than `max`.
///
/// There is a page in memory at a time, and other tasks have their turn after each: a store in this process answers at once.
pub(crate) async fn for_each_record(
    tenant: &Tenant,
    list: List,
    max: usize,
    mut visit: impl FnMut(&Record),
) -> Result<bool, Error> {
    let mut list = list.limit(PAGE_SIZE);
    let mut left = max;
    loop {
        let page = tenant.list(&list).await?;
        if page.records.len() > left {
            return Ok(false);
        }
        left -= page.records.len();
        page.records.iter().for_each(&mut visit);
        let Some(next) = page.next else { return Ok(true) };
        list = list.cursor(next);
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use nagaya_tenancy::Principal;
    use nagaya_testing::{InstrumentedStore, ManualClock, memory_store};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_loses_every_race_ends_with_an_error() {
        let attempts = AtomicUsize::new(0);
        let lost = retry_lost_races(|| async {
            attempts.fetch_add(1, SeqCst);
            Ok(None::<()>)
        });
        let problem = lost.await.expect_err("it never succeeds");
        assert_eq!((problem.code(), attempts.into_inner()), ("contended", 20));
    }

    #[tokio::test]
    async fn a_long_list_is_read_page_by_page_and_other_tasks_have_their_turn() {
        let store = InstrumentedStore::new(memory_store(&ManualClock::default()));
        let design = nagaya_design::check(crate::DESIGN, &[]).design.expect("a sound design");
        let nagaya = Nagaya::open(design, store.clone());
        nagaya.ensure_tables().await.expect("tables");
        let mio = nagaya.tenant_owned(Principal::new("u_01", "u_01")).expect("a user");
        let names: Vec<_> = (0..250).map(|n| format!("{n:03}")).collect();
        for (n, some) in names.chunks(MAX_CHANGES).enumerate() {
            let item =
                |name| object_fields(json!({ "itemId": format!("{}_{name}", ["a", "b", "c"][n]), "name": name }));
            let set = some.iter().fold(mio.change_set(), |set, name| set.create("fridge_item", item(name)));
            set.commit().await.expect("items");
        }
        store.take_queries();

        let fridge = || List::by("fridge_items");
        let mut seen = Vec::new();
        let is_all = for_each_record(&mio, fridge(), 250, |item| seen.extend(item.text("name").map(str::to_owned)));
        assert!(is_all.await.expect("a list"));
        assert_eq!(seen, names);
        let limits: Vec<_> = store.take_queries().iter().map(|query| query.limit).collect();
        assert_eq!(limits, [Some(100); 3]);

        assert!(!for_each_record(&mio, fridge(), 249, |_| ()).await.expect("a list"), "more than asked for");
        let mut reading = Box::pin(for_each_record(&mio, fridge(), 250, |_| ()));
        assert!(reading.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(store.take_queries().len(), 3 + 1);
    }
}
