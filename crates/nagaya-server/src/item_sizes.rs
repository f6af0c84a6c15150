//! How much a request may read, and how large the answer of a write may be.

use nagaya_design::{Design, Entity, MAX_PAGE, ResultKind};
use nagaya_tenancy::{MAX_PAGE_BYTES, min_items_read};

use crate::{
    CustomRoute,
    limits::SMALL_BODY,
    roles,
    route::{Operation, Route},
};

/// What an item may have beyond the body that creates it: ids, times, and other defaults.
const DEFAULT_FIELD_BYTES: usize = 8 * 1024;

/// How large items of a design can be, and how many a list reads.
pub(crate) struct ItemSizes {
    /// Bytes of the largest item of each entity.
    largest: Vec<usize>,
    /// The items that each access pattern reads at once, at least.
    min_read: Vec<usize>,
}

impl ItemSizes {
    pub(crate) fn of_design(design: &Design) -> Self {
        let largest = design.entities.iter().map(Entity::max_bytes).collect();
        let min_read = design.access_patterns.iter().map(|access| min_items_read(design, access)).collect();
        ItemSizes { largest, min_read }
    }

    /// The most bytes that a list holds in memory of what it reads at once. 0 for other routes: a single item is answered as soon as it
    /// is read, and counts then.
    ///
    /// A custom route counts if it answers with pages. Others may wait for something else than the store while they hold what this
    /// allows, and would keep out those that read.
    pub(crate) fn read_by(
        &self,
        design: &Design,
        route: &Route,
        custom: &[CustomRoute],
        query: &[(String, String)],
    ) -> usize {
        let limit = || query.iter().find(|(name, _)| name == "limit").and_then(|(_, value)| value.parse().ok());
        match route.operation {
            Operation::List(id) => {
                let access = id.pattern_in(design);
                let items = match access.returns {
                    ResultKind::Many => limit().unwrap_or(access.limit as usize).min(MAX_PAGE),
                    ResultKind::One | ResultKind::Count => 1,
                };
                page_bytes(items.max(self.min_read[id.0]), self.largest[access.entity])
            }
            Operation::Custom(id) if id.find_in(custom).is_some_and(|route| route.is_paged) => {
                let item = self.of_custom(design, route, custom).unwrap_or(MAX_PAGE_BYTES);
                page_bytes(limit().unwrap_or(MAX_PAGE).min(MAX_PAGE), item)
            }
            Operation::OperatorLog => MAX_PAGE_BYTES,
            Operation::Custom(_)
            | Operation::Create(_)
            | Operation::Read(_)
            | Operation::Update(_)
            | Operation::Delete(_) => 0,
        }
    }

    /// The largest answer of a write, in bytes: the largest item of its entity; for a create, at most the body and the defaults.
    /// 0 for reads.
    pub(crate) fn answered_by(&self, design: &Design, route: &Route, custom: &[CustomRoute], body: usize) -> usize {
        if route.method.is_safe() {
            return 0;
        }
        let created = body.saturating_add(DEFAULT_FIELD_BYTES);
        match route.operation {
            Operation::Create(id) => created.min(self.largest[id.0]),
            Operation::Update(id) => self.largest[id.0],
            // A handler that does not say what it writes may answer anything.
            Operation::Custom(_) => self.of_custom(design, route, custom).unwrap_or(created.max(SMALL_BODY + 1)),
            Operation::Read(_) | Operation::Delete(_) | Operation::List(_) | Operation::OperatorLog => 0,
        }
    }

    /// The largest item of the entity for which a custom route needs a permission.
    fn of_custom(&self, design: &Design, route: &Route, custom: &[CustomRoute]) -> Option<usize> {
        let (entity, _) = roles::required_permission(design, route, custom)?;
        design.entities.iter().position(|known| known.name == entity).map(|at| self.largest[at])
    }
}

