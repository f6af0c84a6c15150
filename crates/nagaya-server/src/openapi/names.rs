//! What things are called in the document: stable, and no two alike.

use std::collections::BTreeSet;

use nagaya_design::Design;

use crate::{
    extension::OwnRoute,
    route::{Act, Route},
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
    pub(super) fn new(design: &Design, routes: &[&Route], own: &[OwnRoute]) -> Self {
        // What is read has the plain name of the entity: routes of a system's own refer to it by that.
        let items: Vec<_> = design.entities.iter().map(|entity| pascal(&entity.name)).collect();
        let mut taken: BTreeSet<String> = items.iter().cloned().collect();
        let mut entity = |item: String| EntityNames {
            new: free(format!("New{item}"), &mut taken),
            patch: free(format!("{item}Patch"), &mut taken),
            item,
        };
        let entities = items.into_iter().map(&mut entity).collect();
        let problem = free("Problem".to_owned(), &mut taken);
        let mut taken = BTreeSet::new();
        let operations = routes.iter().map(|route| free(operation(design, route, own), &mut taken)).collect();
        Names { entities, problem, operations }
    }
}

fn operation(design: &Design, route: &Route, own: &[OwnRoute]) -> String {
    let of = |verb: &str, at: usize| match design.entities.get(at) {
        Some(entity) => format!("{verb}{}", pascal(&entity.name)),
        None => verb.to_owned(),
    };
    match route.act {
        Act::Create(at) => of("create", at),
        Act::Read(at) => of("read", at),
        Act::Update(at) => of("update", at),
        Act::Delete(at) => of("delete", at),
        Act::List(at) => design.accesses.get(at).map_or_else(String::new, |access| camel(&access.name)),
        Act::Own(at) => {
            let path = own.get(at).map_or("", |own| own.path.as_str());
            let fixed = path.split('/').filter(|segment| !segment.starts_with('{'));
            let words: Vec<_> = fixed.flat_map(|segment| segment.split(|each: char| !each.is_alphanumeric())).collect();
            camel(&format!("{}_{}", route.method.as_str().to_lowercase(), words.join("_")))
        }
    }
}

/// The name, with a number where it is taken.
fn free(name: String, taken: &mut BTreeSet<String>) -> String {
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
    fn a_name_that_is_taken_gets_a_number() {
        let mut taken = BTreeSet::from(["Problem".to_owned(), "Problem2".to_owned()]);
        assert_eq!(free("Problem".to_owned(), &mut taken), "Problem3");
        assert_eq!(free("Other".to_owned(), &mut taken), "Other");
        assert_eq!(free("Other".to_owned(), &mut taken), "Other2");
    }
}
