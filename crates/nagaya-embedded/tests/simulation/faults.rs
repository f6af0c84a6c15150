//! The faults of a seed. They are counted per kind of file, so that the timing of threads has little influence.

use std::{collections::HashMap, path::Path};

use crate::random::Random;

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Open,
    Read,
    Write,
    Sync,
    Truncate,
    /// Creating, renaming or removing a directory entry.
    Entry,
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Journal,
    Table,
    /// The list of tables, and the file that names the current list.
    Manifest,
    Directory,
    Other,
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The operation fails with this error number. A write to a full disk may write a part.
    Fail(i32),
    /// Only a part is written or read, which is allowed.
    Short,
    /// The power fails before the operation, or right after it.
    Crash { after: bool },
    /// A sync is acknowledged but not made.
    FakeSync,
    /// A write goes to another page of the file.
    Misdirect,
}

/// A fault of one or more consecutive operations.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// `None` for all operations.
    pub(crate) operation: Option<Operation>,
    pub(crate) class: Class,
    /// The keyspace of tables and manifests.
    pub(crate) keyspace: &'static str,
    /// The number of such operations before the fault.
    pub(crate) after: u64,
    /// The number of operations that fail.
    pub(crate) hits: u64,
    pub(crate) action: Action,
}

/// The faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    counts: HashMap<(Option<Operation>, Class, String), u64>,
    /// The number of operations that have failed.
    pub(crate) struck: u64,
}

const KEYSPACES: [&str; 6] = ["0", "1", "2", "3", "4", "5"];

impl Faults {
    pub(crate) fn new(list: Vec<Fault>) -> Self {
        Faults { list, ..Faults::default() }
    }

    /// Counts an operation; returns its fault.
    pub(crate) fn strike(&mut self, operation: Operation, path: &Path, directory: bool) -> Option<Action> {
        let (class, keyspace) = classify(path, directory);
        let mut count = |operation: Option<Operation>| {
            let count = self.counts.entry((operation, class, keyspace.clone())).or_default();
            *count += 1;
            *count
        };
        let (own, any) = (count(Some(operation)), count(None));
        let hit = self.list.iter().find(|fault| {
            let nth = if fault.operation.is_some() { own } else { any };
            fault.class == class
                && fault.operation.is_none_or(|wanted| wanted == operation)
                && (fault.keyspace == keyspace || !matches!(class, Class::Table | Class::Manifest))
                && (fault.after + 1..=fault.after.saturating_add(fault.hits)).contains(&nth)
        });
        self.struck += u64::from(hit.is_some());
        hit.map(|fault| fault.action)
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        self.list.clear();
    }
}

fn classify(path: &Path, directory: bool) -> (Class, String) {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let at = parts.iter().position(|part| part == "keyspaces");
    let keyspace = at.and_then(|at| parts.get(at + 1)).map(|keyspace| keyspace.to_string()).unwrap_or_default();
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
    (class, keyspace)
}

/// The power fails at some operation.
pub(crate) fn power_loss(seed: u64) -> Vec<Fault> {
    let mut random = Random::for_purpose(seed, "power loss");
    if random.once_in(4) {
        // Right before a sync: a complete batch is written, and none of it is durable.
        let (operation, action) = (Some(Operation::Sync), Action::Crash { after: false });
        let (after, keyspace) = (random.below(60), keyspace(&mut random));
        return vec![Fault { operation, class: Class::Journal, keyspace, after, hits: 1, action }];
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
    vec![Fault { operation: None, class, keyspace: keyspace(&mut random), after: random.below(most), hits: 1, action }]
}

/// The power fails while the directory is opened.
pub(crate) fn power_loss_in_recovery(seed: u64) -> Vec<Fault> {
    let mut random = Random::for_purpose(seed, "power loss in recovery");
    let (class, most) =
        *random.pick(&[(Class::Journal, 12), (Class::Manifest, 8), (Class::Directory, 10), (Class::Other, 8)]);
    let action = Action::Crash { after: random.once_in(2) };
    vec![Fault { operation: None, class, keyspace: keyspace(&mut random), after: random.below(most), hits: 1, action }]
}

/// The system reports errors.
pub(crate) fn errors(seed: u64) -> Vec<Fault> {
    let mut random = Random::for_purpose(seed, "errors");
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
        // Local file systems return all requested bytes of a table; only sequential reads may be short.
        Read if action == Action::Short => &[(Class::Journal, 6), (Class::Manifest, 6)],
        Read => &[(Class::Journal, 6), (Class::Table, 12), (Class::Manifest, 6)],
        Open => {
            &[(Class::Journal, 6), (Class::Table, 8), (Class::Manifest, 16), (Class::Directory, 30), (Class::Other, 8)]
        }
        Truncate | Operation::Entry => &[(Class::Journal, 3), (Class::Other, 4)],
    };
    let (class, most) = *random.pick(classes);
    // Some faults are permanent.
    let hits = if random.once_in(3) { u64::MAX } else { 1 + random.below(3) };
    Fault { operation: Some(operation), class, keyspace: keyspace(random), after: random.below(most), hits, action }
}

/// An error that makes the store refuse writes until it is gone.
pub(crate) fn fatal(seed: u64) -> Vec<Fault> {
    use Operation::{Open, Sync, Write};
    let mut random = Random::for_purpose(seed, "fatal");
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
    vec![Fault { operation, class, keyspace: keyspace(&mut random), after, hits, action }]
}

/// The disk acknowledges syncs that it does not make; then the power fails.
pub(crate) fn lost_syncs(seed: u64) -> Vec<Fault> {
    let mut random = Random::for_purpose(seed, "lost syncs");
    let (class, most) =
        *random.pick(&[(Class::Journal, 60), (Class::Journal, 60), (Class::Table, 4), (Class::Manifest, 8)]);
    let hits = if random.once_in(2) { u64::MAX } else { 1 + random.below(4) };
    let (operation, action) = (Some(Operation::Sync), Action::FakeSync);
    vec![Fault { operation, class, keyspace: keyspace(&mut random), after: random.below(most), hits, action }]
}

/// A write goes to another page.
pub(crate) fn misdirected_writes(seed: u64) -> Vec<Fault> {
    let mut random = Random::for_purpose(seed, "misdirected writes");
    let (class, most) = *random.pick(&[(Class::Journal, 150), (Class::Table, 6), (Class::Manifest, 6)]);
    let (operation, action) = (Some(Operation::Write), Action::Misdirect);
    vec![Fault { operation, class, keyspace: keyspace(&mut random), after: random.below(most), hits: 1, action }]
}

/// No sync of a journal is made, which the oracle has to detect.
pub(crate) fn no_syncs() -> Vec<Fault> {
    let (operation, class, action) = (Some(Operation::Sync), Class::Journal, Action::FakeSync);
    vec![Fault { operation, class, keyspace: "0", after: 0, hits: u64::MAX, action }]
}

fn keyspace(random: &mut Random) -> &'static str {
    random.pick::<&str>(&KEYSPACES)
}
