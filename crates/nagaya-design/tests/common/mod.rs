//! Keys, queries and items of a design, for the tests that hold designs to their documents.

mod designs;

use nagaya_design::{Design, Query, SortCondition};
use serde_json::{Map, Value};

pub(crate) use designs::*;

/// Every key and index attribute that the fields of an item give: `PK=TENANT#t1 SK=USER#u1 GSI1PK=USER …`.
pub(crate) fn derived_keys(design: &Design, entity: &str, fields: &Value) -> String {
    let derived = derived(design, entity, fields).into_iter();
    derived.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// The query that an access pattern becomes.
pub(crate) fn query(design: &Design, access: &str, parameters: &[(&str, &str)]) -> Query {
    let found = design.access_pattern(access).unwrap_or_else(|| panic!("no access pattern {access}"));
    design.query(found, parameters).unwrap_or_else(|unfit| panic!("{access}: {unfit}"))
}

/// Whether a store would return this item for the query.
pub(crate) fn finds(design: &Design, query: &Query, entity: &str, fields: &Value) -> bool {
    let attributes = derived(design, entity, fields);
    let value = |name: &str| attributes.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str());
    let entity = design.entity(entity).unwrap_or_else(|| panic!("no entity {entity}"));
    let sort = value(&query.sort_attribute);
    design.table_of(entity).id == query.table
        && value(&query.partition_attribute) == Some(query.partition.as_str())
        && sort.is_some_and(|sort| match &query.sort {
            SortCondition::Nothing => false,
            SortCondition::Any => true,
            SortCondition::Equal(key) => sort == key,
            SortCondition::BeginsWith(key) => sort.starts_with(key),
            SortCondition::Between(from, to) => from.as_str() <= sort && sort <= to.as_str(),
            SortCondition::AtLeast(from) => from.as_str() <= sort,
            SortCondition::Below(to) => sort < to.as_str(),
        })
        && query.discriminator.as_ref().is_none_or(|(_, kind)| entity.discriminator.as_ref() == Some(kind))
        && query.filter.as_ref().is_none_or(|filter| filter.is_satisfied_by(object(fields)))
}

fn derived(design: &Design, entity: &str, fields: &Value) -> Vec<(String, String)> {
    let found = design.entity(entity).unwrap_or_else(|| panic!("no entity {entity}"));
    let derived = design.derived_attributes(found, object(fields)).into_iter();
    let present = derived.filter_map(|(name, value)| match value {
        Ok(value) => value.map(|value| (name, value)),
        Err(unfit) => panic!("{entity}: {name}: {unfit}"),
    });
    present.collect()
}

fn object(fields: &Value) -> &Map<String, Value> {
    fields.as_object().expect("the fields of an item are an object")
}
