//! References seen from their target: which fields refer to an entity, and how the referring items are found.

use crate::{
    design::{AccessPattern, Design, Entity, ResultKind, SortBound, Wall},
    field::{Field, OnDelete},
};

/// A field of an entity that refers to another one.
#[derive(Debug, Clone)]
pub struct ReferringField<'d> {
    /// The entity that refers.
    pub entity: &'d Entity,
    /// The field with the target's id.
    pub field: &'d Field,
    /// What deleting the target does.
    pub on_delete: OnDelete,
    /// How the items that refer to one target are found.
    pub lookup: ReferrerLookup<'d>,
}

/// How the items that refer to one target are found.
#[derive(Debug, Clone)]
pub enum ReferrerLookup<'d> {
    /// By key: there is at most one, and its key consists of the target's id.
    Key,
    /// By an access pattern.
    Access {
        /// The pattern.
        access: &'d AccessPattern,
        /// The parameter for the target's id; `None`: the tenant is enough.
        parameter: Option<&'d str>,
    },
}

impl Design {
    /// The fields that refer to an entity.
    pub fn referring_fields<'d>(&'d self, target: &Entity) -> Vec<ReferringField<'d>> {
        let mut found = Vec::new();
        for entity in &self.entities {
            for field in &entity.fields {
                let Some(reference) = field.reference.as_ref().filter(|each| each.entity == target.name) else {
                    continue;
                };
                if let Some(way) = self.referrer_lookup(entity, field, target) {
                    found.push(ReferringField { entity, field, on_delete: reference.on_delete, lookup: way });
                }
            }
        }
        found
    }

    /// How all items that refer to one target by this field are found, without a scan.
    pub(crate) fn referrer_lookup<'d>(
        &'d self,
        entity: &'d Entity,
        field: &'d Field,
        target: &Entity,
    ) -> Option<ReferrerLookup<'d>> {
        let is_tenant = entity.tenant.as_deref() == Some(field.name.as_str());
        // An operator deletes items without a tenant, and has to find the referring items of all tenants.
        let of_all = target.wall == Wall::System || target.tenant.is_none();
        let reaches = |wall: Wall| !of_all || entity.implied_tenant(wall).is_none();
        if entity.id_fields() == [field.name.as_str()] && reaches(entity.wall) {
            return Some(ReferrerLookup::Key);
        }
        let finds = |access: &&AccessPattern| {
            let sparse = access.mapping.and_then(|at| entity.indexes[at].when.as_ref());
            let whole = access.returns == ResultKind::Many
                && !matches!(access.bound, SortBound::Prefix(_))
                && sparse.is_none_or(|when| when.is_presence_of(&field.name))
                && access.filter.as_ref().is_none_or(|filter| filter.only_compares_with_parameter(&field.name));
            let by =
                access.by == [field.name.as_str()] || (is_tenant || access.filter.is_some()) && access.by.is_empty();
            whole && by && reaches(self.wall_of(access))
        };
        let access = self.access_patterns_of(entity).find(finds)?;
        let filter = access.filter.as_ref().and_then(|filter| Some(filter.parameters().first()?.0));
        let by = access.by.first().map(String::as_str);
        Some(ReferrerLookup::Access { access, parameter: filter.or(by) })
    }
}
