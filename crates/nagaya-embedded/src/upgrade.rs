//! Formats: a directory of an earlier one is brought up to date when it is opened.

use std::{
    fmt,
    ops::{Bound, ControlFlow},
};

use nagaya_store::Error;

use crate::{
    backing::{Backing, CommitKey, Op},
    layout::{self, Space},
    record::{self, BuiltTable, COMMIT_KEY_KEY, FORMAT, FORMAT_KEY, INCARNATION_KEY, Table},
};

/// The directory was written by a later version.
#[derive(Debug)]
struct UnknownFormat {
    found: u32,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the directory has format {}, and this version knows formats 1 to {FORMAT}; use the version that wrote it, or \
             a backup from before",
            self.found
        )
    }
}

impl std::error::Error for UnknownFormat {}

/// Brings what a directory holds to the format of this version, in one commit.
pub(crate) fn bring_up_to_date(backing: &Backing) -> Result<(), Error> {
    let found: Option<u32> =
        backing.view()?.get(Space::Meta, FORMAT_KEY)?.map(|value| record::decode(&value)).transpose()?;
    match found {
        Some(FORMAT) => Ok(()),
        Some(1) => from_1(backing),
        Some(found) => Err(Error::engine(UnknownFormat { found })),
        None => Err(Error::engine("the directory does not say what format it has: it is not one of a store")),
    }
}

fn from_1(backing: &Backing) -> Result<(), Error> {
    let mut ops = match backing.disk() {
        Some(disk) => current(disk.commit_key())?,
        None => current(&CommitKey::random()?)?,
    };
    let prefix = record::table_key("");
    let end = layout::after_prefix(&prefix);
    backing.view()?.range(Space::Meta, Bound::Included(prefix), end, false, |key, value| {
        let table: Table = record::decode::<BuiltTable>(value)?.into();
        ops.push(Op::Put(Space::Meta, key.into(), record::encode(&table)?.into()));
        Ok(ControlFlow::Continue(()))
    })?;
    backing.commit(ops)?;
    tracing::info!(from = 1, to = FORMAT, "the directory has been brought to the current format");
    Ok(())
}

/// Marks an empty store as one of this version.
pub(crate) fn begin(backing: &Backing) -> Result<(), Error> {
    backing.commit(current(&CommitKey::random()?)?)
}

/// What a store of this version has: its format, random bytes that tell it from all others, and the key of its commits.
pub(crate) fn current(key: &CommitKey) -> Result<Vec<Op>, Error> {
    Ok(vec![
        Op::Put(Space::Meta, FORMAT_KEY.into(), record::encode(&FORMAT)?.into()),
        incarnation()?,
        Op::Put(Space::Meta, COMMIT_KEY_KEY.into(), key.bytes().into()),
    ])
}

/// Makes a store another one than it was: positions and backups of before do not go on from here.
pub(crate) fn incarnation() -> Result<Op, Error> {
    let mut incarnation = [0; 16];
    getrandom::fill(&mut incarnation).map_err(|error| Error::engine(error.to_string()))?;
    Ok(Op::Put(Space::Meta, INCARNATION_KEY.into(), incarnation.into()))
}
