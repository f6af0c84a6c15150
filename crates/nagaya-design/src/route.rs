//! From a stored key back to the entity and the fields that it was made from.

use std::{borrow::Cow, cmp::Reverse};

use crate::{
    design::{Design, Entity, KeyTemplates, Table},
    template::Template,
};

/// Finds the entity of a key. Made once per design; routing allocates nothing but its result.
#[derive(Debug)]
pub struct Router<'d> {
    design: &'d Design,
    /// For each table its key, then its indexes.
    places: Vec<Vec<Lanes<'d>>>,
}

/// The keys that can lie in one place, those with the longest beginning first.
type Lanes<'d> = Vec<Lane<'d>>;

#[derive(Debug, Clone, Copy)]
struct Lane<'d> {
    entity: &'d Entity,
    key: &'d KeyTemplates,
    former: bool,
    /// The first bytes that its sort keys have, and which of them count.
    head: u64,
    mask: u64,
}

/// The first eight bytes of a text, the first one highest; zeros where it is shorter.
fn head(text: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// What a key turned out to be.
#[derive(Debug, Clone)]
pub struct Routed<'d, 'k> {
    /// Name of the entity.
    pub entity: &'d str,
    /// The fields that are in the key.
    pub fields: Vec<(&'d str, Cow<'k, str>)>,
    /// Whether it has the form of an older key.
    pub former: bool,
    /// The templates that it was made from.
    pub key: &'d KeyTemplates,
}

impl<'d> Router<'d> {
    /// Prepares the routes of a design.
    pub fn new(design: &'d Design) -> Self {
        let places = design.tables.iter().enumerate().map(|(at, table)| table_lanes(design, at, table)).collect();
        Router { design, places }
    }

    /// The entity whose key this is, in the table with this name in the design.
    pub fn route<'k>(&self, table: &str, partition: &'k str, sort: &'k str) -> Option<Routed<'d, 'k>> {
        self.find(table, None, partition, sort, true)?.next()
    }

    /// The entities whose index key this is: in an index, several can have the same.
    pub fn route_index<'k>(&self, table: &str, index: &str, partition: &'k str, sort: &'k str) -> Vec<Routed<'d, 'k>> {
        self.find(table, Some(index), partition, sort, true).into_iter().flatten().collect()
    }

    /// All that a key of a table (or of one of its indexes) can be; `None` when there is no such place.
    pub(crate) fn find<'k>(
        &self,
        table: &str,
        index: Option<&str>,
        partition: &'k str,
        sort: &'k str,
        typed: bool,
    ) -> Option<impl Iterator<Item = Routed<'d, 'k>>> {
        let at = self.design.tables.iter().position(|each| each.id == table)?;
        let place = match index {
            None => 0,
            Some(index) => 1 + self.design.tables[at].indexes.iter().position(|each| each.name == index)?,
        };
        let head = head(sort);
        let candidates = self.places[at][place].iter().filter(move |lane| head & lane.mask == lane.head);
        Some(candidates.filter_map(move |lane| lane.read(partition, sort, typed)))
    }
}

fn table_lanes<'d>(design: &'d Design, table: usize, of: &Table) -> Vec<Lanes<'d>> {
    let mut places: Vec<Lanes<'d>> = vec![Vec::new(); of.indexes.len() + 1];
    for entity in design.entities.iter().filter(|entity| entity.table == table) {
        places[0].push(Lane::new(entity, &entity.key, false));
        places[0].extend(entity.former_keys.iter().map(|former| Lane::new(entity, former, true)));
        for mapping in &entity.indexes {
            places[1 + mapping.index].push(Lane::new(entity, &mapping.key, false));
        }
    }
    for lanes in &mut places {
        lanes.sort_by_key(|lane| Reverse(lane.key.sort.literal_prefix().len()));
    }
    places
}

impl<'d> Lane<'d> {
    fn new(entity: &'d Entity, key: &'d KeyTemplates, former: bool) -> Self {
        let prefix = key.sort.literal_prefix();
        let mask = if prefix.len() >= 8 { u64::MAX } else { !(u64::MAX >> (8 * prefix.len())) };
        Lane { entity, key, former, head: head(prefix), mask }
    }

    fn read<'k>(&self, partition: &'k str, sort: &'k str, typed: bool) -> Option<Routed<'d, 'k>> {
        let mut fields = Vec::new();
        read(&self.key.partition, partition, typed, &mut fields)?;
        read(&self.key.sort, sort, typed, &mut fields)?;
        Some(Routed { entity: &self.entity.name, fields, former: self.former, key: self.key })
    }
}

/// Adds the values of a key; one that is there already has to be the same.
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
