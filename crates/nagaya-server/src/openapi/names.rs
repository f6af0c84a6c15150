//! The names in the document: stable and unique.

use std::collections::BTreeSet;

use nagaya_design::Design;

use crate::{
    CustomRoute,
    route::{EntityId, Operation, Route},
};

/// The names of schemas and operations.
pub(super) struct Names {
    /// Of each entity, by its position in the design.
    pub(super) entities: Vec<EntityNames>,
    /// Of the schema of errors.
    pub(super) problem: String,
    /// Of each operation, by the position of its route.
    pub(super) operations: Vec<String>,
}

/// The schemas of an entity.
#[derive(Debug)]
pub(super) struct EntityNames {
    /// As it is read.
    pub(super) item: String,
    /// As it is made.
    pub(super) new: String,
    /// As it is changed.
    pub(super) patch: String,
}

impl Names {
    pub(super) fn new(design: &Design, routes: &[&Route], custom: &[CustomRoute]) -> Self {
        // The schema of a stored item has the plain name of the entity: custom routes refer to it.
        let items: Vec<_> = design.entities.iter().map(|entity| pascal(&entity.name)).collect();
        let mut taken: BTreeSet<String> = items.iter().cloned().collect();
        let mut entity = |item: String| EntityNames {
            new: unused(format!("New{item}"), &mut taken),
            patch: unused(format!("{item}Patch"), &mut taken),
            item,
        };
        let entities = items.into_iter().map(&mut entity).collect();
        let problem = unused("Problem".to_owned(), &mut taken);
        let mut taken = BTreeSet::new();
        let operations = routes.iter().map(|route| unused(operation(design, route, custom), &mut taken)).collect();
        Names { entities, problem, operations }
    }
}

fn operation(design: &Design, route: &Route, custom: &[CustomRoute]) -> String {
    let of = |verb: &str, id: EntityId| format!("{verb}{}", pascal(&id.entity_in(design).name));
    match route.operation {
        Operation::Create(id) => of("create", id),
        Operation::Read(id) => of("read", id),
        Operation::Update(id) => of("update", id),
        Operation::Delete(id) => of("delete", id),
        Operation::List(id) => camel(&id.pattern_in(design).name),
        Operation::OperatorLog => "operatorLog".to_owned(),
        Operation::Custom(id) => {
            let path = id.find_in(custom).map_or("", |route| route.path.as_str());
            let fixed = path.split('/').filter(|segment| !segment.starts_with('{'));
            let words: Vec<_> = fixed.flat_map(|segment| segment.split(|each: char| !each.is_alphanumeric())).collect();
            camel(&format!("{}_{}", route.method.as_str().to_lowercase(), words.join("_")))
        }
    }
}

/// The name, with a number if it is in use.
fn unused(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}{number}"));
    let found = std::iter::once(name.clone()).chain(numbered).find(|each| !taken.contains(each)).unwrap_or(name);
    taken.insert(found.clone());
    found
}

/// `tenant_user` as `TenantUser`.
pub(super) fn pascal(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        first + letters.as_str()
    };
    name.split('_').map(word).collect()
}

/// `todos_active` as `todosActive`.
fn camel(name: &str) -> String {
    let name = pascal(name);
    let mut letters = name.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_lowercase).collect();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_their_case() {
        assert_eq!(pascal("tenant_user"), "TenantUser");
        assert_eq!(pascal("shareLink"), "ShareLink");
        assert_eq!(camel("todos_active"), "todosActive");
        assert_eq!(camel("post__todos_complete"), "postTodosComplete");
    }

    #[test]
    fn a_name_in_use_gets_a_number() {
        let mut taken = BTreeSet::from(["Problem".to_owned(), "Problem2".to_owned()]);
        assert_eq!(unused("Problem".to_owned(), &mut taken), "Problem3");
        assert_eq!(unused("Other".to_owned(), &mut taken), "Other");
        assert_eq!(unused("Other".to_owned(), &mut taken), "Other2");
    }
}
