//! Roles: their permissions name existing entities and verbs.

use super::Resolver;
use crate::{
    codes,
    design::Design,
    diagnostic::did_you_mean,
    role::{Permission, Reach, Role, Verb},
    template::is_field_name,
    tree::{Entry, SpannedText, Value},
};

impl Resolver<'_> {
    pub(super) fn role(&mut self, entry: &Entry, design: &Design) -> Role {
        let node = &entry.node;
        // A value of the wrong type has been reported; it counts as a permission.
        let operator = node.get("operator").is_some_and(|node| !matches!(node.value, Value::Boolean(false)));
        let silent = match node.get("may").map(|may| &may.value) {
            None => !operator,
            Some(Value::List(items)) => items.is_empty(),
            Some(_) => false,
        };
        if silent {
            codes::EMPTY_ROLE
                .report(
                    self.diagnostics,
                    &node.get("may").map_or(entry.key_span.clone(), |may| may.span.clone()),
                    format!("the role `{}` permits nothing", entry.key),
                )
                .help(if operator {
                    "remove `may` to permit everything that operators can do, or list permissions"
                } else {
                    "list permissions, such as `may = [\"*.read\"]`; a caller who may do nothing needs no role"
                });
        }
        let mut may = Vec::new();
        for text in node.texts("may") {
            match self.permission(&text, design) {
                Some(permission) if may.contains(&permission) => codes::BAD_PERMISSION
                    .report(self.diagnostics, &text.span, format!("`{permission}` is repeated"))
                    .help("remove one"),
                permission => may.extend(permission),
            }
        }
        Role { name: entry.key.clone(), description: node.string("description"), may, operator }
    }

    /// The permission of a text, or a report of why it is invalid.
    fn permission(&mut self, text: &SpannedText, design: &Design) -> Option<Permission> {
        let entities = design.entities.iter().map(|entity| entity.name.as_str());
        let Some(permission) = Permission::parse(&text.value) else {
            let (span, message, help) = match text.value.split_once('.') {
                Some(("*", verb)) if verb.ends_with(":own") => {
                    let help = "name the entity: `task.update:own`".to_owned();
                    (text.span.clone(), "own items are those of one entity".to_owned(), help)
                }
                Some((entity, verb)) if verb != "*" && (entity == "*" || is_field_name(entity)) => {
                    let start = entity.len() + 1;
                    let verb = verb.strip_suffix(":own").unwrap_or(verb);
                    let help = match verb {
                        "list" => "listing is `read`".to_owned(),
                        _ => did_you_mean(verb, Verb::ALL.map(Verb::name)),
                    };
                    (self.span_of(text, &(start..start + verb.len())), format!("there is no verb `{verb}`"), help)
                }
                _ => {
                    let help = match text.value.as_str() {
                        "*.*" => "everything is `*`".to_owned(),
                        name if entities.clone().any(|each| each == name) => {
                            format!("write `{name}.*`, or one of its verbs, such as `{name}.read`")
                        }
                        _ => "write `*`, `ENTITY.VERB`, `ENTITY.*` or `*.VERB`, such as `user.read`".to_owned(),
                    };
                    (text.span.clone(), format!("`{}` is not a permission", text.value), help)
                }
            };
            codes::BAD_PERMISSION.report(self.diagnostics, &span, message).help(help);
            return None;
        };
        if let Some(entity) = &permission.entity
            // A declared entity that was left out has already been reported.
            && !self.root.section("entity").iter().any(|entry| entry.key == *entity)
        {
            let span = self.span_of(text, &(0..entity.len()));
            let message = format!("there is no entity `{entity}`");
            codes::BAD_PERMISSION.report(self.diagnostics, &span, message).help(did_you_mean(entity, entities));
        } else if permission.items == Reach::Own
            && let Some(entity) = permission.entity.as_deref().and_then(|entity| design.entity(entity))
            && entity.owner.is_none()
        {
            codes::BAD_PERMISSION
                .report(self.diagnostics, &text.span, format!("`{}` does not say whose an item is", entity.name))
                .also(&entity.span, "the entity")
                .help("name the field with the user in the entity: `owner = \"userId\"`");
        }
        Some(permission)
    }
}
