//! What goes wrong, and when: faults by seed, counted per kind of file so that the timing of threads matters little.

use std::{collections::HashMap, path::Path};

use crate::random::Random;

/// What a process does to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Open,
    Read,
    Write,
    Sync,
    Truncate,
    /// Making, renaming or removing an entry of a directory.
    Entry,
}

/// A kind of file, as far as the engine's faults differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Journal,
    Table,
    /// Which tables there are: versions, and the one that counts.
    Manifest,
    Directory,
    Other,
}

/// What happens instead of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It fails with this error number. A write on a full disk may leave a part of it.
    Fail(i32),
    /// Only a part of it is written or read, which is allowed.
    Short,
    /// The power goes before it, or right after it.
    Crash { after: bool },
    /// A sync that is acknowledged and not made.
    Lie,
    /// A write that lands on another page of the file.
    Misdirect,
}

/// A fault: what happens to a run of operations.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// `None`: whatever is done to the files.
    pub(crate) operation: Option<Operation>,
    pub(crate) class: Class,
    /// The key space of tables and manifests.
    pub(crate) space: &'static str,
    /// How many such operations go well before.
    pub(crate) after: u64,
    /// How many it hits.
    pub(crate) hits: u64,
    pub(crate) action: Action,
}

/// The faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    counts: HashMap<(Option<Operation>, Class, String), u64>,
    /// How many have struck.
    pub(crate) struck: u64,
}

const SPACES: [&str; 6] = ["0", "1", "2", "3", "4", "5"];

impl Faults {
    pub(crate) fn new(list: Vec<Fault>) -> Self {
        Faults { list, ..Faults::default() }
    }

    /// Counts an operation; what happens instead of it.
    pub(crate) fn strike(&mut self, operation: Operation, path: &Path, directory: bool) -> Option<Action> {
        let (class, space) = classify(path, directory);
        let mut count = |operation: Option<Operation>| {
            let count = self.counts.entry((operation, class, space.clone())).or_default();
            *count += 1;
            *count
        };
        let (own, any) = (count(Some(operation)), count(None));
        let hit = self.list.iter().find(|fault| {
            let nth = if fault.operation.is_some() { own } else { any };
            fault.class == class
                && fault.operation.is_none_or(|wanted| wanted == operation)
                && (fault.space == space || !matches!(class, Class::Table | Class::Manifest))
                && (fault.after + 1..=fault.after.saturating_add(fault.hits)).contains(&nth)
        });
        self.struck += u64::from(hit.is_some());
        hit.map(|fault| fault.action)
    }

    /// From now on everything goes well.
    pub(crate) fn heal(&mut self) {
        self.list.clear();
    }
}

fn classify(path: &Path, directory: bool) -> (Class, String) {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let at = parts.iter().position(|part| part == "keyspaces");
    let space = at.and_then(|at| parts.get(at + 1)).map(|space| space.to_string()).unwrap_or_default();
    let class = if directory {
        Class::Directory
    } else if path.extension().is_some_and(|extension| extension == "jnl") {
        Class::Journal
    } else if parts.iter().any(|part| part == "tables" || part == "blobs") {
        Class::Table
    } else if at.is_some() {
        Class::Manifest
    } else {
        Class::Other
    };
    (class, space)
}

/// The power goes at some operation.
pub(crate) fn power_loss(seed: u64) -> Vec<Fault> {
    let mut random = Random::of(seed, "power loss");
    if random.once_in(4) {
        // Right before a sync: a whole batch is written, and nothing of it is safe.
        let (operation, action) = (Some(Operation::Sync), Action::Crash { after: false });
        let (after, space) = (random.below(60), space(&mut random));
        return vec![Fault { operation, class: Class::Journal, space, after, hits: 1, action }];
    }
    let (class, most) = *random.pick(&[
        (Class::Journal, 300),
        (Class::Journal, 300),
        (Class::Journal, 40),
        (Class::Table, 20),
        (Class::Manifest, 30),
        (Class::Directory, 60),
        (Class::Other, 12),
    ]);
    let action = Action::Crash { after: random.once_in(2) };
    vec![Fault { operation: None, class, space: space(&mut random), after: random.below(most), hits: 1, action }]
}

/// The power goes while the directory is opened.
pub(crate) fn power_loss_in_recovery(seed: u64) -> Vec<Fault> {
    let mut random = Random::of(seed, "power loss in recovery");
    let (class, most) =
        *random.pick(&[(Class::Journal, 12), (Class::Manifest, 8), (Class::Directory, 10), (Class::Other, 8)]);
    let action = Action::Crash { after: random.once_in(2) };
    vec![Fault { operation: None, class, space: space(&mut random), after: random.below(most), hits: 1, action }]
}

