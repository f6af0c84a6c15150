//! Formats of the directory: an older one is upgraded when it is opened.

use std::ops::ControlFlow;

use nagaya_store::{Error, ErrorKind};

use crate::{
    bytes::random_bytes,
    layout::Keyspace,
    record::{self, COMMIT_KEY_KEY, ENCRYPTED_FORMAT, FORMAT, FORMAT_KEY, INCARNATION_KEY, Table, TableFormat1},
    storage::{CommitKey, Op, Storage},
};

/// A directory of an older format that is not to be upgraded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the directory has format {0}, which this version upgrades to format {FORMAT}; earlier versions cannot open it then"
)]
struct OlderFormat(u32);

/// Whether an error says that a directory has an older format, which [`Options::upgrade`](crate::Options::upgrade) would upgrade.
pub fn is_older_format(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Engine(cause) if cause.is::<OlderFormat>())
}

/// Refuses an older format.
pub(crate) fn refuse_older(format: Option<u32>) -> Result<(), Error> {
    match format {
        Some(found @ ..FORMAT) => Err(Error::engine(OlderFormat(found))),
        _ => Ok(()),
    }
}

/// Upgrades a directory to the format of this version, in one commit.
pub(crate) fn to_current_format(storage: &Storage) -> Result<(), Error> {
    match storage.view()?.get_decoded::<u32>(Keyspace::Meta, FORMAT_KEY)? {
        Some(FORMAT | ENCRYPTED_FORMAT) => Ok(()),
        Some(1) => from_format_1(storage),
        Some(found) => Err(Error::engine(format!(
            "the directory has format {found}, and this version knows formats 1 to {ENCRYPTED_FORMAT}; use the version that wrote it, or \
             an older backup"
        ))),
        None => Err(Error::engine("the directory has no format number: it is not a directory of a store")),
    }
}

fn from_format_1(storage: &Storage) -> Result<(), Error> {
    let mut ops = match storage.disk() {
        Some(disk) => initial_records(disk.commit_key())?,
        None => initial_records(&CommitKey::random()?)?,
    };
    storage.view()?.scan_prefix(Keyspace::Meta, record::table_key(""), |key, value| {
        let table: Table = record::decode::<TableFormat1>(value)?.into();
        ops.push(Op::Put(Keyspace::Meta, key.into(), record::encode(&table)?.into()));
        Ok(ControlFlow::Continue(()))
    })?;
    storage.commit(ops)?;
    tracing::info!(from = 1, to = FORMAT, "the directory has been upgraded to the current format");
    Ok(())
}

/// Writes the first records of an empty store.
pub(crate) fn initialize(storage: &Storage) -> Result<(), Error> {
    storage.commit(initial_records(&CommitKey::random()?)?)
}

/// The first records of a store: its format, its incarnation, and the key of its commits.
pub(crate) fn initial_records(key: &CommitKey) -> Result<Vec<Op>, Error> {
    Ok(vec![
        Op::Put(Keyspace::Meta, FORMAT_KEY.into(), record::encode(&FORMAT)?.into()),
        new_incarnation()?,
        Op::Put(Keyspace::Meta, COMMIT_KEY_KEY.into(), key.bytes().into()),
    ])
}

/// Gives the store a new identity: positions and backups from before cannot be continued.
pub(crate) fn new_incarnation() -> Result<Op, Error> {
    Ok(Op::Put(Keyspace::Meta, INCARNATION_KEY.into(), random_bytes::<16>()?.into()))
}
