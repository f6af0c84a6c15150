//! The seam: the product's own routes, and what it does beside them.

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_server::{Extension, Later, OwnRoute, Stop};
use nagaya_store::Measurement;
use nagaya_tenancy::{Error, FollowerStatus, List, Nagaya, Record, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::{
    archive, catalog, fridge, notifications, payments, payments::Payments, plans, push, reconciler, search, shares,
    shopping,
};

/// Changes that one set holds at most, with room for what goes with them.
pub(crate) const AT_ONCE: usize = 90;
/// Records of the largest page.
const LARGEST: usize = nagaya_design::MAX_PAGE;

/// The product as the server sees it.
pub(crate) struct Seam {
    pub(crate) design: Design,
    pub(crate) payments: Arc<dyn Payments>,
    /// How far what follows the changes is.
    pub(crate) followers: FollowerStatus,
}

impl Extension for Seam {
    fn routes(&self) -> Vec<OwnRoute> {
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

    /// Keeps saved counts and the search in step with what is written.
    fn background(&self, nagaya: Nagaya, stop: Stop) -> Option<Later<'static, ()>> {
        Some(Box::pin(reconciler::run(nagaya, stop, self.followers.clone())))
    }

    /// How far saved counts and the search are behind.
    fn measurements<'a>(&'a self, nagaya: &'a Nagaya) -> Later<'a, Vec<Measurement>> {
        let measured = self.followers.measurements("counts_and_search", nagaya.clock().millis());
        Box::pin(std::future::ready(measured))
    }
}

/// The schema of an entity's items in the OpenAPI document.
pub(crate) fn item(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schema of a list of an entity's items.
pub(crate) fn items(name: &str) -> Json {
    json!({ "type": "array", "items": item(name) })
}

/// The fields of an object.
pub(crate) fn fields(object: Json) -> Map<String, Json> {
    match object {
        Json::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Whether a change has lost a race: what it goes by is no longer as it was read.
pub(crate) fn is_lost_race(error: &Error) -> bool {
    error.is_conflict() || error.is_not_found()
}

/// Everything that a list gives, page by page.
pub(crate) async fn all(tenant: &Tenant, list: &List) -> Result<Vec<Record>, Error> {
    let list = list.clone().limit(LARGEST);
    let mut page = tenant.list(&list).await?;
    let mut records = page.records;
    while let Some(next) = page.next {
        page = tenant.list(&list.clone().cursor(next)).await?;
        records.append(&mut page.records);
    }
    Ok(records)
}
