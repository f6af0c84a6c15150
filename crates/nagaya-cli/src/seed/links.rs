//! Links: declared references, and fields that are named like the id of another entity.

use std::collections::BTreeMap;

use nagaya_design::{DefaultValue, Design, Entity, Field, FieldType};

/// A link of a field to another item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// The entity of the other item.
    pub(super) entity: String,
    /// The field of the other item with the same value.
    pub(super) field: String,
    /// Whether the item cannot exist without it.
    pub(super) declared: bool,
}

/// Entities that are people.
const PEOPLE: [&str; 6] = ["user", "member", "person", "employee", "customer", "contact"];
/// Words for actors.
const ACTOR_WORDS: [&str; 8] = ["sender", "owner", "author", "actor", "assignee", "creator", "reviewer", "reporter"];

/// The links of an entity by the names of their fields, those in maps and lists included. `filled` are the entities that
/// get items.
pub(super) fn links(design: &Design, entity: &Entity, filled: &[&Entity]) -> BTreeMap<String, Link> {
    let mut found = BTreeMap::new();
    for field in &entity.fields {
        // The tenant's own field comes from the wall.
        if entity.tenant.as_deref() != Some(field.name.as_str()) {
            collect(design, entity, field, filled, &mut found);
        }
    }
    found
}

fn collect(design: &Design, entity: &Entity, field: &Field, filled: &[&Entity], found: &mut BTreeMap<String, Link>) {
    match &field.field_type {
        FieldType::Map(fields) => fields.iter().for_each(|field| collect(design, entity, field, filled, found)),
        FieldType::List(Some(element)) => collect(design, entity, element, filled, found),
        FieldType::String | FieldType::Ulid | FieldType::Uuid => {
            if let Some(link) = link(design, entity, field, filled) {
                found.insert(field.name.clone(), link);
            }
        }
        _ => {}
    }
}

fn link(design: &Design, entity: &Entity, field: &Field, filled: &[&Entity]) -> Option<Link> {
    if let Some(reference) = &field.reference {
        let id = design.entity(&reference.entity)?.id_fields().first()?.to_string();
        return Some(Link { entity: reference.entity.clone(), field: id, declared: true });
    }
    // A generated id is the item's own. A caller is somebody.
    let is_generated = field.default.as_ref().is_some_and(|default| *default != DefaultValue::Caller);
    if is_generated || !field.choices().is_empty() {
        return None;
    }
    let to = |entity: &Entity, field: &str| {
        Some(Link { entity: entity.name.clone(), field: field.to_owned(), declared: false })
    };
    let makes = |other: &&&Entity| {
        other.name != entity.name
            && other.field(&field.name).is_some_and(|made| made.default == Some(DefaultValue::New))
    };
    if let Some(builder) = only(filled.iter().filter(makes)) {
        return to(builder, &field.name);
    }
    let mut words = words(&field.name);
    let last = words.pop()?;
    let stem = words.join("_");
    let by_id = |wanted: &dyn Fn(&str) -> bool| {
        let found = only(filled.iter().filter(|other| wanted(&other.name) && other.id_fields().len() == 1))?;
        to(found, found.id_fields().first()?)
    };
    let not_itself = |link: &Link| link.entity != entity.name || link.field != field.name;
    let somebody = || PEOPLE.iter().find_map(|people| by_id(&|name| name == *people));
    let link = match last.as_str() {
        "id" => by_id(&|name| name == stem)
            .or_else(|| by_id(&|name| name.ends_with(&format!("_{stem}"))))
            .or_else(|| by_id(&|name| stem.ends_with(&format!("_{name}"))))
            .or_else(|| somebody().filter(|_| ACTOR_WORDS.contains(&stem.as_str()))),
        "by" if !words.is_empty() => somebody(),
        _ => None,
    };
    link.filter(not_itself)
}

/// The only one, if there is exactly one.
fn only<'e, 'd: 'e>(mut found: impl Iterator<Item = &'e &'d Entity>) -> Option<&'d Entity> {
    let first = found.next()?;
    found.next().is_none().then_some(*first)
}

/// Whether the items of an entity are people.
pub(super) fn is_people(entity: &str) -> bool {
    PEOPLE.contains(&entity)
}

/// `apiKeyId` → `api`, `key`, `id`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for each in name.chars() {
        if matches!(each, '_' | '-' | '.') || each.is_uppercase() && !before.is_uppercase() {
            words.push(String::new());
        }
        if each.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(each.to_lowercase());
        }
        before = each;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(system: &str, entity: &str, expected: &[(&str, &str, &str)]) {
        let design = crate::systems::find(system, &crate::systems::Resources::default())
            .expect("sound")
            .expect("built in")
            .design;
        let filled: Vec<_> = design.entities.iter().collect();
        let found = links(&design, design.entity(entity).expect("an entity"), &filled);
        let found: Vec<_> =
            found.iter().map(|(name, link)| (name.as_str(), link.entity.as_str(), link.field.as_str())).collect();
        assert_eq!(found, expected, "{system} {entity}");
    }

    #[test]
    fn ids_are_known_by_their_names() {
        check(
            "aiagent",
            "email_message",
            &[("accountId", "email_account", "accountId"), ("taskId", "task", "taskId"), ("userId", "user", "userId")],
        );
        check("aiagent", "log", &[("executionId", "execution", "executionId"), ("traceId", "execution", "traceId")]);
        check("management", "folder", &[("createdBy", "user", "id"), ("parentFolderId", "folder", "id")]);
        check("management", "message", &[("channelId", "channel", "id"), ("senderId", "user", "id")]);
        check("management", "backup_history", &[("jobId", "backup_job", "id")]);
        check(
            "kondate",
            "shopping_item",
            &[
                ("fridgeItemId", "fridge_item", "itemId"),
                ("menuId", "plan", "menuId"),
                ("recipeId", "recipe", "recipeId"),
            ],
        );
        // Both what is to be bought and what is in the fridge have an `itemId`.
        check("kondate", "fridge_deleted_item", &[]);
    }

    #[test]
    fn names_are_made_of_words() {
        assert_eq!(words("apiKeyId"), ["api", "key", "id"]);
        assert_eq!(words("sourceURL"), ["source", "url"]);
        assert_eq!(words("tenant_user"), ["tenant", "user"]);
    }
}
