//! The status of tables, and dropping them.

use aws_sdk_dynamodb::types::Select;
use nagaya_store::{Error, ErrorKind};

use super::{DesiredTable, existing, wait};
use crate::engine::Dynamodb;

/// The status of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    /// Its name.
    pub table: String,
    /// Its status in lower case; `None`: it does not exist.
    pub status: Option<String>,
    /// The number of items, as the server last counted them: on AWS, up to six hours ago.
    pub items: i64,
    /// Their size in bytes.
    pub bytes: i64,
    /// Its indexes, first those of the design.
    pub indexes: Vec<IndexState>,
}

/// The status of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexState {
    /// Its name.
    pub name: String,
    /// Its status in lower case; `None`: it does not exist.
    pub status: Option<String>,
    /// Whether it is being backfilled.
    pub backfilling: bool,
    /// The number of its items, as the server last counted them.
    pub items: Option<i64>,
    /// Whether the design has it.
    pub in_design: bool,
}

impl Dynamodb {
    /// The status of tables.
    pub async fn table_states(&self, wanted: &[DesiredTable]) -> Result<Vec<TableState>, Error> {
        let mut looks = Vec::new();
        for wanted in wanted {
            let table = &wanted.spec.name;
            let found =
                existing::describe(self, table).await?.map(|described| existing::from_description(table, &described));
            let there = found.as_ref().map_or(&[][..], |found| &found.indexes);
            let look = |index: &existing::Index, wanted| IndexState {
                name: index.name.clone(),
                status: Some(index.status.as_str().to_lowercase()),
                backfilling: index.backfilling,
                items: index.items,
                in_design: wanted,
            };
            let missing = |name: &str| IndexState {
                name: name.to_owned(),
                status: None,
                backfilling: false,
                items: None,
                in_design: true,
            };
            let expected = wanted.spec.indexes.iter().map(|index| {
                let found = there.iter().find(|found| found.name == index.name);
                found.map_or_else(|| missing(&index.name), |found| look(found, true))
            });
            let others = there.iter().filter(|found| wanted.spec.index(&found.name).is_none());
            looks.push(TableState {
                table: table.clone(),
                status: found.as_ref().map(|found| found.status.as_str().to_lowercase()),
                items: found.as_ref().map_or(0, |found| found.items),
                bytes: found.as_ref().map_or(0, |found| found.bytes),
                indexes: expected.chain(others.map(|found| look(found, false))).collect(),
            });
        }
        Ok(looks)
    }

    /// Whether a table has an item; `None`: it does not exist. This reads an item, because the server's count is hours old.
    pub async fn has_items(&self, table: &str) -> Result<Option<bool>, Error> {
        let scan = self.client.scan().table_name(self.name_of(table)).limit(1).consistent_read(true);
        match scan.select(Select::Count).send().await {
            Ok(page) => Ok(Some(page.count() > 0 || page.last_evaluated_key().is_some())),
            Err(failure) => match self.call_error(table, failure) {
                error if matches!(error.kind(), ErrorKind::NoTable(_)) => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Deletes a table with all items, and waits until it is deleted. A missing table is no error.
    pub async fn drop_table(&self, table: &str) -> Result<(), Error> {
        let Some(described) = existing::describe(self, table).await? else { return Ok(()) };
        if existing::from_description(table, &described).protected {
            return Err(Error::invalid(format!(
                "the table `{table}` is protected against deletion: turn that off first (aws dynamodb update-table \
                 --table-name {} --no-deletion-protection-enabled)",
                self.name_of(table)
            )));
        }
        if let Err(failure) = self.client.delete_table().table_name(self.name_of(table)).send().await {
            match existing::code(&failure) {
                // Another process is deleting it or has deleted it.
                "ResourceInUseException" | "ResourceNotFoundException" => {}
                _ => return Err(self.call_error(table, failure)),
            }
        }
        wait::until_deleted(self, table).await
    }
}
