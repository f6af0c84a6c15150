//! The permission policy of a tenant, which narrows what the design allows its roles.

use std::collections::BTreeMap;

use nagaya_design::{Design, Permission, Problem as Flaw, Role, Verb};
use nagaya_server::Problem;
use nagaya_tenancy::Record;
use serde_json::{Map, Value as Json, json};

use crate::body::{self, flaw};

/// A tenant's policy: roles with their permissions. A role that it does not list has those of the design.
#[derive(Debug)]
pub(crate) struct Policy(BTreeMap<String, Vec<Permission>>);

impl Policy {
    /// The policy in a stored item. An invalid permission, which did not come through the API, permits nothing.
    pub(crate) fn of(record: &Record) -> Self {
        let roles = record.to_json().remove("roles");
        let Some(Json::Object(roles)) = roles else { return Policy(BTreeMap::new()) };
        let permissions = |permissions: &Json| -> Vec<Permission> {
            let each = permissions.as_array().into_iter().flatten();
            each.filter_map(|each| Permission::parse(each.as_str()?)).collect()
        };
        Policy(roles.iter().map(|(role, each)| (role.clone(), permissions(each))).collect())
    }

    /// Whether one of these roles may do this: by the design, and by the policy if it lists the role.
    pub(crate) fn permits(&self, design: &Design, roles: &[String], entity: &str, verb: Verb) -> bool {
        let held = design.roles.iter().filter(|role| roles.contains(&role.name));
        held.filter(|role| design.permits(std::slice::from_ref(&role.name), entity, verb)).any(|role| {
            let listed = self.0.get(&role.name);
            listed.is_none_or(|may| may.iter().any(|each| each.covers(entity, verb))) || is_lockout_safe(role, entity)
        })
    }
}

/// A role that may do everything by the design can always change the policy: a tenant cannot lock itself out.
fn is_lockout_safe(role: &Role, entity: &str) -> bool {
    let everything = Permission { entity: None, verb: None };
    entity == "permission_policy" && role.may.contains(&everything)
}

/// The policy of a new tenant: the permissions of the design, to be changed from there.
pub(crate) fn initial(design: &Design) -> Json {
    let may = |role: &Role| role.may.iter().map(|each| Json::from(each.to_string())).collect::<Json>();
    let roles = design.roles.iter().filter(|role| !role.operator);
    Json::Object(roles.map(|role| (role.name.clone(), may(role))).collect())
}

/// The JSON Schema of a policy: each of the tenant's roles with its permissions.
pub(crate) fn schema(design: &Design) -> Json {
    let roles: Vec<_> = design.roles.iter().filter(|role| !role.operator).map(|role| role.name.as_str()).collect();
    let entities: Vec<_> = design.entities.iter().map(|entity| entity.name.as_str()).collect();
    let verbs = Verb::ALL.map(|verb| verb.to_string()).join("|");
    let permission = format!("^(?:\\*|\\*\\.(?:{verbs})|(?:{})\\.(?:\\*|{verbs}))$", entities.join("|"));
    json!({
        "propertyNames": { "enum": roles },
        "additionalProperties": { "type": ["array", "null"], "items": { "type": "string", "pattern": permission } },
    })
}

/// Refuses a policy, or a change of one, with unknown roles or permissions.
pub(crate) fn check(design: &Design, body: &Map<String, Json>) -> Result<(), Problem> {
    let Some(Json::Object(roles)) = body.get("roles") else { return Ok(()) };
    let mut flaws = Vec::new();
    for (name, permissions) in roles {
        let at = format!("roles.{name}");
        match design.roles.iter().find(|role| role.name == *name) {
            None => flaws.push(flaw(at, "is no role of this system")),
            Some(role) if role.operator => flaws.push(flaw(at, "is the operators' role, and no tenant's")),
            Some(_) => flaws.extend(permission_errors(design, &at, permissions)),
        }
    }
    body::refuse(flaws)
}

/// The errors in the permissions of a role.
fn permission_errors(design: &Design, at: &str, permissions: &Json) -> Vec<Flaw> {
    match permissions {
        // In a change: the role is removed from the policy.
        Json::Null => Vec::new(),
        Json::Array(permissions) => {
            let each = permissions.iter().enumerate();
            each.filter_map(|(nth, each)| Some(flaw(format!("{at}[{nth}]"), permission_error(design, each)?))).collect()
        }
        _ => vec![flaw(at, "has to be a list of permissions")],
    }
}

fn permission_error(design: &Design, permission: &Json) -> Option<String> {
    match permission.as_str().and_then(Permission::parse) {
        None => Some("is no permission: write `ENTITY.VERB`, `ENTITY.*`, `*.VERB` or `*`".to_owned()),
        Some(Permission { entity: Some(entity), .. }) if design.entity(&entity).is_none() => {
            Some(format!("is about `{entity}`, which there is not"))
        }
        Some(_) => None,
    }
}
