//! Access patterns: their parameters and results.

use super::{CALLERS, Differences, READERS, text};
use crate::{
    design::{AccessPattern, Design, SortBound},
    query::AccessParameter,
};

impl Differences {
    pub(super) fn access(
        &mut self,
        path: &str,
        (old_design, old): (&Design, &AccessPattern),
        (new_design, new): (&Design, &AccessPattern),
    ) {
        let (old_entity, new_entity) = (&old_design.entities[old.entity], &new_design.entities[new.entity]);
        self.compare_value(path, "the entity", &old_entity.name, &new_entity.name, Some(CALLERS));
        self.description(path, &old.description, &new.description);
        let index = |design: &Design, access: &AccessPattern| {
            let entity = &design.entities[access.entity];
            access.mapping.map_or_else(|| "key".to_owned(), |at| entity.indexes[at].name.clone())
        };
        // Another index returns the same items only if it has the same order and the same condition.
        let order_and_condition = |design: &Design, access: &AccessPattern| {
            let entity = &design.entities[access.entity];
            let when = access.mapping.and_then(|at| entity.indexes[at].when.as_ref()).map(ToString::to_string);
            (design.key_of_access(access).1.sort.as_str().to_owned(), when)
        };
        let differs = order_and_condition(old_design, old) != order_and_condition(new_design, new);
        let other = differs.then_some("it may return other items, or in another order");
        self.compare_value(path, "the index", index(old_design, old), index(new_design, new), other);
        self.parameters(path, (old_design, old), (new_design, new));
        self.compare_value(path, "the filter", text(&old.filter), text(&new.filter), Some("it returns other items"));
        let order = |access: &AccessPattern| if access.descending { "descending" } else { "ascending" };
        self.compare_value(path, "the order", order(old), order(new), Some("it returns items in another order"));
        self.compare_value(path, "what it returns", old.returns, new.returns, Some(CALLERS));
        self.projection(path, &old.projection, &new.projection);
        let (old_wall, new_wall) = (old_design.wall_of(old), new_design.wall_of(new));
        self.compare_value(path, "the wall", old_wall, new_wall, Some("who may use it changes"));
        // Without a path it had no callers.
        self.compare_value(path, "the path", text(&old.path), text(&new.path), old.path.as_ref().map(|_| CALLERS));
        self.compare_value(path, "the page size", old.limit, new.limit, None);
    }

    /// Fewer parameters, or a new optional one, break nothing.
    fn parameters(
        &mut self,
        path: &str,
        (old_design, old): (&Design, &AccessPattern),
        (new_design, new): (&Design, &AccessPattern),
    ) {
        let given = |design: &Design, access: &AccessPattern| {
            let parameters = design.parameters(access).into_iter().filter(|parameter| !parameter.from_token);
            parameters.collect::<Vec<_>>()
        };
        let (before, after) = (given(old_design, old), given(new_design, new));
        let names = |parameters: &[AccessParameter]| {
            parameters.iter().map(|each| each.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let is_removed = before.iter().any(|parameter| !after.iter().any(|each| each.name == parameter.name));
        let is_demanded = after.iter().any(|parameter| parameter.required && !before.contains(parameter));
        let breaks = (is_removed || is_demanded).then_some(CALLERS);
        self.compare_value(path, "the parameters", names(&before), names(&after), breaks);
        let is_prefix = |access: &AccessPattern| matches!(access.bound, SortBound::Prefix(_));
        if before == after && is_prefix(old) != is_prefix(new) {
            let what = if is_prefix(new) { "a prefix is enough" } else { "the whole value has to be given" };
            self.add(path, what, (!is_prefix(new)).then_some(CALLERS));
        }
    }

    fn projection(&mut self, path: &str, old: &[String], new: &[String]) {
        // No projection means all fields.
        let is_narrower = !new.is_empty() && (old.is_empty() || old.iter().any(|field| !new.contains(field)));
        if old != new {
            self.add(path, "the fields that it returns changed", is_narrower.then_some(READERS));
        }
    }
}