/// The system tells the truth, and it is an error.
pub(crate) fn errors(seed: u64) -> Vec<Fault> {
    let mut random = Random::of(seed, "errors");
    let count = 1 + random.below(2);
    (0..count).map(|_| error(&mut random)).collect()
}

fn error(random: &mut Random) -> Fault {
    use Operation::{Open, Read, Sync, Truncate, Write};
    let (operation, action) = *random.pick(&[
        (Write, Action::Short),
        (Read, Action::Short),
        (Write, Action::Fail(libc::ENOSPC)),
        (Write, Action::Fail(libc::ENOSPC)),
        (Write, Action::Fail(libc::EIO)),
        (Sync, Action::Fail(libc::EIO)),
        (Sync, Action::Fail(libc::EIO)),
        (Read, Action::Fail(libc::EIO)),
        (Open, Action::Fail(libc::EMFILE)),
        (Open, Action::Fail(libc::EMFILE)),
        (Truncate, Action::Fail(libc::EIO)),
    ]);
    let classes: &[(Class, u64)] = match operation {
        Write => {
            &[(Class::Journal, 200), (Class::Journal, 200), (Class::Table, 6), (Class::Manifest, 8), (Class::Other, 6)]
        }
        Sync => &[
            (Class::Journal, 60),
            (Class::Journal, 60),
            (Class::Table, 4),
            (Class::Manifest, 8),
            (Class::Directory, 30),
        ],
        // Local file systems give all that is there of a table; only what is read as a stream may come in parts.
        Read if action == Action::Short => &[(Class::Journal, 6), (Class::Manifest, 6)],
        Read => &[(Class::Journal, 6), (Class::Table, 12), (Class::Manifest, 6)],
        Open => {
            &[(Class::Journal, 6), (Class::Table, 8), (Class::Manifest, 16), (Class::Directory, 30), (Class::Other, 8)]
        }
        Truncate | Operation::Entry => &[(Class::Journal, 3), (Class::Other, 4)],
    };
    let (class, most) = *random.pick(classes);
    // Now and then a fault stays until somebody mends it.
    let hits = if random.once_in(3) { u64::MAX } else { 1 + random.below(3) };
    Fault { operation: Some(operation), class, space: space(random), after: random.below(most), hits, action }
}

/// An error that ends the writing of a store, until it goes.
pub(crate) fn fatal(seed: u64) -> Vec<Fault> {
    use Operation::{Open, Sync, Write};
    let mut random = Random::of(seed, "fatal");
    let (operation, class, number, most) = *random.pick(&[
        (Write, Class::Journal, libc::ENOSPC, 60),
        (Write, Class::Journal, libc::EIO, 60),
        (Sync, Class::Journal, libc::EIO, 20),
        (Write, Class::Table, libc::ENOSPC, 2),
        (Sync, Class::Table, libc::EIO, 2),
        (Open, Class::Table, libc::EMFILE, 3),
    ]);
    let hits = if random.once_in(2) { u64::MAX } else { 1 + random.below(3) };
    let (operation, action, after) = (Some(operation), Action::Fail(number), 6 + random.below(most));
    let after = if class == Class::Table { after - 6 } else { after };
    vec![Fault { operation, class, space: space(&mut random), after, hits, action }]
}

/// The disk says that it has done what it has not done; then the power goes.
pub(crate) fn lost_syncs(seed: u64) -> Vec<Fault> {
    let mut random = Random::of(seed, "lost syncs");
    let (class, most) =
        *random.pick(&[(Class::Journal, 60), (Class::Journal, 60), (Class::Table, 4), (Class::Manifest, 8)]);
    let hits = if random.once_in(2) { u64::MAX } else { 1 + random.below(4) };
    let (operation, action) = (Some(Operation::Sync), Action::Lie);
    vec![Fault { operation, class, space: space(&mut random), after: random.below(most), hits, action }]
}

/// A write lands somewhere else.
pub(crate) fn misdirected_writes(seed: u64) -> Vec<Fault> {
    let mut random = Random::of(seed, "misdirected writes");
    let (class, most) = *random.pick(&[(Class::Journal, 150), (Class::Table, 6), (Class::Manifest, 6)]);
    let (operation, action) = (Some(Operation::Write), Action::Misdirect);
    vec![Fault { operation, class, space: space(&mut random), after: random.below(most), hits: 1, action }]
}

/// No sync of a journal is ever made, which the oracle has to notice.
pub(crate) fn no_syncs() -> Vec<Fault> {
    let (operation, class, action) = (Some(Operation::Sync), Class::Journal, Action::Lie);
    vec![Fault { operation, class, space: "0", after: 0, hits: u64::MAX, action }]
}

fn space(random: &mut Random) -> &'static str {
    random.pick::<&str>(&SPACES)
}
