//! Looking at tables, and dropping them.

use aws_sdk_dynamodb::types::Select;
use nagaya_store::{Error, ErrorKind};

use super::{Wanted, actual, wait};
use crate::engine::Dynamodb;

/// A table as it is at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLook {
    /// Its name.
    pub table: String,
    /// What the server calls its state, in lower case; `None`: it is not there.
    pub state: Option<String>,
    /// How many items it has, as the server last counted them: on AWS, up to six hours ago.
    pub items: i64,
    /// How many bytes they take.
    pub bytes: i64,
    /// Its indexes, those that are wanted first.
    pub indexes: Vec<IndexLook>,
}

/// An index as it is at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLook {
    /// Its name.
    pub name: String,
    /// What the server calls its state, in lower case; `None`: it is not there.
    pub state: Option<String>,
    /// Whether it is still being filled from the items.
    pub backfilling: bool,
    /// How many items are in it, as the server last counted them.
    pub items: Option<i64>,
    /// Whether it is wanted.
    pub wanted: bool,
}

impl Dynamodb {
    /// How tables are at the moment.
    pub async fn look_at_tables(&self, wanted: &[Wanted]) -> Result<Vec<TableLook>, Error> {
        let mut looks = Vec::new();
        for wanted in wanted {
            let table = &wanted.spec.name;
            let found = actual::describe(self, table).await?.map(|described| actual::of(table, &described));
            let there = found.as_ref().map_or(&[][..], |found| &found.indexes);
            let look = |index: &actual::Index, wanted| IndexLook {
                name: index.name.clone(),
                state: Some(index.status.as_str().to_lowercase()),
                backfilling: index.backfilling,
                items: index.items,
                wanted,
            };
            let missing = |name: &str| IndexLook {
                name: name.to_owned(),
                state: None,
                backfilling: false,
                items: None,
                wanted: true,
            };
            let expected = wanted.spec.indexes.iter().map(|index| {
                let found = there.iter().find(|found| found.name == index.name);
                found.map_or_else(|| missing(&index.name), |found| look(found, true))
            });
            let others = there.iter().filter(|found| wanted.spec.index(&found.name).is_none());
            looks.push(TableLook {
                table: table.clone(),
                state: found.as_ref().map(|found| found.status.as_str().to_lowercase()),
                items: found.as_ref().map_or(0, |found| found.items),
                bytes: found.as_ref().map_or(0, |found| found.bytes),
                indexes: expected.chain(others.map(|found| look(found, false))).collect(),
            });
        }
        Ok(looks)
    }

    /// Whether a table holds an item; `None`: it is not there. The server's count is hours old, so an item is looked for.
    pub async fn has_items(&self, table: &str) -> Result<Option<bool>, Error> {
        let scan = self.client.scan().table_name(self.name_of(table)).limit(1).consistent_read(true);
        match scan.select(Select::Count).send().await {
            Ok(page) => Ok(Some(page.count() > 0 || page.last_evaluated_key().is_some())),
            Err(failure) => match self.failed(table, failure) {
                error if matches!(error.kind(), ErrorKind::NoTable(_)) => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Deletes a table with all that is in it, and waits until it is gone. One that is not there is fine.
    pub async fn drop_table(&self, table: &str) -> Result<(), Error> {
        let Some(described) = actual::describe(self, table).await? else { return Ok(()) };
        if actual::of(table, &described).protected {
            return Err(Error::invalid(format!(
                "the table `{table}` is protected against deletion: turn that off first (aws dynamodb update-table \
                 --table-name {} --no-deletion-protection-enabled)",
                self.name_of(table)
            )));
        }
        if let Err(failure) = self.client.delete_table().table_name(self.name_of(table)).send().await {
            match actual::code(&failure) {
                // Somebody else is deleting it, or has.
                "ResourceInUseException" | "ResourceNotFoundException" => {}
                _ => return Err(self.failed(table, failure)),
            }
        }
        wait::gone(self, table).await
    }
}
