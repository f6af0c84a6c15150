//! Verification of a directory: files are intact, and items, index entries, expiries and changes match.

use std::{
    collections::{BTreeMap, HashMap},
    ops::{Bound, ControlFlow},
    path::PathBuf,
};

use nagaya_store::{Error, Item};

use super::{Progress, for_each_item, sorted_tables};
use crate::{
    EmbeddedStore,
    layout::{self, Keyspace},
    read::index_number,
    record::{self, Table},
    storage::View,
};

/// The maximum number of findings that are reported one by one; the others are counted.
const MAX_FINDINGS: usize = 1_000;

/// The number of changes that are checked in one pass. A table with more changes is read several times, to limit the
/// memory.
const CHANGES_PER_PASS: u64 = 500_000;

/// Something that is damaged or does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The table; empty if unknown.
    pub table: String,
    /// What is wrong.
    pub problem: String,
    /// How many findings it stands for: 1, or all further ones of the table that are not reported one by one.
    pub count: u64,
}

impl Finding {
    /// One finding.
    pub(in crate::maintenance) fn one(table: impl Into<String>, problem: String) -> Self {
        Finding { table: table.into(), problem, count: 1 }
    }
}

impl EmbeddedStore {
    /// Checks that the sorted files are intact, and that all index entries, expiries and changes match the items.
    /// Returns what is wrong.
    pub fn verify(&self, progress: Progress<'_>) -> Result<Vec<Finding>, Error> {
        let files = self.storage().disk().map_or(Ok(Vec::new()), |disk| disk.damaged_files())?;
        let finding = |path: &PathBuf| {
            let what = format!("{} is missing or not what was written; restore a backup", path.display());
            Finding::one("", what)
        };
        let mut findings: Vec<_> = files.iter().map(finding).collect();
        match self.verify_entries(progress) {
            Ok(found) => findings.extend(found),
            // A damaged file cannot be read, and is already among the findings.
            Err(error) if findings.is_empty() => return Err(error),
            Err(_) => {}
        }
        Ok(findings)
    }

    fn verify_entries(&self, progress: Progress<'_>) -> Result<Vec<Finding>, Error> {
        let view = self.storage().view()?;
        let tables = sorted_tables(&view)?;
        let (findings, more) = (Vec::new(), BTreeMap::new());
        let mut verifier = Verifier { view: &view, tables: &tables, findings, more, seen: 0, progress };
        for table in &tables {
            verifier.items(table)?;
            verifier.changes(table)?;
        }
        verifier.index_entries()?;
        verifier.expiries()?;
        let Verifier { mut findings, more, .. } = verifier;
        let counted = |(table, count)| Finding { table, problem: format!("and {count} more"), count };
        findings.extend(more.into_iter().map(counted));
        Ok(findings)
    }
}

struct Verifier<'a> {
    view: &'a View<'a>,
    tables: &'a [Table],
    findings: Vec<Finding>,
    /// The number of further findings, by table.
    more: BTreeMap<String, u64>,
    seen: u64,
    progress: Progress<'a>,
}

