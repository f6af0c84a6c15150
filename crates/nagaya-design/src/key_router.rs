//! From a stored key back to its entity and fields.

use std::{borrow::Cow, cmp::Reverse};

use crate::{
    design::{Design, Entity, KeyTemplates, Table},
    template::Template,
};

/// Finds the entity of a key. Build it once per design; routing allocates only its result.
#[derive(Debug)]
pub struct KeyRouter<'d> {
    design: &'d Design,
    /// For each table the candidates of its key, then those of its indexes.
    keys: Vec<Vec<Candidates<'d>>>,
}

/// The templates that a key or index key can come from, those with the longest literal prefix first.
type Candidates<'d> = Vec<Candidate<'d>>;

#[derive(Debug, Clone, Copy)]
struct Candidate<'d> {
    entity: &'d Entity,
    key: &'d KeyTemplates,
    former: bool,
    /// The first bytes of its sort keys, and a mask of the bytes to compare.
    first_bytes: u64,
    mask: u64,
}

/// The first eight bytes of a text as a big-endian number, padded with zeros.
fn first_bytes(text: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// The entity and fields of a key.
#[derive(Debug, Clone)]
pub struct RoutedKey<'d, 'k> {
    /// Name of the entity.
    pub entity: &'d str,
    /// The fields that are in the key.
    pub fields: Vec<(&'d str, Cow<'k, str>)>,
    /// Whether it is a former key.
    pub is_former_key: bool,
    /// The templates of the key.
    pub key: &'d KeyTemplates,
}

impl<'d> KeyRouter<'d> {
    /// Prepares a router for a design.
    pub fn new(design: &'d Design) -> Self {
        let keys = design.tables.iter().enumerate().map(|(at, table)| table_candidates(design, at, table)).collect();
        KeyRouter { design, keys }
    }

    /// The entity whose key this is, in the table with this name in the design.
    pub fn route<'k>(&self, table: &str, partition: &'k str, sort: &'k str) -> Option<RoutedKey<'d, 'k>> {
        self.find(table, None, partition, sort, true)?.next()
    }

    /// The entities whose index key this is: several entities can share one index key.
    pub fn route_index<'k>(
        &self,
        table: &str,
        index: &str,
        partition: &'k str,
        sort: &'k str,
    ) -> Vec<RoutedKey<'d, 'k>> {
        self.find(table, Some(index), partition, sort, true).into_iter().flatten().collect()
    }

    /// Every entity that a key of a table or index can belong to; `None` when there is no such table or index.
    pub(crate) fn find<'k>(
        &self,
        table: &str,
        index: Option<&str>,
        partition: &'k str,
        sort: &'k str,
        typed: bool,
    ) -> Option<impl Iterator<Item = RoutedKey<'d, 'k>>> {
        let at = self.design.tables.iter().position(|each| each.id == table)?;
        let position = match index {
            None => 0,
            Some(index) => 1 + self.design.tables[at].indexes.iter().position(|each| each.name == index)?,
        };
        let first_bytes = first_bytes(sort);
        let candidates = self.keys[at][position]
            .iter()
            .filter(move |candidate| first_bytes & candidate.mask == candidate.first_bytes);
        Some(candidates.filter_map(move |candidate| candidate.read(partition, sort, typed)))
    }
}

fn table_candidates<'d>(design: &'d Design, table: usize, of: &Table) -> Vec<Candidates<'d>> {
    let mut keys: Vec<Candidates<'d>> = vec![Vec::new(); of.indexes.len() + 1];
    for entity in design.entities.iter().filter(|entity| entity.table == table) {
        keys[0].push(Candidate::new(entity, &entity.key, false));
        keys[0].extend(entity.former_keys.iter().map(|former| Candidate::new(entity, former, true)));
        for mapping in &entity.indexes {
            keys[1 + mapping.index].push(Candidate::new(entity, &mapping.key, false));
        }
    }
    for candidates in &mut keys {
        candidates.sort_by_key(|candidate| Reverse(candidate.key.sort.literal_prefix().len()));
    }
    keys
}

impl<'d> Candidate<'d> {
    fn new(entity: &'d Entity, key: &'d KeyTemplates, former: bool) -> Self {
        let prefix = key.sort.literal_prefix();
        let mask = if prefix.len() >= 8 { u64::MAX } else { !(u64::MAX >> (8 * prefix.len())) };
        Candidate { entity, key, former, first_bytes: first_bytes(prefix), mask }
    }

    fn read<'k>(&self, partition: &'k str, sort: &'k str, typed: bool) -> Option<RoutedKey<'d, 'k>> {
        let mut fields = Vec::new();
        read(&self.key.partition, partition, typed, &mut fields)?;
        read(&self.key.sort, sort, typed, &mut fields)?;
        Some(RoutedKey { entity: &self.entity.name, fields, is_former_key: self.former, key: self.key })
    }
}

/// Adds the values of a key. A field that occurs twice must have the same value.
fn read<'d, 'k>(
    template: &'d Template,
    key: &'k str,
    typed: bool,
    fields: &mut Vec<(&'d str, Cow<'k, str>)>,
) -> Option<()> {
    let mut agree = true;
    template.parse(key, typed, |slot, value| match fields.iter().find(|(path, _)| *path == slot.path) {
        Some((_, earlier)) => agree &= *earlier == value,
        None => fields.push((&slot.path, value)),
    })?;
    agree.then_some(())
}
