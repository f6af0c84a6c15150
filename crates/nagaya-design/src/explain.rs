//! What a stored key is: its entity, its fields, and the access patterns that reach it.

use std::borrow::Cow;

use crate::{
    design::{AccessPattern, Design, KeyAttributes, Wall},
    key_router::{KeyRouter, RoutedKey},
    query::Query,
    template::{FieldValues, Scalar},
};

/// A part of a key to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPart {
    /// The attribute, if the part names it: `GSI1PK=USER`.
    pub attribute: Option<String>,
    /// Its value.
    pub value: String,
}

/// The explanation of a key.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The table in the design.
    pub table: String,
    /// The index, if it is an index key.
    pub index: Option<String>,
    /// The entity.
    pub entity: String,
    /// The attributes and templates of the key: partition, then sort.
    pub templates: [(String, String); 2],
    /// The fields in the key with their values.
    pub fields: Vec<(String, String)>,
    /// Fields with a value that they do not accept, and what they accept.
    pub invalid_values: Vec<(String, String)>,
    /// Whether it is a former key of the entity.
    pub is_former_key: bool,
    /// Whether only the partition was given.
    pub partition_only: bool,
    /// Its wall.
    pub wall: Wall,
    /// The access patterns that reach it, with their queries.
    pub reached_by: Vec<(String, Query)>,
}

/// The fields of a key.
struct KeyFields<'k>(&'k [(&'k str, Cow<'k, str>)]);

impl FieldValues for KeyFields<'_> {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, value)| Scalar::Text(value))
    }
}

impl Design {
    /// All explanations of a key: a partition and a sort key, or a partition alone.
    pub fn explain(&self, parts: &[KeyPart]) -> Vec<Explanation> {
        let router = KeyRouter::new(self);
        // The best match hides the others: a table key before an index key, and accepted values before others.
        let order = [(true, false), (true, true), (false, false), (false, true)];
        order
            .into_iter()
            .map(|(typed, indexes)| self.explain_keys(&router, parts, typed, indexes))
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn explain_keys(&self, router: &KeyRouter<'_>, parts: &[KeyPart], typed: bool, indexes: bool) -> Vec<Explanation> {
        let mut found = Vec::new();
        for table in &self.tables {
            let keys: Vec<_> = match indexes {
                false => vec![(None, &table.key)],
                true => table.indexes.iter().map(|index| (Some(index.name.as_str()), &index.key)).collect(),
            };
            for (index, attributes) in keys {
                match assign_parts(parts, attributes) {
                    Some((partition, Some(sort))) => found.extend(
                        router
                            .find(&table.id, index, partition, sort, typed)
                            .into_iter()
                            .flatten()
                            .map(|routed| self.explanation(&table.id, index, routed, false)),
                    ),
                    Some((partition, None)) => found.extend(self.explain_partition(&table.id, index, partition, typed)),
                    None => {}
                }
            }
        }
        found
    }

    fn explain_partition(&self, table: &str, index: Option<&str>, partition: &str, typed: bool) -> Vec<Explanation> {
        let entities = self.entities.iter().filter(|entity| self.table_of(entity).id == table);
        let mut found = Vec::new();
        for entity in entities {
            let key = match index {
                None => Some(&entity.key),
                Some(index) => entity.mapping(index).map(|mapping| &mapping.key),
            };
            let Some(key) = key else { continue };
            let mut fields = Vec::new();
            let parsed = key.partition.parse(partition, typed, |slot, value| fields.push((slot.path.as_str(), value)));
            if parsed.is_some() {
                let routed = RoutedKey { entity: &entity.name, fields, is_former_key: false, key };
                found.push(self.explanation(table, index, routed, true));
            }
        }
        found
    }

    fn explanation(
        &self,
        table: &str,
        index: Option<&str>,
        routed: RoutedKey<'_, '_>,
        partition_only: bool,
    ) -> Explanation {
        let entity = self.entities.iter().find(|entity| entity.name == routed.entity);
        let entity = entity.unwrap_or_else(|| unreachable!("the router returns only entities of the design"));
        let mapping = index.and_then(|index| entity.mapping(index));
        let key = routed.key;
        let table_of = self.table_of(entity);
        let attributes = mapping.map_or(&table_of.key, |mapping| &table_of.indexes[mapping.index].key);
        let doubts = routed.fields.iter().filter_map(|(path, value)| {
            let field = entity.field(path)?;
            let accepted = field.text_syntax.as_ref().is_none_or(|form| form.accepts(value));
            (!accepted).then(|| ((*path).to_owned(), field.expectation()))
        });
        Explanation {
            table: table.to_owned(),
            index: index.map(str::to_owned),
            entity: entity.name.clone(),
            templates: [
                (attributes.partition.clone(), key.partition.as_str().to_owned()),
                (attributes.sort.clone(), key.sort.as_str().to_owned()),
            ],
            invalid_values: doubts.collect(),
            fields: routed.fields.iter().map(|(path, value)| ((*path).to_owned(), value.to_string())).collect(),
            is_former_key: routed.is_former_key,
            partition_only,
            wall: mapping.map_or(entity.wall, |mapping| mapping.wall),
            reached_by: self
                .access_patterns_of(entity)
                .filter(|access| !routed.is_former_key || access.mapping.is_some())
                .map(|access: &AccessPattern| {
                    (access.name.clone(), self.query_outline(access, &KeyFields(&routed.fields)))
                })
                .collect(),
        }
    }
}

/// The partition and the sort key among the parts; `None` if a part names an attribute of another key.
fn assign_parts<'p>(parts: &'p [KeyPart], attributes: &KeyAttributes) -> Option<(&'p str, Option<&'p str>)> {
    let mut partition = None;
    let mut sort = None;
    for part in parts {
        let target = match part.attribute.as_deref() {
            Some(name) if name == attributes.partition => &mut partition,
            Some(name) if name == attributes.sort => &mut sort,
            Some(_) => return None,
            None if partition.is_none() => &mut partition,
            None => &mut sort,
        };
        if target.replace(part.value.as_str()).is_some() {
            return None;
        }
    }
    Some((partition?, sort))
}
