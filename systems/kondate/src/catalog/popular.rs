//! Orders of the catalog that are indexed by the short copy, with the saved count: their answers have the complete copies.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, CustomRoute, Problem, RequiredCaller};
use nagaya_tenancy::{ErrorKind, List, MAX_PAGE_BYTES, Page, Record};
use serde_json::{Value as Json, json};

use super::{Kind, Names};
use crate::product::item_schema;

/// Items that are read at once, whatever their size.
const ITEMS_AT_ONCE: usize = 20;
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;
/// The parameter of a creator's page.
const CREATOR: &str = "creatorId";

pub(super) fn routes(kind: Kind) -> [CustomRoute; 2] {
    let Names { own, path, catalog_schema, popular, of_creator: (of_creator, page_path), .. } = kind.names();
    let route = |path: &str, summary: String, access, has_creator| {
        let route = CustomRoute::new(Method::GET, path, &summary, move |call| list(kind, access, has_creator, call))
            .requires_permission(kind.names().catalog, Verb::Read)
            .caller(RequiredCaller::Public);
        let route = if has_creator { route.parameter(creator_parameter()) } else { route };
        route
            .parameter(limit_parameter())
            .parameter(order_parameter())
            .parameter(json!({ "$ref": "#/components/parameters/Cursor" }))
            .answers_pages_of(item_schema(catalog_schema))
    };
    [
        route(&format!("/catalog{path}/popular"), format!("Published {own}s, most saved first."), *popular, false),
        route(page_path, format!("A creator's published {own}s, newest first."), *of_creator, true),
    ]
}

async fn list(kind: Kind, access: &'static str, has_creator: bool, call: Arc<Call>) -> Result<Answer, Problem> {
    let mut wanted = List::by(access);
    let mut limit = DEFAULT_LIMIT;
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in &call.query {
        if seen.contains(&name.as_str()) {
            return Err(Problem::bad_parameter(name, "Is given twice."));
        }
        seen.push(name);
        wanted = match name.as_str() {
            "limit" => {
                let given = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                limit =
                    given.ok_or_else(|| Problem::bad_parameter(name, "Has to be a whole number from 1 to 1000."))?;
                wanted
            }
            "order" if matches!(value.as_str(), "asc" | "desc") => wanted.descending(value == "desc"),
            "order" => return Err(Problem::bad_parameter(name, "Has to be `asc` or `desc`.")),
            "cursor" => wanted.cursor(value),
            CREATOR if has_creator => wanted.with(name, value),
            _ => return Err(Problem::bad_parameter(name, "Is not a parameter of this list.")),
        };
    }
    if has_creator && !seen.contains(&CREATOR) {
        return Err(Problem::bad_parameter(CREATOR, "Is missing."));
    }
    whole_items(kind, wanted, limit, &call).await.map(Answer::page)
}

/// The complete copies of a list of short ones: as many as asked for, or as fit into a page.
async fn whole_items(kind: Kind, mut wanted: List, limit: usize, call: &Call) -> Result<Page, Problem> {
    let visitor = call.visitor();
    let mut page = Page { records: Vec::new(), next: None, count: None };
    let (mut left, mut bytes) = (limit, 0);
    loop {
        let short = match visitor.list(&wanted.clone().limit(left.min(ITEMS_AT_ONCE))).await {
            Err(error) if matches!(error.kind(), ErrorKind::Invalid(_)) => {
                return Err(Problem::bad_parameter(CREATOR, "Is not the id of a user."));
            }
            short => short?,
        };
        left = left.saturating_sub(short.records.len());
        let keys: Vec<_> = short.records.iter().map(|record| key_of_copy(kind, record)).collect();
        let keys: Vec<_> = keys.iter().map(|[at, id]| [at.as_str(), id.as_str()]).collect();
        let keys: Vec<_> = keys.iter().map(|key| (kind.names().catalog, key.as_slice())).collect();
        // An index that lags behind may still have what was withdrawn.
        let copies = visitor.get_many(&keys).await?.into_iter().flatten();
        page.records.extend(copies.inspect(|copy| bytes += copy.size()));
        page.next = short.next;
        match &page.next {
            Some(next) if left > 0 && bytes < MAX_PAGE_BYTES / 2 => wanted = wanted.cursor(next),
            _ => return Ok(page),
        }
        tokio::task::yield_now().await;
    }
}

fn key_of_copy(kind: Kind, short: &Record) -> [String; 2] {
    ["createdAt", kind.names().id].map(|field| short.text(field).unwrap_or_default().to_owned())
}

fn creator_parameter() -> Json {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": 64 });
    json!({ "name": CREATOR, "in": "query", "required": true, "description": "Whose page.", "schema": schema })
}

fn limit_parameter() -> Json {
    let schema = json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT });
    json!({ "name": "limit", "in": "query", "description": "The most items of a page.", "schema": schema })
}

fn order_parameter() -> Json {
    let schema = json!({ "type": "string", "enum": ["asc", "desc"], "default": "desc" });
    json!({ "name": "order", "in": "query", "description": "From the start or from the end.", "schema": schema })
}
