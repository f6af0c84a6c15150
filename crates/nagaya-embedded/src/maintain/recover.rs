//! A directory that lost acknowledged commits: what is there, and opening it without what is gone.

use std::path::{Path, PathBuf};

use nagaya_store::{Error, ErrorKind};

use crate::{
    Options,
    backing::{Acknowledged, Backing, Disk, Journals, Lost, Mark, Tail, data, kept_aside},
    lock::Lock,
    upgrade,
};

/// What can be saved of a directory, by its journals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The journals, the oldest first.
    pub journals: Vec<JournalState>,
    /// The number of the last commit that can be read.
    pub last_commit: Option<u64>,
    /// The number of the last commit that is known to have been acknowledged.
    pub acknowledged: u64,
    /// Where the damage is, and what it is; `None`: there is none.
    pub damage: Option<String>,
}

impl Recovery {
    /// Whether the directory cannot be opened as it is.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// How many acknowledged commits cannot be read, as far as that is known.
    pub fn lost(&self) -> Option<u64> {
        self.acknowledged.checked_sub(self.last_commit?).filter(|lost| *lost > 0)
    }
}

/// What can be read of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalState {
    /// The file.
    pub path: PathBuf,
    /// Whole batches from its beginning on.
    pub batches: u64,
    /// The byte after the last of them.
    pub end: u64,
    /// Bytes after it that are no whole batch; 0 if whole ones follow.
    pub torn_bytes: u64,
}

/// Looks at the journals of a directory. If they are whole, it is opened as well: sorted files may show what journals do not.
pub fn inspect_damage(directory: &Path) -> Result<Recovery, Error> {
    let _lock = Lock::take(directory)?;
    look(directory).map(|(recovery, _)| recovery)
}

fn look(directory: &Path) -> Result<(Recovery, Journals), Error> {
    let Acknowledged { commit: acknowledged, key } = Mark::read(directory)?;
    let journals = Journals::read(&data(directory), key.as_ref())?;
    let states = journals.files.iter().map(|journal| JournalState {
        path: journal.path.clone(),
        batches: journal.batches,
        end: journal.end,
        torn_bytes: match journal.tail {
            Tail::Torn { bytes } => bytes,
            Tail::Empty | Tail::Damaged { .. } => 0,
        },
    });
    let damage = journals.damage(acknowledged).map(|damage| damage.place());
    let last_commit = journals.last_commit;
    let mut recovery = Recovery { journals: states.collect(), last_commit, acknowledged, damage };
    if recovery.damage.is_none()
        && let Some(lost) = lost(directory)?
    {
        recovery.damage = Some(lost.place());
        (recovery.last_commit, recovery.acknowledged) = (Some(lost.found), lost.acknowledged);
    }
    Ok((recovery, journals))
}

/// The commits that are missing although the journals are whole.
fn lost(directory: &Path) -> Result<Option<Lost>, Error> {
    let Err(error) = Disk::open(directory, &Options::default()) else { return Ok(None) };
    let lost = match error.kind() {
        ErrorKind::Engine(cause) => cause.downcast_ref::<Lost>(),
        _ => None,
    };
    lost.cloned().map(Some).ok_or(error)
}

/// Gives up the commits that are damaged, and all after them, as far as they had not gone to sorted files yet. What is cut off is
/// kept; where, is what this gives back. Indexes may have to be repaired afterwards.
pub fn accept_loss(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let _lock = Lock::take(directory)?;
    let (_, journals) = look(directory)?;
    let kept = journals.cut_damaged(&kept_aside(directory)).map_err(Error::engine)?;
    // Sorted files may be ahead of what is left of the journals. What is left goes there too, and numbers go on from there. It is
    // another store from now on: whoever followed its changes or backed it up has seen what is gone.
    Disk::empty_journals(directory, upgrade::incarnation()?)?;
    // What is known to have been acknowledged is gone, and opening must not ask for it again. Last, so that whoever is
    // interrupted is refused and does all of this again.
    Mark::reset(directory)?;
    let backing = Backing::open(directory, &Options { sweep_every: None, ..Options::default() })?;
    upgrade::bring_up_to_date(&backing)?;
    Ok(kept)
}
