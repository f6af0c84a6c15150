//! Search: recipes and sets by what is written in them, one's own and the catalog's.
//!
//! [`reconcile`] makes postings match the items; the reconciler calls it for each change. A query reads the postings of its
//! terms, and then the items with the most of them. Postings are items of the table: no other service is needed.

mod index;
mod query;
mod ranking;
mod terms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, CustomRoute, Problem, RequiredCaller};
use nagaya_tenancy::Page;
use serde_json::{Value as Json, json};

pub(crate) use self::index::reconcile;
use self::query::{Pace, SearchScope};
use crate::{product::item_schema, turns::Turns};

/// Characters of the longest question.
const MAX_QUERY_CHARS: usize = 100;
/// Items of an answer, unless the caller says how many.
const DEFAULT_LIMIT: usize = 20;
/// Items of the largest answer.
const MAX_LIMIT: usize = 100;

/// Items that can be searched.
struct Collection {
    entity: &'static str,
    /// What its postings call it.
    kind: &'static str,
    /// The list of its items, and where it is.
    access: &'static str,
    path: &'static str,
    schema: &'static str,
    /// The field with what it is made of, and the text in each of these.
    parts: (&'static str, &'static str),
    /// Whether it is the catalog's.
    public: bool,
}

static COLLECTIONS: [Collection; 4] = [
    Collection {
        entity: "recipe",
        kind: "RECIPE",
        access: "recipes",
        path: "/recipes",
        schema: "Recipe",
        parts: ("ingredients", "name"),
        public: false,
    },
    Collection {
        entity: "set",
        kind: "SET",
        access: "sets",
        path: "/sets",
        schema: "Set",
        parts: ("items", "title"),
        public: false,
    },
    Collection {
        entity: "catalog_recipe",
        kind: "RECIPE",
        access: "catalog_recipes",
        path: "/catalog/recipes",
        schema: "CatalogRecipe",
        parts: ("ingredients", "name"),
        public: true,
    },
    Collection {
        entity: "catalog_set",
        kind: "SET",
        access: "catalog_sets",
        path: "/catalog/sets",
        schema: "CatalogSet",
        parts: ("items", "title"),
        public: true,
    },
];

impl Collection {
    fn of_entity(entity: &str) -> Option<&'static Collection> {
        COLLECTIONS.iter().find(|collection| collection.entity == entity)
    }

    /// The entity of its postings.
    fn postings(&self) -> &'static str {
        if self.public { "catalog_term" } else { "search_term" }
    }

    /// The lists of its postings: of a term, and of all that begin with a character.
    fn access_patterns(&self) -> (&'static str, &'static str) {
        if self.public {
            ("catalog_terms", "catalog_terms_beginning_with")
        } else {
            ("search_terms", "search_terms_beginning_with")
        }
    }

    fn summary(&self) -> String {
        let of = if self.public { "published" } else { "one's own" };
        format!("Lists {of} {}s, newest first; with `q`, those that answer it best.", self.kind.to_lowercase())
    }
}

pub(crate) fn routes() -> Vec<CustomRoute> {
    // Everyone may search the catalog: users search their own items beside it.
    let (own, catalog) = (Arc::new(Turns::default()), Arc::new(Turns::default()));
    let turns = |collection: &Collection| Arc::clone(if collection.public { &catalog } else { &own });
    COLLECTIONS.iter().map(|collection| route(collection, turns(collection))).collect()
}

fn route(collection: &'static Collection, turns: Arc<Turns>) -> CustomRoute {
    let reach = if collection.public { RequiredCaller::Public } else { RequiredCaller::Tenant };
    let handler = move |call| {
        let turns = Arc::clone(&turns);
        async move { list_or_search(&call, collection, &turns).await }
    };
    CustomRoute::new(Method::GET, collection.path, &collection.summary(), handler)
        .requires_permission(collection.entity, Verb::Read)
        .caller(reach)
        .parameter(query_parameter_schema())
        .parameter(limit())
        .parameter(order())
        .parameter(json!({ "$ref": "#/components/parameters/Cursor" }))
        .answers_pages_of(item_schema(collection.schema))
}

/// Lists as the design says, or answers a question.
async fn list_or_search(call: &Arc<Call>, collection: &'static Collection, turns: &Turns) -> Result<Answer, Problem> {
    let page = match call.query_parameter("q") {
        None => call.list(collection.access, &[]).await?,
        Some(question) => search_page(call, collection, question, turns).await?,
    };
    Ok(Answer::page(page))
}

async fn search_page(
    call: &Call,
    collection: &'static Collection,
    question: &str,
    turns: &Turns,
) -> Result<Page, Problem> {
    let mut seen = Vec::new();
    for (name, _) in &call.query {
        let wrong = match name.as_str() {
            _ if seen.contains(&name) => "Is given twice.",
            "q" | "limit" | "order" => "",
            "cursor" => "Does not go with `q`: ask for more with `limit`, or for less with a longer `q`.",
            _ => "Is not a parameter of this list.",
        };
        if !wrong.is_empty() {
            return Err(Problem::bad_parameter(name, wrong));
        }
        seen.push(name);
    }
    if question.chars().count() > MAX_QUERY_CHARS {
        return Err(Problem::bad_parameter("q", format!("Has to have at most {MAX_QUERY_CHARS} characters.")));
    }
    if question.is_empty() {
        return Err(Problem::bad_parameter("q", "Is empty; leave it out to list everything."));
    }
    // Signs alone are in no answer.
    let wanted = terms::query_terms(question);
    let limit = match call.query_parameter("limit") {
        None => DEFAULT_LIMIT,
        Some(text) => {
            let limit = text.parse::<usize>().ok().filter(|limit| (1..=1_000).contains(limit));
            limit.ok_or_else(|| Problem::bad_parameter("limit", "Has to be a whole number from 1 to 1000."))?
        }
    };
    let oldest_first = match call.query_parameter("order") {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(Problem::bad_parameter("order", "Has to be `asc` or `desc`.")),
    };
    let scope = if collection.public { SearchScope::Catalog(call.visitor()) } else { SearchScope::Own(call.tenant()?) };
    let _turn = turns.wait(call).await?;
    let limit = limit.min(MAX_LIMIT);
    let records = query::search(&scope, collection, &wanted, (limit, oldest_first), &Pace::default()).await?;
    Ok(Page { records, next: None, count: None })
}

fn query_parameter_schema() -> Json {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS });
    let description = "Words or parts of words, in any width, case and kana. What has most of it comes first, in titles \
                       before tags and ingredients before descriptions. The first 20 without `limit`, at most 100 and 2 MiB, no cursor.";
    json!({ "name": "q", "in": "query", "description": description, "schema": schema, "example": "しょうが焼き" })
}

fn limit() -> Json {
    let schema = json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 });
    json!({ "name": "limit", "in": "query", "description": "The most items of a page.", "schema": schema })
}

fn order() -> Json {
    let schema = json!({ "type": "string", "enum": ["asc", "desc"], "default": "desc" });
    let description = "From the start or from the end; with `q`, which of two equally good answers comes first.";
    json!({ "name": "order", "in": "query", "description": description, "schema": schema })
}
