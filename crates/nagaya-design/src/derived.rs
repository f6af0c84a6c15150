//! The attributes that follow from an item's fields: its table key and its index keys.

use serde_json::{Map, Value};

use crate::{
    design::{Design, Entity},
    template::{FieldValues, KeyFieldError, Template},
};

/// The key and index attributes of an entity, and how each is rendered.
#[derive(Debug, Clone)]
pub struct DerivedAttributes(Vec<DerivedAttribute>);

#[derive(Debug, Clone)]
struct DerivedAttribute {
    name: String,
    /// Whether it is also a field. Such an attribute keeps its value when an index leaves the item out.
    is_field: bool,
    /// Several indexes may share the attribute: the first one that holds the item gives the value.
    sources: Vec<Source>,
}

#[derive(Debug, Clone)]
struct Source {
    template: Template,
    /// Position of the index mapping in its entity; `None`: the table key.
    mapping: Option<usize>,
}

impl DerivedAttributes {
    /// The derived attributes of an entity, those of the table key first.
    pub fn new(design: &Design, entity: &Entity) -> Self {
        let mut found: Vec<DerivedAttribute> = Vec::new();
        for (at, (attributes, key)) in design.table_of(entity).keys_of(entity).enumerate() {
            for (name, template) in [(&attributes.partition, &key.partition), (&attributes.sort, &key.sort)] {
                let source = Source { template: template.clone(), mapping: at.checked_sub(1) };
                match found.iter_mut().find(|each| each.name == *name) {
                    Some(known) => known.sources.push(source),
                    None => found.push(DerivedAttribute {
                        name: name.clone(),
                        is_field: entity.field(name).is_some(),
                        sources: vec![source],
                    }),
                }
            }
        }
        DerivedAttributes(found)
    }

    /// The value of each attribute for the fields of an item; `None` when no index that uses it holds the item.
    ///
    /// `is_indexed` says whether the condition of an index mapping, given by its position in [`Entity::indexes`], holds
    /// for the item.
    pub fn values(
        &self,
        fields: &(impl FieldValues + ?Sized),
        is_indexed: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (&str, Result<Option<String>, KeyFieldError>)> {
        self.0.iter().filter_map(move |attribute| {
            let source = attribute.sources.iter().find(|source| source.mapping.is_none_or(&is_indexed));
            match source {
                Some(source) => Some((attribute.name.as_str(), source.template.render(fields).map(Some))),
                None if attribute.is_field => None,
                None => Some((attribute.name.as_str(), Ok(None))),
            }
        })
    }
}

impl Design {
    /// The key and index attributes that the fields of an item give; `None` while a sparse index leaves it out.
    pub fn derived_attributes(
        &self,
        entity: &Entity,
        item: &Map<String, Value>,
    ) -> Vec<(String, Result<Option<String>, KeyFieldError>)> {
        let is_indexed =
            |mapping: usize| entity.indexes[mapping].when.as_ref().is_none_or(|when| when.is_satisfied_by(item));
        let attributes = DerivedAttributes::new(self, entity);
        attributes.values(item, is_indexed).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
