//! Whether a directory is whole: items, index entries, expiries and changes agree.

use std::{
    collections::{BTreeMap, HashMap},
    ops::{Bound, ControlFlow},
    path::PathBuf,
};

use nagaya_store::{Error, Item};

use super::{Progress, each_item, tables};
use crate::{
    Embedded,
    backing::View,
    layout::{self, Space},
    read::index_number,
    record::{self, Table},
};

/// Findings that are named; more are counted only.
const NAMED: usize = 1_000;

/// Items whose last change is remembered at a time. A table with more changes is read several times, so that memory stays small.
const REMEMBERED: u64 = 500_000;

/// Something that does not agree with the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The table, as far as it is known.
    pub table: String,
    /// What is wrong, and with what.
    pub what: String,
}

impl Embedded {
    /// Checks that the sorted files are what was written, and that every index entry, expiry and change agrees with the items;
    /// names what is not so.
    pub fn verify(&self, progress: Progress<'_>) -> Result<Vec<Finding>, Error> {
        let files = self.backing().disk().map_or(Ok(Vec::new()), |disk| disk.damaged_files())?;
        let finding = |path: &PathBuf| {
            let what = format!("{} is missing or not what was written; restore a backup", path.display());
            Finding { table: String::new(), what }
        };
        let mut findings: Vec<_> = files.iter().map(finding).collect();
        match self.verify_entries(progress) {
            Ok(found) => findings.extend(found),
            // What lies in a damaged file cannot be read, and the file has been named.
            Err(error) if findings.is_empty() => return Err(error),
            Err(_) => {}
        }
        Ok(findings)
    }

    fn verify_entries(&self, progress: Progress<'_>) -> Result<Vec<Finding>, Error> {
        let view = self.backing().view()?;
        let tables = tables(&view)?;
        let (findings, more) = (Vec::new(), BTreeMap::new());
        let mut verifier = Verifier { view: &view, tables: &tables, findings, more, seen: 0, progress };
        for table in &tables {
            verifier.items(table)?;
            verifier.changes(table)?;
        }
        verifier.index_entries()?;
        verifier.expiries()?;
        let Verifier { mut findings, more, .. } = verifier;
        findings.extend(more.into_iter().map(|(table, more)| Finding { table, what: format!("and {more} more") }));
        Ok(findings)
    }
}

struct Verifier<'a> {
    view: &'a View<'a>,
    tables: &'a [Table],
    findings: Vec<Finding>,
    /// Findings that are not named, by table.
    more: BTreeMap<String, u64>,
    seen: u64,
    progress: Progress<'a>,
}

