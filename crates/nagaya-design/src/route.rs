//! From a stored key back to the entity and the fields that it was made from.

use std::borrow::Cow;

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

/// The keys that can lie in one place, ordered by what their sort key starts with.
#[derive(Debug, Default)]
struct Lanes<'d> {
    sorted: Vec<Lane<'d>>,
    /// Those whose sort key starts with a value.
    open: Vec<Lane<'d>>,
}

#[derive(Debug, Clone, Copy)]
struct Lane<'d> {
    entity: &'d Entity,
    key: &'d KeyTemplates,
    former: bool,
}

/// What a key turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed<'d, 'k> {
    /// Name of the entity.
    pub entity: &'d str,
    /// The fields that are in the key.
    pub fields: Vec<(&'d str, Cow<'k, str>)>,
    /// Whether it has the form of an older key.
    pub former: bool,
    /// Whether each value is one that its field accepts.
    pub typed: bool,
}

impl<'d> Router<'d> {
    /// Prepares the routes of a design.
    pub fn new(design: &'d Design) -> Self {
        let places = design.tables.iter().enumerate().map(|(at, table)| table_lanes(design, at, table)).collect();
        Router { design, places }
    }

    /// The entity whose key this is, in the table with this name in the design.
    pub fn route<'k>(&self, table: &str, partition: &'k str, sort: &'k str) -> Option<Routed<'d, 'k>> {
        self.find(table, None, partition, sort, true)
    }

    /// The entity whose index key this is.
    pub fn route_index<'k>(
        &self,
        table: &str,
        index: &str,
        partition: &'k str,
        sort: &'k str,
    ) -> Option<Routed<'d, 'k>> {
        self.find(table, Some(index), partition, sort, true)
    }

    pub(crate) fn find<'k>(
        &self,
        table: &str,
        index: Option<&str>,
        partition: &'k str,
        sort: &'k str,
        typed: bool,
    ) -> Option<Routed<'d, 'k>> {
        let at = self.design.tables.iter().position(|each| each.id == table)?;
        let place = match index {
            None => 0,
            Some(index) => 1 + self.design.tables[at].indexes.iter().position(|each| each.name == index)?,
        };
        self.places[at][place].candidates(sort).find_map(|lane| lane.read(partition, sort, typed))
    }
}

fn table_lanes<'d>(design: &'d Design, table: usize, of: &Table) -> Vec<Lanes<'d>> {
    let mut places: Vec<Lanes<'d>> = (0..=of.indexes.len()).map(|_| Lanes::default()).collect();
    for entity in design.entities.iter().filter(|entity| entity.table == table) {
        places[0].add(Lane { entity, key: &entity.key, former: false });
        for former in &entity.former_keys {
            places[0].add(Lane { entity, key: former, former: true });
        }
        for mapping in &entity.indexes {
            places[1 + mapping.index].add(Lane { entity, key: &mapping.key, former: false });
        }
    }
    for lanes in &mut places {
        lanes.sorted.sort_by_key(|lane| lane.key.sort.literal_prefix());
    }
    places
}

impl<'d> Lanes<'d> {
    fn add(&mut self, lane: Lane<'d>) {
        match lane.key.sort.literal_prefix() {
            "" => self.open.push(lane),
            _ => self.sorted.push(lane),
        }
    }

    /// Those that `sort` can belong to, the longest beginning first.
    fn candidates(&self, sort: &str) -> impl Iterator<Item = &Lane<'d>> {
        // What is a prefix of a text does not sort after it, and shares its first byte.
        let end = self.sorted.partition_point(|lane| lane.key.sort.literal_prefix() <= sort);
        let first = sort.bytes().next();
        let near = self.sorted[..end].iter().rev();
        near.take_while(move |lane| lane.key.sort.literal_prefix().bytes().next() == first).chain(&self.open)
    }
}

impl<'d> Lane<'d> {
    fn read<'k>(&self, partition: &'k str, sort: &'k str, typed: bool) -> Option<Routed<'d, 'k>> {
        if !sort.starts_with(self.key.sort.literal_prefix()) {
            return None;
        }
        let mut fields = Vec::new();
        read(&self.key.partition, partition, typed, &mut fields)?;
        read(&self.key.sort, sort, typed, &mut fields)?;
        Some(Routed { entity: &self.entity.name, fields, former: self.former, typed })
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
