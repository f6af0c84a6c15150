//! Search: recipes and sets by what is written in them, one's own and the catalog's.
//!
//! [`reconcile`] makes postings match the items; the reconciler calls it for each change. A query reads the postings of its
//! terms, and then those items that have all of them. Postings are items of the table: no other service is needed.

mod candidates;
mod index;
mod query;
mod terms;
#[cfg(test)]
mod tests;
mod words;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, CustomRoute, Problem, ProblemCode, RequiredCaller};
use nagaya_tenancy::Page;
use serde_json::{Value as Json, json};

use self::query::{Pace, Position, Question, SearchScope};
pub(crate) use self::{index::reconcile, terms::INDEX_VERSION};
use crate::{product::item_schema, reconciler, turns::Turns};

/// Characters of the longest question.
const MAX_QUERY_CHARS: usize = 100;
/// Items of an answer, unless the caller says how many.
const DEFAULT_LIMIT: usize = 20;
/// Items of the largest answer.
const MAX_LIMIT: usize = 100;
/// Characters of the longest tag and category.
const MAX_TAG_CHARS: usize = 50;
const MAX_CATEGORY_CHARS: usize = 64;

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

/// Whether the items of an entity are found by searches.
pub(crate) fn is_indexed(entity: &str) -> bool {
    Collection::of_entity(entity).is_some()
}

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

    /// What makes a list a search. Categories are those of the user's own book.
    fn search_parameters(&self) -> &'static [&'static str] {
        if self.public { &["q", "tag"] } else { &["q", "tag", "categoryId"] }
    }
}

pub(crate) fn routes() -> Vec<CustomRoute> {
    // Everyone may search the catalog: users search their own items beside it.
    let (own, catalog) = (Arc::new(Turns::default()), Arc::new(Turns::default()));
    let turns = |collection: &Collection| Arc::clone(if collection.public { &catalog } else { &own });
    let index = Arc::new(IndexState::default());
    COLLECTIONS.iter().map(|collection| route(collection, turns(collection), Arc::clone(&index))).collect()
}

/// Whether the index is known to be of this version. One that is stays so.
#[derive(Debug, Default)]
struct IndexState(AtomicBool);

impl IndexState {
    async fn is_current(&self, call: &Call) -> Result<bool, Problem> {
        if !self.0.load(Relaxed) {
            self.0.store(reconciler::has_reconciled_all(&call.unaudited_operator()).await?, Relaxed);
        }
        Ok(self.0.load(Relaxed))
    }
}

fn route(collection: &'static Collection, turns: Arc<Turns>, index: Arc<IndexState>) -> CustomRoute {
    let reach = if collection.public { RequiredCaller::Public } else { RequiredCaller::Tenant };
    let handler = move |call| {
        let (turns, index) = (Arc::clone(&turns), Arc::clone(&index));
        async move { list_or_search(&call, collection, &turns, &index).await }
    };
    let route = CustomRoute::new(Method::GET, collection.path, &collection.summary(), handler)
        .requires_permission(collection.entity, Verb::Read)
        .caller(reach)
        .parameter(query_parameter_schema())
        .parameter(tag());
    let route = if collection.public { route } else { route.parameter(category()) };
    route
        .parameter(limit())
        .parameter(order())
        .parameter(json!({ "$ref": "#/components/parameters/Cursor" }))
        .answers_pages_of(item_schema(collection.schema))
}

/// Lists as the design says, or answers a question.
async fn list_or_search(
    call: &Arc<Call>,
    collection: &'static Collection,
    turns: &Turns,
    index: &IndexState,
) -> Result<Answer, Problem> {
    let is_search = collection.search_parameters().iter().any(|name| call.query_parameter(name).is_some());
    let page = match is_search {
        true => search_page(call, collection, turns, index).await?,
        false => call.list(collection.access, &[]).await?,
    };
    Ok(Answer::page(page))
}

async fn search_page(
    call: &Call,
    collection: &'static Collection,
    turns: &Turns,
    index: &IndexState,
) -> Result<Page, Problem> {
    let mut seen = Vec::new();
    for (name, _) in &call.query {
        let known = ["limit", "order", "cursor"].contains(&name.as_str());
        let wrong = match name.as_str() {
            _ if seen.contains(&name) => "Is given twice.",
            name if known || collection.search_parameters().contains(&name) => "",
            _ => "Is not a parameter of this list.",
        };
        if !wrong.is_empty() {
            return Err(Problem::bad_parameter(name, wrong));
        }
        seen.push(name);
    }
    let text = short_text(call, "q", MAX_QUERY_CHARS)?;
    let tag = short_text(call, "tag", MAX_TAG_CHARS)?;
    let category = short_text(call, "categoryId", MAX_CATEGORY_CHARS)?;
    let mut question = Question::new(text, tag, category);
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
    if !index.is_current(call).await? {
        // Until it is built, the index of the version before finds what is written as it is asked for.
        question = question.by_letters(tag);
        if !question.has_terms() {
            let detail = "The search index is being built: this filter needs it, or a question beside it.";
            return Err(Problem::from_code(ProblemCode::BUSY, detail).retry_after(5));
        }
    }
    let scope = if collection.public { SearchScope::Catalog(call.visitor()) } else { SearchScope::Own(call.tenant()?) };
    let [text, tag, category] = [text, tag, category].map(Option::unwrap_or_default);
    let bound = ["search", collection.entity, text, tag, category, if oldest_first { "asc" } else { "desc" }];
    let cursor = call.query_parameter("cursor");
    let from = cursor.map(|cursor| Position::open(&scope, &bound, cursor)).transpose()?.unwrap_or_default();
    let _turn = turns.wait(call).await?;
    let order = (limit.min(MAX_LIMIT), oldest_first);
    let found = query::search(&scope, collection, &question, order, from, &Pace::default()).await?;
    let next = found.next.map(|next| next.seal(&scope, &bound)).transpose()?;
    Ok(Page { records: found.records, next, count: None })
}

/// A text of the query.
fn short_text<'c>(call: &'c Call, name: &str, max: usize) -> Result<Option<&'c str>, Problem> {
    let text = call.query_parameter(name);
    match text {
        Some("") => Err(Problem::bad_parameter(name, "Is empty; leave it out to list everything.")),
        Some(text) if text.chars().count() > max => {
            Err(Problem::bad_parameter(name, format!("Has to have at most {max} characters.")))
        }
        _ => Ok(text),
    }
}

fn query_parameter_schema() -> Json {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS });
    let description = "Words or parts of words, in any width, case and kana; common words of the kitchen also in other spellings \
                       (玉子, 卵, たまご, tamago). What has all of them is found, what has them in titles before tags and \
                       ingredients before descriptions. 20 on a page without `limit`, at most 100 and 2 MiB. A page can have fewer \
                       and a cursor.";
    json!({ "name": "q", "in": "query", "description": description, "schema": schema, "example": "しょうが焼き" })
}

fn tag() -> Json {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": MAX_TAG_CHARS });
    let description = "Only items with this tag, in any width, case and kana; with or without `q`.";
    json!({ "name": "tag", "in": "query", "description": description, "schema": schema, "example": "和食" })
}

fn category() -> Json {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": MAX_CATEGORY_CHARS });
    let description = "Only items of this category; with or without `q`.";
    json!({ "name": "categoryId", "in": "query", "description": description, "schema": schema, "example": "c_01" })
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