impl<'a> Verifier<'a> {
    fn found(&mut self, table: &str, what: String) {
        if self.findings.len() < NAMED {
            self.findings.push(Finding { table: table.to_owned(), what });
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
        self.tables.iter().find(|table| bytes.starts_with(&layout::table(table.id)))
    }

    /// Every item lies under its own key, in the indexes that it belongs to, and among the expiries.
    fn items(&mut self, table: &Table) -> Result<(), Error> {
        let view = self.view;
        each_item(view, table, |bytes, value, item| {
            self.step();
            let name = &table.spec.name;
            let Some(key) = table.spec.key.key_of(&item).filter(|key| layout::item(table.id, key) == bytes) else {
                self.found(name, "an item lies under a key that is not its own".to_owned());
                return Ok(());
            };
            for (at, index) in table.spec.indexes.iter().enumerate() {
                let number = index_number(at)?;
                // One that is being built does not have everything yet.
                let Some(index_key) = index.key_of(&item).filter(|_| table.is_built(number)) else { continue };
                let entry = layout::index_entry(table.id, number, &index_key, &key);
                match view.get(Space::Index, &entry)?.map(|stored| *stored == *value) {
                    Some(true) => {}
                    Some(false) => {
                        self.found(name, format!("the entry of `{key}` in `{}` is not the item", index.name));
                    }
                    None => self.found(name, format!("`{key}` is missing from `{}`", index.name)),
                }
            }
            if let Some(second) = table.spec.expiry_of(&item)
                && view.get(Space::Expiry, &layout::expiry(second, bytes))?.is_none()
            {
                self.found(name, format!("the expiry of `{key}` is missing"));
            }
            Ok(())
        })
    }

    /// Every index entry is of an item that belongs there.
    fn index_entries(&mut self) -> Result<(), Error> {
        let view = self.view;
        view.range(Space::Index, Bound::Unbounded, None, false, |bytes, value| {
            self.step();
            let item = record::decode_item(value)?;
            let table = self.table_of(bytes);
            let index = table.and_then(|table| table.spec.indexes.get(usize::from(*bytes.get(2)?)));
            let (Some(table), Some(index)) = (table, index) else {
                self.found("", "an index entry is of no table or index".to_owned());
                return Ok(ControlFlow::Continue(()));
            };
            if !table.is_built(bytes[2]) {
                return Ok(ControlFlow::Continue(()));
            }
            let keys = table.spec.key.key_of(&item).zip(index.key_of(&item));
            let right = match &keys {
                Some((key, index_key)) => {
                    layout::index_entry(table.id, bytes[2], index_key, key) == bytes
                        && view.get(Space::Items, &layout::item(table.id, key))?.is_some_and(|stored| *stored == *value)
                }
                None => false,
            };
            if !right {
                let key = keys.map_or_else(String::new, |(key, _)| key.to_string());
                self.found(&table.spec.name, format!("`{}` has an entry `{key}` that no item gives", index.name));
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Every expiry is that of an item.
    fn expiries(&mut self) -> Result<(), Error> {
        let view = self.view;
        view.range(Space::Expiry, Bound::Unbounded, None, false, |bytes, _| {
            self.step();
            if !is_expiry_of_item(view, self.tables, bytes)? {
                let table = self.table_of(bytes.get(8..).unwrap_or_default());
                let table = table.map_or_else(String::new, |table| table.spec.name.clone());
                self.found(&table, "an expiry is of no item that expires then".to_owned());
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The changes of an item follow from each other, and the last leads to what is stored.
    fn changes(&mut self, table: &Table) -> Result<(), Error> {
        let mut count = 0_u64;
        let prefix = layout::table(table.id);
        let end = layout::after_prefix(&prefix);
        self.view.range(Space::Changes, Bound::Included(prefix), end, false, |_, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let shares = count.div_ceil(REMEMBERED);
        (0..shares).try_for_each(|share| self.changes_of(table, share, shares))
    }

    /// The same for one share of the items.
    fn changes_of(&mut self, table: &Table, share: u64, shares: u64) -> Result<(), Error> {
        let view = self.view;
        let name = &table.spec.name;
        // The hash of the last image stands for it: whole images of all items would not fit.
        let mut last: HashMap<Vec<u8>, Option<[u8; 32]>> = HashMap::new();
        let hash = |item: &Option<Item>| -> Result<Option<[u8; 32]>, Error> {
            item.as_ref().map(|item| Ok(*blake3::hash(&record::encode(item)?).as_bytes())).transpose()
        };
        let prefix = layout::table(table.id);
        let end = layout::after_prefix(&prefix);
        view.range(Space::Changes, Bound::Included(prefix), end, false, |bytes, value| {
            let change = record::decode_change(value)?;
            let key = layout::item(table.id, &change.key);
            if shares > 1 && share_of(&key, shares) != share {
                return Ok(ControlFlow::Continue(()));
            }
            self.step();
            if let Some(before) = last.get(&key)
                && *before != hash(&change.old)?
            {
                let sequence = layout::sequence(bytes).unwrap_or(0);
                self.found(name, format!("change {sequence} of `{}` does not follow from the one before", change.key));
            }
            last.insert(key, hash(&change.new)?);
            Ok(ControlFlow::Continue(()))
        })?;
        for (key, image) in last {
            let stored = view.get(Space::Items, &key)?.map(|value| *blake3::hash(&value).as_bytes());
            if stored != image {
                self.found(name, "the last change of an item does not lead to what is stored".to_owned());
            }
        }
        Ok(())
    }
}

/// Whether the key of an expiry is that of an item which expires then.
pub(super) fn is_expiry_of_item(view: &View<'_>, tables: &[Table], expiry: &[u8]) -> Result<bool, Error> {
    let place = expiry.get(8..).unwrap_or_default();
    let table = tables.iter().find(|table| place.starts_with(&layout::table(table.id)));
    let item = view.get(Space::Items, place)?.map(|value| record::decode_item(&value)).transpose()?;
    let second = table.zip(item).and_then(|(table, item)| table.spec.expiry_of(&item));
    Ok(second.is_some_and(|second| layout::expiry(second, place) == expiry))
}

fn share_of(key: &[u8], shares: u64) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(key).as_bytes()[..8]);
    u64::from_be_bytes(first) % shares
}

#[cfg(test)]
mod tests {
    use nagaya_store::{Key, KeySchema, Store as _, TableSpec, Write};

    use super::*;
    use crate::{Options, backing::Op};

    #[tokio::test]
    async fn changes_read_in_shares_give_the_same_findings() -> Result<(), Error> {
        let store = Embedded::memory(Options { sweep_every: None, ..Options::default() })?;
        store.ensure(&[TableSpec::new("notes", KeySchema::strings("PK", "SK"))]).await?;
        let note =
            |n: u64, round: u64| Item::new().with("PK", "P").with("SK", n.to_string()).with("n", round.to_string());
        for round in 0..3 {
            for n in 0..20 {
                store.write(Write::put("notes", note(n, round)).into()).await?;
            }
        }
        // The change in the middle of one item is lost, and another item is gone without any.
        let lost = layout::change(0, 25).into();
        let gone = layout::item(0, &Key::new("P", "7")).into();
        store.backing().commit(vec![Op::Remove(Space::Changes, lost), Op::Remove(Space::Items, gone)])?;
        let view = store.backing().view()?;
        let tables = tables(&view)?;
        let found = |shares: u64| {
            let progress: Progress<'_> = &mut |_| {};
            let mut verifier = Verifier {
                view: &view,
                tables: &tables,
                findings: Vec::new(),
                more: BTreeMap::new(),
                seen: 0,
                progress,
            };
            for share in 0..shares {
                verifier.changes_of(&tables[0], share, shares)?;
            }
            let mut findings: Vec<_> = verifier.findings.into_iter().map(|finding| finding.what).collect();
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
