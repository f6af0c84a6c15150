//! The permission policy of a tenant: which permissions of the design its roles keep.

use std::collections::BTreeMap;

use nagaya_design::{Design, FieldError, Permission, Reach, Role, Verb};
use nagaya_server::Problem;
use nagaya_tenancy::Record;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

/// A tenant's policy: roles with their permissions. A role that it does not list keeps the permissions of the design.
#[derive(Debug)]
pub(crate) struct Policy(BTreeMap<String, Vec<Permission>>);

/// A stored policy.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredPolicy {
    roles: BTreeMap<String, Json>,
}

impl Policy {
    /// The policy in a stored item. Values that are no permissions permit nothing.
    pub(crate) fn from_record(record: &Record) -> Self {
        let StoredPolicy { roles } = record.deserialize().unwrap_or_default();
        let permissions = |permissions: &Json| -> Vec<Permission> {
            let each = permissions.as_array().into_iter().flatten();
            each.filter_map(|each| Permission::parse(each.as_str()?)).collect()
        };
        Policy(roles.iter().map(|(role, each)| (role.clone(), permissions(each))).collect())
    }

    /// On which items one of these roles may do this: by the design, and by the policy where it lists the role. `None`: on none.
    pub(crate) fn reach(&self, design: &Design, roles: &[String], entity: &str, verb: Verb) -> Option<Reach> {
        let held = design.roles.iter().filter(|role| roles.contains(&role.name));
        let reach = |role: &Role| {
            let by_design = role.reach(entity, verb)?;
            match self.0.get(&role.name) {
                Some(may) if !may_always_change_policy(role, entity) => {
                    may.iter().filter_map(|each| each.reach(entity, verb)).max().map(|listed| listed.min(by_design))
                }
                _ => Some(by_design),
            }
        };
        held.filter_map(reach).max()
    }
}

/// Roles with all permissions in the design can always change the policy: a tenant cannot lock itself out.
fn may_always_change_policy(role: &Role, entity: &str) -> bool {
    entity == "permission_policy" && role.may.contains(&Permission::EVERYTHING)
}

/// The policy of a new tenant: the permissions of the design.
pub(crate) fn initial_policy(design: &Design) -> Json {
    let may = |role: &Role| role.may.iter().map(|each| Json::from(each.to_string())).collect::<Json>();
    let roles = design.roles.iter().filter(|role| !role.operator);
    Json::Object(roles.map(|role| (role.name.clone(), may(role))).collect())
}

/// The JSON Schema of a policy: each of the tenant's roles with its permissions.
pub(crate) fn schema(design: &Design) -> Json {
    let roles: Vec<_> = design.roles.iter().filter(|role| !role.operator).map(|role| role.name.as_str()).collect();
    let names = |owned: bool| -> String {
        let entities = design.entities.iter().filter(|entity| !owned || entity.owner.is_some());
        entities.map(|entity| entity.name.as_str()).collect::<Vec<_>>().join("|")
    };
    let verbs = Verb::ALL.map(|verb| verb.to_string()).join("|");
    let (all, owned) = (names(false), names(true));
    let permission =
        format!("^(?:\\*|\\*\\.(?:{verbs})|(?:{all})\\.(?:\\*|{verbs})|(?:{owned})\\.(?:\\*|{verbs}):own)$");
    json!({
        "propertyNames": { "enum": roles },
        "additionalProperties": { "type": ["array", "null"], "items": { "type": "string", "pattern": permission } },
    })
}

/// Refuses a policy with unknown roles, entities or verbs.
pub(crate) fn validate(design: &Design, body: &Map<String, Json>) -> Result<(), Problem> {
    let Some(Json::Object(roles)) = body.get("roles") else { return Ok(()) };
    let mut errors = Vec::new();
    for (name, permissions) in roles {
        let at = format!("roles.{name}");
        match design.roles.iter().find(|role| role.name == *name) {
            None => errors.push(field_error(at, "is no role of this system")),
            Some(role) if role.operator => errors.push(field_error(at, "is the operators' role, and no tenant's")),
            Some(_) => errors.extend(permission_errors(design, &at, permissions)),
        }
    }
    Problem::check_fields(errors)
}

/// An error in a field of a body.
fn field_error(path: impl Into<String>, message: impl Into<String>) -> FieldError {
    FieldError { path: path.into(), message: message.into() }
}

/// The errors in the permissions of a role.
fn permission_errors(design: &Design, at: &str, permissions: &Json) -> Vec<FieldError> {
    match permissions {
        // A merge patch removes the role from the list.
        Json::Null => Vec::new(),
        Json::Array(permissions) => {
            let each = permissions.iter().enumerate();
            each.filter_map(|(nth, each)| Some(field_error(format!("{at}[{nth}]"), permission_error(design, each)?)))
                .collect()
        }
        _ => vec![field_error(at, "has to be a list of permissions")],
    }
}

fn permission_error(design: &Design, permission: &Json) -> Option<String> {
    match permission.as_str().and_then(Permission::parse) {
        None => Some("is no permission: write `ENTITY.VERB`, `ENTITY.*`, `*.VERB` or `*`".to_owned()),
        Some(Permission { entity: Some(name), items, .. }) => match design.entity(&name) {
            None => Some(format!("is about `{name}`, which there is not")),
            Some(entity) if items == Reach::Own && entity.owner.is_none() => {
                Some(format!("is about own items, and `{name}` belongs to nobody"))
            }
            Some(_) => None,
        },
        Some(_) => None,
    }
}
