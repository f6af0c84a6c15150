//! What callers choose: names that tenants share, the owner of an item, and fields that grant something.

use crate::{
    codes,
    design::{Design, Entity, UniqueConstraint, Wall},
    diagnostic::{Diagnostic, list},
    field::{DefaultValue, Field},
    role::{Reach, Role, Verb},
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for (at, entity) in design.entities.iter().enumerate() {
        owner(design, entity, diagnostics);
        let shares_id = design.is_created_by_callers(at) && shared_id(entity);
        let shared: Vec<_> = entity.unique.iter().filter(|unique| shares_values(design, at, unique)).collect();
        if entity.names_first_come {
            if !shares_id && shared.is_empty() {
                let span = entity.spans.names.as_ref().unwrap_or(&entity.span);
                let message = format!("tenants share no names of `{}` that callers choose", entity.name);
                codes::DOES_NOT_APPLY.report(diagnostics, span, message).help("remove `names`");
            }
        } else {
            if shares_id {
                id_is_shared(entity, diagnostics);
            }
            shared.into_iter().for_each(|unique| values_are_shared(entity, unique, diagnostics));
        }
        if design.is_written_by_callers(at) {
            entity.fields.iter().for_each(|field| verdict(entity, field, diagnostics));
        }
    }
}

/// Whether the key of an item consists of values that callers choose, while its tenant is not among them.
fn shared_id(entity: &Entity) -> bool {
    let is_generated = |path: &str| entity.field(path).is_some_and(|field| field.default == Some(DefaultValue::New));
    let mut paths = entity.key.partition.fields().chain(entity.key.sort.fields());
    // A key wall has the tenant in the key, or is reported; so is an entity without a tenant.
    entity.is_written_by_tenant()
        && entity.tenant.is_some()
        && entity.wall != Wall::Key
        && !paths.any(|path| Some(path) == entity.tenant.as_deref() || is_generated(path))
}

fn id_is_shared(entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let ids = entity.id_fields();
    let message = match ids.as_slice() {
        [] => format!("all tenants share one `{}` item: who creates it first has it", entity.name),
        _ => format!("callers choose {} of `{}`, and all tenants share these ids", list(&ids), entity.name),
    };
    codes::SHARED_NAMES
        .report(diagnostics, &entity.key.sort.span, message)
        .here("creating an item tells whether another tenant has it")
        .help(
            "let the store layer make the id (`default = \"new\"`), put the tenant into the key, or declare `names = \
             \"first-come\"` if everybody may know which names are taken",
        );
}

/// Whether callers choose values that have to be unique among all tenants.
fn shares_values(design: &Design, at: usize, unique: &UniqueConstraint) -> bool {
    let entity = &design.entities[at];
    let is_tenant = |path: &String| entity.tenant.as_ref() == Some(path);
    let is_chosen = |path: &String| {
        let top = path.split('.').next().unwrap_or(path);
        let generated = entity.is_key_field(path) && entity.wall != Wall::Key;
        entity.field(top).is_some_and(|field| {
            field.why_not_writable().is_none() && !(generated && field.default == Some(DefaultValue::New))
        })
    };
    !unique.within_tenant
        && design.is_written_by_callers(at)
        && !unique.fields.iter().any(is_tenant)
        && unique.fields.iter().any(is_chosen)
}

fn values_are_shared(entity: &Entity, unique: &UniqueConstraint, diagnostics: &mut Vec<Diagnostic>) {
    let message = format!(
        "callers choose {} of `{}`, which has to be unique among all tenants",
        list(&unique.fields),
        entity.name
    );
    codes::SHARED_NAMES
        .report(diagnostics, &unique.span, message)
        .here("writing an item tells whether another tenant has the value")
        .help(
            "write `within = \"tenant\"`, make the field `readonly`, or declare `names = \"first-come\"` in the entity if \
             everybody may know which values are taken",
        );
}

/// The owner of an item stays the same. It is a user whom the token names, or whom somebody names who may change and delete
/// everybody's items anyway.
fn owner(design: &Design, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(name), Some(span)) = (&entity.owner, &entity.spans.owner) else { return };
    let wrong = match entity.fields.iter().find(|field| field.name == *name) {
        None => Some((format!("`{}` has no field `{name}`", entity.name), "name one of its fields")),
        Some(field) if field.why_not_writable().is_none() && !is_managed(design, entity) => Some((
            format!("callers could set `{name}`, and so give items to others"),
            "give it `default = \"caller\"`, or let only roles create items that may update and delete all of them",
        )),
        Some(field) if field.immutable || entity.is_key_field(name) => None,
        Some(field) if field.default == Some(DefaultValue::Caller) => Some((
            format!("whoever updates an item would become its owner: `{name}` is set by each change"),
            "add `immutable = true`",
        )),
        Some(_) => {
            Some((format!("an item could be given to another user: `{name}` can change"), "add `immutable = true`"))
        }
    };
    if let Some((message, help)) = wrong {
        codes::BAD_OWNER.report(diagnostics, span, message).help(help);
    }
}

/// Whether everybody who may create items of an entity may also update and delete all of them.
fn is_managed(design: &Design, entity: &Entity) -> bool {
    let may = |role: &Role, verb: Verb| role.reach(&entity.name, verb);
    let is_manager = |role: &Role| {
        [Verb::Create, Verb::Update, Verb::Delete].into_iter().all(|verb| may(role, verb) == Some(Reach::All))
    };
    let mut creators = design.roles.iter().filter(|role| may(role, Verb::Create).is_some());
    // Without roles, every caller may do everything.
    !design.roles.is_empty() && creators.all(is_manager)
}

/// Names of fields that say what somebody may do, or that somebody vouches for something.
const VERDICTS: [&str; 8] = ["verified", "approved", "privileged", "trusted", "admin", "plan", "role", "roles"];

fn verdict(entity: &Entity, field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    if field.why_not_writable().is_some() || !field.has_known_type || !is_verdict(&field.name) {
        return;
    }
    let message =
        format!("callers write `{}` of `{}`, which reads like a decision about them", field.name, entity.name);
    let remedy = match field.name.ends_with("By") {
        true => "give it `default = \"caller\"`, so that it is the user of the token, or make it `readonly`",
        false => "make it `readonly`, and let the code of the system set it",
    };
    codes::WRITABLE_VERDICT
        .report(diagnostics, &field.span, message)
        .help(format!("{remedy}; if callers may decide it, explain why: `# NG0507: …` above this line"));
}

/// Whether a name is one of [`VERDICTS`], also after `is`, or ends with `By`, such as `isVerified` and `approvedBy`.
fn is_verdict(name: &str) -> bool {
    let ends_with_by = name.strip_suffix("By").or(name.strip_suffix("_by")).is_some_and(|stem| !stem.is_empty());
    let bare =
        name.strip_prefix("is").filter(|rest| rest.starts_with(|first: char| first.is_uppercase() || first == '_'));
    let bare = bare.unwrap_or(name).trim_start_matches('_');
    ends_with_by || VERDICTS.iter().any(|verdict| bare.eq_ignore_ascii_case(verdict))
}

#[cfg(test)]
mod tests {
    use super::is_verdict;

    #[test]
    fn names_of_decisions_are_known_and_similar_names_are_not() {
        for name in
            ["verified", "isVerified", "is_verified", "isPrivileged", "plan", "role", "roles", "createdBy", "sent_by"]
        {
            assert!(is_verdict(name), "{name}");
        }
        for name in ["verifiedAt", "island", "planId", "planet", "roleName", "By", "by", "standby", "issue"] {
            assert!(!is_verdict(name), "{name}");
        }
    }
}
