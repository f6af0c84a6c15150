//! The extension: custom routes, background work and measurements.

use nagaya_design::Design;
use nagaya_server::{Call, CustomRoute, Document, Extension, ExtensionFuture, Problem, StopSignal};
use nagaya_store::Measurement;
use nagaya_tenancy::{Error, List, Nagaya, Record, Retry, SubscriptionStatus, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::{
    archive, catalog, fridge, notifications, payments, payments::PaymentSettings, plans, push, reconciler, search,
    shares, shopping,
};

/// The most changes of one change set, with room for index and audit records.
pub(crate) const MAX_CHANGES: usize = 90;
/// Records of the largest page.
const MAX_PAGE: usize = nagaya_design::MAX_PAGE;

/// The extension of the system.
pub(crate) struct KondateExtension {
    pub(crate) design: Design,
    pub(crate) payments: PaymentSettings,
    /// The progress of the change subscriptions.
    pub(crate) subscription_status: SubscriptionStatus,
}

impl Extension for KondateExtension {
    fn routes(&self) -> Vec<CustomRoute> {
        let design = &self.design;
        [
            plans::routes(design),
            shopping::routes(design),
            fridge::routes(),
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

    /// Makes previews of paid items for those who have not paid.
    fn restrict<'a>(
        &'a self,
        call: &'a Call,
        records: &'a mut [Record],
    ) -> Option<ExtensionFuture<'a, Result<(), Problem>>> {
        Some(Box::pin(catalog::preview::restrict(call, records)))
    }

    fn customize_openapi(&self, document: &mut Document) {
        catalog::preview::customize_openapi(document);
    }

    /// Updates saved counts and the search index after writes.
    fn background(&self, nagaya: Nagaya, stop: StopSignal) -> Option<ExtensionFuture<'static, ()>> {
        Some(Box::pin(reconciler::run(nagaya, stop, self.subscription_status.clone())))
    }

    /// The lag of saved counts and of the search index.
    fn measurements<'a>(&'a self, nagaya: &'a Nagaya) -> ExtensionFuture<'a, Vec<Measurement>> {
        let measured = self.subscription_status.measurements("counts_and_search", nagaya.clock().millis());
        Box::pin(std::future::ready(measured))
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

/// All records of a list.
pub(crate) async fn list_all(tenant: &Tenant, list: &List) -> Result<Vec<Record>, Error> {
    let list = list.clone().limit(MAX_PAGE);
    let mut page = tenant.list(&list).await?;
    let mut records = page.records;
    while let Some(next) = page.next {
        page = tenant.list(&list.clone().cursor(next)).await?;
        records.append(&mut page.records);
    }
    Ok(records)
}