fn page_bytes(items: usize, item: usize) -> usize {
    items.saturating_mul(item).min(MAX_PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::{Answer, Extension, System};

    /// Notes of 360 KB at most, and tags of some bytes; tags can be deleted softly.
    const DESIGN: &str = r#"
        name    = "desk"
        version = "1.0"

        [tenant]
        field = "tenantId"

        [table.main]
        key = ["PK", "SK"]

        [entity.note]
        table = "main"
        key   = { PK = "TENANT#{tenantId}", SK = "NOTE#{noteId}" }

        [entity.note.fields]
        tenantId = { type = "string", min = 1, max = 64 }
        noteId   = { type = "ulid", default = "new" }
        text     = { type = "string", max = 90_000 }

        [entity.tag]
        table = "main"
        key   = { PK = "TENANT#{tenantId}", SK = "TAG#{tagId}" }

        [entity.tag.fields]
        tenantId = { type = "string", min = 1, max = 64 }
        tagId    = { type = "ulid", default = "new" }
        kind     = { type = "string", max = 10 }

        [access.notes]
        entity = "note"

        [access.tags]
        entity = "tag"

        [access.tags_of_kind]
        entity = "tag"
        filter = "kind = {kind}"

        [access.count_of_tags]
        entity  = "tag"
        returns = "count"
    "#;

    struct Routes;

    impl Extension for Routes {
        fn routes(&self) -> Vec<CustomRoute> {
            let route = |path| CustomRoute::new(Method::GET, path, "Reads.", |_| async { Ok(Answer::no_content()) });
            vec![
                route("/waits").requires_permission("note", nagaya_design::Verb::Read),
                route("/pages-of-notes")
                    .requires_permission("note", nagaya_design::Verb::Read)
                    .answers_pages_of(serde_json::json!({})),
                route("/pages").answers_pages_of(serde_json::json!({})),
            ]
        }
    }

    #[test]
    fn a_list_reads_a_page_of_items() {
        let checked = nagaya_design::check(DESIGN, &[]);
        let design = checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics));
        let system = System::new("desk", design, Routes);
        let (routes, custom) = system.routes();
        let sizes = ItemSizes::of_design(&system.design);
        let [note, tag] = [sizes.largest[0], sizes.largest[1]];
        assert!((360_000..400_000).contains(&note) && tag < 2_000, "{note} and {tag}");
        let read = |method: Method, path: &str, limit: &str| {
            let route = routes
                .iter()
                .find(|route| route.method == method && route.path == path)
                .unwrap_or_else(|| panic!("{path} is not in {routes:?}"));
            let query: Vec<_> =
                Some(("limit".to_owned(), limit.to_owned())).filter(|_| !limit.is_empty()).into_iter().collect();
            sizes.read_by(&system.design, route, &custom, &query)
        };
        assert_eq!(read(Method::GET, "/notes/{noteId}", ""), 0);
        assert_eq!(read(Method::GET, "/notes", ""), MAX_PAGE_BYTES);
        assert_eq!(read(Method::GET, "/notes", "2"), 2 * note);
        assert_eq!(read(Method::GET, "/tags", ""), 100 * tag);
        assert_eq!(read(Method::GET, "/tags", "20"), 20 * tag);
        assert_eq!(read(Method::GET, "/tags", "1000000"), 1_000 * tag);
        assert_eq!(read(Method::GET, "/tags-of-kind", "1"), 100 * tag, "the store reads more than it gives");
        assert_eq!(read(Method::GET, "/count-of-tags", ""), MAX_PAGE_BYTES, "of all items");
        assert_eq!(read(Method::POST, "/notes", ""), 0);
        assert_eq!(read(Method::GET, "/waits", ""), 0);
        assert_eq!(read(Method::GET, "/pages-of-notes", "3"), 3 * note);
        assert_eq!(read(Method::GET, "/pages", "1"), MAX_PAGE_BYTES);
    }
}