impl<'a> Verifier<'a> {
    fn found(&mut self, table: &str, what: String) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding::one(table, what));
        } else {
            *self.more.entry(table.to_owned()).or_default() += 1;
        }
    }

    fn step(&mut self) {
        self.seen += 1;
        if self.seen.is_multiple_of(1_000) {
            (self.progress)(self.seen);
        }
    }

    fn table_of(&self, bytes: &[u8]) -> Option<&'a Table> {
        self.tables.iter().find(|table| bytes.starts_with(&layout::table_prefix(table.id)))
    }

    /// Checks that every item is stored under its own key, and has its index entries and its expiry.
    fn items(&mut self, table: &Table) -> Result<(), Error> {
        let view = self.view;
        for_each_item(view, table, |bytes, value, item| {
            self.step();
            let name = &table.spec.name;
            let Some(key) = table.spec.key.key_of(&item).filter(|key| layout::item_key(table.id, key) == bytes) else {
                self.found(name, "an item is stored under a key that is not its own".to_owned());
                return Ok(());
            };
            for (at, index) in table.spec.indexes.iter().enumerate() {
                let number = index_number(at)?;
                // An index that is being built does not have all entries yet.
                let Some(index_key) = index.key_of(&item).filter(|_| table.is_built(number)) else { continue };
                let entry = layout::index_entry_key(table.id, number, &index_key, &key);
                match view.get(Keyspace::Index, &entry)?.map(|stored| *stored == *value) {
                    Some(true) => {}
                    Some(false) => {
                        self.found(name, format!("the entry of `{key}` in `{}` does not match the item", index.name));
                    }
                    None => self.found(name, format!("`{key}` is missing from `{}`", index.name)),
                }
            }
            if let Some(second) = table.spec.expiry_of(&item)
                && view.get(Keyspace::Expiry, &layout::expiry_key(second, bytes))?.is_none()
            {
                self.found(name, format!("the expiry of `{key}` is missing"));
            }
            Ok(())
        })
    }

    /// Checks that every index entry belongs to an item.
    fn index_entries(&mut self) -> Result<(), Error> {
        let view = self.view;
        view.range(Keyspace::Index, Bound::Unbounded, None, false, |bytes, value| {
            self.step();
            let item = record::decode_item(value)?;
            let table = self.table_of(bytes);
            let index = table.and_then(|table| table.spec.indexes.get(usize::from(*bytes.get(2)?)));
            let (Some(table), Some(index)) = (table, index) else {
                self.found("", "an index entry belongs to no table or index".to_owned());
                return Ok(ControlFlow::Continue(()));
            };
            if !table.is_built(bytes[2]) {
                return Ok(ControlFlow::Continue(()));
            }
            let keys = table.spec.key.key_of(&item).zip(index.key_of(&item));
            let is_right = match &keys {
                Some((key, index_key)) => {
                    layout::index_entry_key(table.id, bytes[2], index_key, key) == bytes
                        && view
                            .get(Keyspace::Items, &layout::item_key(table.id, key))?
                            .is_some_and(|stored| *stored == *value)
                }
                None => false,
            };
            if !is_right {
                let key = keys.map_or_else(String::new, |(key, _)| key.to_string());
                self.found(&table.spec.name, format!("`{}` has an entry `{key}` without an item", index.name));
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Checks that every expiry belongs to an item.
    fn expiries(&mut self) -> Result<(), Error> {
        let view = self.view;
        view.range(Keyspace::Expiry, Bound::Unbounded, None, false, |bytes, _| {
            self.step();
            if !is_expiry_of_item(view, self.tables, bytes)? {
                let table = self.table_of(bytes.get(8..).unwrap_or_default());
                let table = table.map_or_else(String::new, |table| table.spec.name.clone());
                self.found(&table, "an expiry belongs to no item that expires then".to_owned());
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Checks that each change of an item starts where the one before ends, and that the last one ends at the stored
    /// item.
    fn changes(&mut self, table: &Table) -> Result<(), Error> {
        let mut count = 0_u64;
        self.view.scan_prefix(Keyspace::Changes, layout::table_prefix(table.id), |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let passes = count.div_ceil(CHANGES_PER_PASS);
        (0..passes).try_for_each(|pass| self.changes_in_pass(table, pass, passes))
    }

    /// The same for the items of one pass.
    fn changes_in_pass(&mut self, table: &Table, pass: u64, passes: u64) -> Result<(), Error> {
        let view = self.view;
        let name = &table.spec.name;
        // Hashes instead of items, to limit the memory.
        let mut last: HashMap<Vec<u8>, Option<[u8; 32]>> = HashMap::new();
        let hash = |item: &Option<Item>| -> Result<Option<[u8; 32]>, Error> {
            item.as_ref().map(|item| Ok(*blake3::hash(&record::encode(item)?).as_bytes())).transpose()
        };
        view.scan_prefix(Keyspace::Changes, layout::table_prefix(table.id), |bytes, value| {
            let change = record::decode_change(value)?;
            let key = layout::item_key(table.id, &change.key);
            if passes > 1 && pass_of(&key, passes) != pass {
                return Ok(ControlFlow::Continue(()));
            }
            self.step();
            if let Some(before) = last.get(&key)
                && *before != hash(&change.old)?
            {
                let sequence = layout::change_sequence(bytes).unwrap_or(0);
                self.found(
                    name,
                    format!("change {sequence} of `{}` does not start where the one before ends", change.key),
                );
            }
            last.insert(key, hash(&change.new)?);
            Ok(ControlFlow::Continue(()))
        })?;
        for (key, image) in last {
            let stored = view.get(Keyspace::Items, &key)?.map(|value| *blake3::hash(&value).as_bytes());
            if stored != image {
                self.found(name, "the last change of an item does not end at the stored item".to_owned());
            }
        }
        Ok(())
    }
}

/// Whether an expiry belongs to an item that expires then.
pub(super) fn is_expiry_of_item(view: &View<'_>, tables: &[Table], expiry: &[u8]) -> Result<bool, Error> {
    let item_key = expiry.get(8..).unwrap_or_default();
    let table = tables.iter().find(|table| item_key.starts_with(&layout::table_prefix(table.id)));
    let item = view.get(Keyspace::Items, item_key)?.map(|value| record::decode_item(&value)).transpose()?;
    let second = table.zip(item).and_then(|(table, item)| table.spec.expiry_of(&item));
    Ok(second.is_some_and(|second| layout::expiry_key(second, item_key) == expiry))
}

/// The pass in which the changes of an item are checked.
fn pass_of(key: &[u8], passes: u64) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(key).as_bytes()[..8]);
    u64::from_be_bytes(first) % passes
}

#[cfg(test)]
mod tests {
    use nagaya_store::{Key, KeySchema, Store as _, TableSpec, Write};

    use super::*;
    use crate::{Options, storage::Op};

    #[tokio::test]
    async fn findings_beyond_the_listed_ones_are_counted() -> Result<(), Error> {
        let store = EmbeddedStore::in_memory(Options { sweep_interval: None, ..Options::default() })?;
        store.ensure_tables(&[TableSpec::new("notes", KeySchema::strings("PK", "SK"))]).await?;
        // Entries of an index that the table does not have.
        let item = record::encode(&Item::new().with("PK", "P").with("SK", "1"))?;
        let entry = |n: usize| {
            let key = Key::new("P", n.to_string());
            Op::Put(Keyspace::Index, layout::index_entry_key(0, 7, &key, &key).into(), item.clone().into())
        };
        store.storage().commit((0..MAX_FINDINGS + 5).map(entry).collect())?;
        let found = store.verify(&mut |_| {})?;
        assert_eq!(found.len(), MAX_FINDINGS + 1);
        assert_eq!(found.last().map(|last| (last.problem.as_str(), last.count)), Some(("and 5 more", 5)));
        Ok(())
    }

    #[tokio::test]
    async fn several_passes_give_the_same_findings() -> Result<(), Error> {
        let store = EmbeddedStore::in_memory(Options { sweep_interval: None, ..Options::default() })?;
        store.ensure_tables(&[TableSpec::new("notes", KeySchema::strings("PK", "SK"))]).await?;
        let note =
            |n: u64, round: u64| Item::new().with("PK", "P").with("SK", n.to_string()).with("n", round.to_string());
        for round in 0..3 {
            for n in 0..20 {
                store.write(Write::put("notes", note(n, round)).into()).await?;
            }
        }
        // A change in the middle is missing, and another item was removed without a change.
        let lost = layout::change_key(0, 25).into();
        let gone = layout::item_key(0, &Key::new("P", "7")).into();
        store.storage().commit(vec![Op::Remove(Keyspace::Changes, lost), Op::Remove(Keyspace::Items, gone)])?;
        let view = store.storage().view()?;
        let tables = sorted_tables(&view)?;
        let found = |passes: u64| {
            let progress: Progress<'_> = &mut |_| {};
            let mut verifier = Verifier {
                view: &view,
                tables: &tables,
                findings: Vec::new(),
                more: BTreeMap::new(),
                seen: 0,
                progress,
            };
            for pass in 0..passes {
                verifier.changes_in_pass(&tables[0], pass, passes)?;
            }
            let mut findings: Vec<_> = verifier.findings.into_iter().map(|finding| finding.problem).collect();
            findings.sort();
            Ok::<_, Error>((findings, verifier.seen))
        };
        let whole = found(1)?;
        assert_eq!((whole.0.len(), whole.1), (2, 59), "{whole:?}");
        assert_eq!(found(3)?, whole);
        assert_eq!(found(50)?, whole);
        Ok(())
    }
}
