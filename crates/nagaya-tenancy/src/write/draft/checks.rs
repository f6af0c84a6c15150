//! The checks of a draft: everything that is wrong with it, reported at once.

use std::collections::BTreeSet;

use nagaya_design::{DefaultValue, Field, FieldError, FieldType, Wall};
use serde_json::{Map, Value as Json};

use crate::{Error, ErrorKind, compiled::CompiledEntity, scope::Scope, values};

type Fields = Map<String, Json>;

/// Collects the problems of a draft.
pub(super) struct Checks<'c> {
    compiled: &'c CompiledEntity,
    problems: Vec<FieldError>,
}

impl<'c> Checks<'c> {
    pub(super) fn new(compiled: &'c CompiledEntity) -> Self {
        Checks { compiled, problems: Vec::new() }
    }

    fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(FieldError { path: path.into(), message: message.into() });
    }

    /// Reports fields that do not fit the entity.
    pub(super) fn fields_fit(&mut self, fields: &Fields) {
        self.problems.extend(self.compiled.entity.check_fields(fields));
        for path in &self.compiled.id_fields {
            if values::json_at(fields, path).and_then(Json::as_str).is_some_and(values::is_dot_segment) {
                self.report(path.as_str(), "cannot be `.` or `..`, which mean something else in a path");
            }
        }
    }

    /// Refuses the draft if there is any problem.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.problems.is_empty() { Ok(()) } else { Err(ErrorKind::Invalid(self.problems).into()) }
    }

    /// Reports fields that a tenant must not give: the tenant itself, and generated ids in a key space that tenants share. Who
    /// could choose such an id could find out which ones are taken.
    pub(super) fn given_fields(&mut self, scope: &Scope, fields: &Fields) {
        let entity = &self.compiled.entity;
        if scope.tenant().is_none() {
            return;
        }
        let is_given = |path: &&str| values::json_at(fields, path).is_some();
        if let Some(tenant) = entity.tenant.as_deref().filter(is_given) {
            self.report(tenant, "comes from the token; leave it out");
        }
        let is_generated =
            |path: &&str| entity.field(path).is_some_and(|field| field.default == Some(DefaultValue::New));
        if entity.wall != Wall::Key {
            for path in entity.id_fields().into_iter().filter(is_generated).filter(is_given) {
                self.report(path, "is made by the store layer; leave it out");
            }
        }
    }

    /// Reports instants of conditions that the caller sets: only the layer does.
    pub(super) fn reject_caller_set_since_fields(&mut self, before: Option<&Fields>, after: &Fields) {
        for field in since_fields(self.compiled) {
            if before.and_then(|before| before.get(&field.name)) != after.get(&field.name)
                && let Some(message) = field.why_not_writable()
            {
                self.report(&field.name, message);
            }
        }
    }

    /// Reports an expiry in the past: the item would be gone as soon as it is written.
    pub(super) fn expiry_is_future(&mut self, fields: &Fields, now: i64) {
        let CompiledEntity { ttl, entity, .. } = self.compiled;
        let ttl = ttl.as_ref().filter(|ttl| entity.field(ttl).is_some());
        let is_past = |ttl: &&String| {
            fields.get(*ttl).and_then(Json::as_f64).is_some_and(|expires| expires <= now.div_euclid(1000) as f64)
        };
        if let Some(ttl) = ttl.filter(is_past) {
            self.report(ttl, "is in the past");
        }
    }

    /// Reports names that a patch removes and that are not fields.
    pub(super) fn removed_names(&mut self, fields: &[Field], patch: &Fields, parent: &str) {
        for (name, value) in patch {
            let path = join(parent, name);
            match (fields.iter().find(|field| field.name == *name).map(|field| &field.field_type), value) {
                // Names with a value are checked with the rest of the item.
                (None, Json::Null) => self.report(path, "is not a field"),
                (Some(FieldType::Map(inner)), Json::Object(patch)) if !inner.is_empty() => {
                    self.removed_names(inner, patch, &path);
                }
                _ => {}
            }
        }
    }

    /// Reports fields that an update must not change.
    pub(super) fn unchanged(&mut self, scope: &Scope, patch: &Fields, before: &Fields, after: &Fields) {
        let entity = &self.compiled.entity;
        let tenant = entity.tenant.as_deref().filter(|_| scope.tenant().is_some());
        let given = tenant.filter(|tenant| values::json_at(patch, tenant).is_some());
        if let Some(tenant) = given {
            self.report(tenant, "comes from the token; leave it out");
        }
        let mut check = |path: &str, message: &str| {
            if values::json_at(before, path) != values::json_at(after, path) {
                self.report(path, message);
            }
        };
        // A patch can also remove the map that the tenant is in.
        if let Some(tenant) = tenant.filter(|_| given.is_none()) {
            check(tenant, "comes from the token and cannot be changed");
        }
        let key_fields: BTreeSet<_> = entity.key.partition.fields().chain(entity.key.sort.fields()).collect();
        for path in key_fields.into_iter().filter(|path| Some(*path) != tenant) {
            check(path, "is part of the key and cannot be changed");
        }
        visit_immutable(&entity.fields, "", &mut |path| {
            if !entity.is_key_field(path) && Some(path) != tenant {
                check(path, "cannot be changed");
            }
        });
    }

    /// Reports required fields that an update removes. Defaults are for new items only.
    pub(super) fn check_required_kept(&mut self, fields: &[Field], before: &Fields, after: &Fields, parent: &str) {
        for field in fields {
            let path = join(parent, &field.name);
            match (&field.field_type, before.get(&field.name), after.get(&field.name)) {
                (_, Some(_), None) if !field.optional && field.default.is_some() => self.report(path, "is missing"),
                (FieldType::Map(inner), Some(Json::Object(before)), Some(Json::Object(after))) => {
                    self.check_required_kept(inner, before, after, &path);
                }
                _ => {}
            }
        }
    }
}

/// The fields that record since when a condition holds.
pub(super) fn since_fields(compiled: &CompiledEntity) -> impl Iterator<Item = &Field> {
    compiled.entity.fields.iter().filter(|field| field.since.is_some())
}

/// Visits the immutable fields.
fn visit_immutable(fields: &[Field], parent: &str, visit: &mut dyn FnMut(&str)) {
    for field in fields {
        let path = join(parent, &field.name);
        match &field.field_type {
            _ if field.immutable => visit(&path),
            FieldType::Map(inner) => visit_immutable(inner, &path, visit),
            _ => {}
        }
    }
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}
