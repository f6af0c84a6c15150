//! A copy of a store in one file, and back.

use std::{
    fmt,
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

use nagaya_store::{Error, Item};
use serde::{Deserialize, Serialize};

use super::{Filler, Hash, Progress, each_item};
use crate::{
    Embedded, Options,
    record::{self, BuiltTable, Table},
};

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Tables.
    pub tables: u64,
    /// Items.
    pub items: u64,
    /// The hash of all of them; the same as that of the store when it was made.
    pub content_hash: String,
}

const MAGIC: &[u8; 8] = b"NAGAYA01";

/// The largest record that a backup can hold; anything larger is damage.
const MAX_RECORD: usize = 1 << 20;

/// One record of a backup.
#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Table(BuiltTable),
    Item(Item),
    /// Closes the file: how many items there are, and the hash of everything.
    End {
        items: u64,
        content_hash: String,
    },
}

/// A backup file that cannot be restored.
#[derive(Debug)]
struct Damaged(&'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the backup {}; nothing was restored", self.0)
    }
}

impl std::error::Error for Damaged {}

impl Embedded {
    /// Writes all tables and items, as they are at this moment, to one file. Writes go on meanwhile.
    pub fn backup(&self, path: &Path, progress: Progress<'_>) -> Result<Backup, Error> {
        // The file has its name only once it is whole.
        let partial = path.with_extension("partial");
        let mut out = BufWriter::new(File::create(&partial).map_err(Error::engine)?);
        out.write_all(MAGIC).map_err(Error::engine)?;
        let view = self.backing().view()?;
        let mut hash = Hash::default();
        let (mut tables, mut items) = (0, 0);
        for table in self.sorted_tables() {
            tables += 1;
            hash.table(&table)?;
            write(&mut out, &Record::Table(BuiltTable { id: table.id, spec: table.spec.clone() }))?;
            each_item(&view, &table, |_, value, item| {
                items += 1;
                hash.item(value);
                if items % 1_000 == 0 {
                    progress(items);
                }
                write(&mut out, &Record::Item(item))
            })?;
        }
        let content_hash = hash.text();
        write(&mut out, &Record::End { items, content_hash: content_hash.clone() })?;
        let file = out.into_inner().map_err(|error| Error::engine(error.into_error()))?;
        file.sync_all().map_err(Error::engine)?;
        fs::rename(&partial, path).map_err(Error::engine)?;
        Ok(Backup { tables, items, content_hash })
    }
}

fn write(out: &mut impl Write, record: &Record) -> Result<(), Error> {
    let bytes = record::encode(record)?;
    let length = u32::try_from(bytes.len()).map_err(Error::engine)?;
    out.write_all(&length.to_be_bytes()).map_err(Error::engine)?;
    out.write_all(&bytes).map_err(Error::engine)
}

fn read(input: &mut impl Read) -> Result<Record, Error> {
    let cut = |_| Error::engine(Damaged("ends too early"));
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(cut)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_RECORD {
        return Err(Error::engine(Damaged("is damaged")));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(cut)?;
    record::decode(&bytes).map_err(|_| Error::engine(Damaged("is damaged")))
}

/// Fills a new directory from a backup. The directory must not be there yet, and is not there if anything fails.
pub fn restore_backup(file: &Path, directory: &Path, progress: Progress<'_>) -> Result<Backup, Error> {
    super::restore::into_new(directory, Options::default(), |filler| {
        let mut input = BufReader::new(File::open(file).map_err(Error::engine)?);
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(|_| Error::engine(Damaged("is not one")))?;
        if magic != *MAGIC {
            return Err(Error::engine(Damaged("is not one, or of another version")));
        }
        fill(&mut input, filler, progress)
    })
}

fn fill(input: &mut impl Read, filler: &mut Filler<'_>, progress: Progress<'_>) -> Result<Backup, Error> {
    let mut tables = 0;
    let mut table: Option<Table> = None;
    loop {
        match read(input)? {
            Record::Table(next) => {
                let next = Table::from(next);
                tables += 1;
                filler.table(&next)?;
                table = Some(next);
            }
            Record::Item(item) => {
                let table = table.as_ref().ok_or_else(|| Error::engine(Damaged("is damaged")))?;
                filler.item(table, item)?;
                if filler.items.is_multiple_of(1_000) {
                    progress(filler.items);
                }
            }
            Record::End { items, content_hash } => {
                if items != filler.items || content_hash != filler.hash.text() {
                    return Err(Error::engine(Damaged("does not have the content that it should")));
                }
                return Ok(Backup { tables, items, content_hash });
            }
        }
    }
}
