//! A simulated disk below one directory: it knows what has been synced, and loses the rest when the power fails.
//!
//! Files are identified by their inode, and directories by their entries at the last sync, so that it does not matter
//! which call added or removed an entry. Nothing is really synced.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    fs::{self, File},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{
    faults::{Action, Faults, Operation},
    log::Log,
    random::Random,
};

pub(crate) const PAGE: u64 = 4096;
const SECTOR: usize = 512;
/// The file with the number of acknowledged commits.
const ACKNOWLEDGED: &str = "acknowledged";

/// The exit code of a process after a power loss.
pub(crate) const POWER_LOST: i32 = 77;

type Inode = u64;

pub(crate) struct Disk {
    seed: u64,
    root: PathBuf,
    /// Contains a hard link to every file in a synced directory, so that its removal can be undone.
    kept: PathBuf,
    pub(crate) faults: Faults,
    log: Log,
    /// The open files below the root.
    open: HashMap<i32, Open>,
    files: BTreeMap<Inode, Unsynced>,
    directories: HashMap<Inode, Entries>,
}

/// An open file.
#[derive(Debug, Clone)]
struct Open {
    inode: Inode,
    /// Below the root.
    path: PathBuf,
    directory: bool,
    appends: bool,
}

impl Open {
    fn is_journal(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "jnl")
    }
}

/// The unsynced changes of a file.
struct Unsynced {
    file: File,
    path: PathBuf,
    /// The synced length.
    length: u64,
    /// The synced content of the changed pages.
    pages: BTreeMap<u64, Vec<u8>>,
    /// Pages whose sync failed. The system considers them clean, and no later sync writes them.
    sync_failed: BTreeMap<u64, Vec<u8>>,
}

/// The entries of a directory: the inode, and whether it is a directory.
type Entries = BTreeMap<String, (Inode, bool)>;

/// What the simulation does with a call.
pub(crate) enum Interception {
    /// Makes the call.
    Proceed,
    /// Makes the call with this many bytes.
    Shorten(usize),
    /// Makes the call at this offset, but moves the position as if it had been made at the right one.
    Misdirect(u64),
    /// Returns this value without making the call.
    Return(isize),
    Fail(i32),
    /// Makes the call; then the power fails.
    Crash,
}

impl Disk {
    /// A disk on which everything is synced.
    pub(crate) fn new(seed: u64, root: &Path, kept: &Path, faults: Faults, log: Log) -> io::Result<Self> {
        let (root, kept) = (root.to_path_buf(), kept.to_path_buf());
        let (open, files, directories) = (HashMap::new(), BTreeMap::new(), HashMap::new());
        let mut disk = Disk { seed, root: root.clone(), kept, faults, log, open, files, directories };
        let mut below = vec![root];
        while let Some(directory) = below.pop() {
            disk.synced_directory(&directory)?;
            let entries = list(&directory)?;
            below.extend(
                entries.iter().filter(|(_, (_, is_directory))| *is_directory).map(|(name, _)| directory.join(name)),
            );
        }
        Ok(disk)
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    pub(crate) fn is_open(&self, fd: i32) -> bool {
        self.open.contains_key(&fd)
    }

    /// Decides about an operation on a directory entry, or about opening a file.
    pub(crate) fn before_path(&mut self, operation: Operation, path: &Path) -> Interception {
        let relative = path.strip_prefix(&self.root).unwrap_or(path).to_path_buf();
        let directory = fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
        match self.faults.strike(operation, &relative, directory) {
            Some(Action::Crash { after: false }) => self.power_loss(),
            Some(Action::Crash { after: true }) => Interception::Crash,
            Some(Action::Fail(number)) => Interception::Fail(number),
            _ => Interception::Proceed,
        }
    }

    /// Records that a file was opened.
    pub(crate) fn opened(&mut self, fd: i32, path: &Path, was_there: bool, appends: bool) {
        let Ok(metadata) = fs::metadata(path) else { return };
        let mut relative = path.strip_prefix(&self.root).unwrap_or(path).to_path_buf();
        // Random names of temporary files must not influence the faults.
        if relative.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tmp")) {
            relative.set_file_name(".tmp");
        }
        let open = Open { inode: metadata.ino(), path: relative, directory: metadata.is_dir(), appends };
        if !was_there {
            // A removed file may have had the same inode number.
            self.files.remove(&open.inode);
        }
        self.open.insert(fd, open);
    }

    pub(crate) fn closed(&mut self, fd: i32) {
        self.open.remove(&fd);
    }

    /// Decides about reading or writing bytes. `offset` is `None` if the call uses the position of the file.
    pub(crate) fn before_transfer(
        &mut self,
        operation: Operation,
        fd: i32,
        offset: Option<u64>,
        length: usize,
    ) -> Interception {
        let Some(open) = self.open.get(&fd).cloned() else { return Interception::Proceed };
        let struck = self.faults.strike(operation, &open.path, open.directory);
        if matches!(struck, Some(Action::Crash { after: false })) {
            self.power_loss();
        }
        if operation == Operation::Write {
            let offset = offset.unwrap_or_else(|| position(fd, open.appends));
            if matches!(struck, Some(Action::Misdirect)) {
                let elsewhere = self.another_page(&open, offset);
                if open.is_journal() {
                    self.log.line("misdirected");
                }
                self.keep_pages(fd, &open, elsewhere, length as u64);
                return Interception::Misdirect(elsewhere);
            }
            self.keep_pages(fd, &open, offset, length as u64);
        }
        let part = |random: &mut Random| random.below((length as u64).max(2)) as usize;
        match struck {
            Some(Action::Crash { .. }) => Interception::Crash,
            Some(Action::Short) if length > 1 => {
                Interception::Shorten(1 + part(&mut self.random(&open, "short")) % (length - 1))
            }
            Some(Action::Fail(libc::ENOSPC)) if length > 1 && self.random(&open, "full").once_in(2) => {
                // One byte still fits; the next write fails.
                Interception::Shorten(1)
            }
            Some(Action::Fail(number)) => Interception::Fail(number),
            _ => Interception::Proceed,
        }
    }

    /// Decides about setting the length of a file.
    pub(crate) fn before_truncate(&mut self, fd: i32, length: u64) -> Interception {
        let Some(open) = self.open.get(&fd).cloned() else { return Interception::Proceed };
        let struck = self.faults.strike(Operation::Truncate, &open.path, open.directory);
        match struck {
            Some(Action::Crash { after: false }) => self.power_loss(),
            Some(Action::Fail(number)) => return Interception::Fail(number),
            _ => {}
        }
        self.keep_tail(fd, &open, length);
        if matches!(struck, Some(Action::Crash { .. })) { Interception::Crash } else { Interception::Proceed }
    }

    /// Records that an existing file is about to be opened and truncated to zero.
    pub(crate) fn before_open_truncated(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else { return };
        let Ok(metadata) = file.metadata() else { return };
        let relative = path.strip_prefix(&self.root).unwrap_or(path).to_path_buf();
        let open = Open { inode: metadata.ino(), path: relative, directory: false, appends: false };
        self.keep_tail(std::os::fd::AsRawFd::as_raw_fd(&file), &open, 0);
    }

    /// Simulates a sync.
    pub(crate) fn sync(&mut self, fd: i32) -> Interception {
        let Some(open) = self.open.get(&fd).cloned() else { return Interception::Proceed };
        let struck = self.faults.strike(Operation::Sync, &open.path, open.directory);
        match struck {
            Some(Action::Crash { after: false }) => self.power_loss(),
            Some(Action::Fail(number)) => {
                if let Some(file) = self.files.get_mut(&open.inode) {
                    let pages = std::mem::take(&mut file.pages);
                    file.sync_failed.extend(pages);
                }
                return Interception::Fail(number);
            }
            Some(Action::FakeSync) => {
                self.log.line("lied");
                return Interception::Return(0);
            }
            _ => {}
        }
        if open.directory {
            let path = self.root.join(&open.path);
            let _ = self.synced_directory(&path);
        } else if let Some(mut file) = self.files.remove(&open.inode)
            && !file.sync_failed.is_empty()
        {
            file.pages.clear();
            file.length = file.file.metadata().map_or(file.length, |metadata| metadata.len());
            self.files.insert(open.inode, file);
        }
        if open.is_journal() {
            self.log.synced();
        } else if open.path == Path::new(ACKNOWLEDGED) {
            self.log.line("counted");
        }
        if matches!(struck, Some(Action::Crash { .. })) {
            self.power_loss();
        }
        Interception::Return(0)
    }

    fn random(&self, open: &Open, what: &str) -> Random {
        let count = self.faults.struck;
        Random::for_purpose(self.seed, &format!("{what} {} {count}", open.path.display()))
    }

    fn synced_directory(&mut self, path: &Path) -> io::Result<()> {
        let entries = list(path)?;
        for (name, (inode, is_directory)) in &entries {
            if !is_directory {
                let link = self.kept.join(inode.to_string());
                match fs::hard_link(path.join(name), &link) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
        }
        self.directories.insert(fs::metadata(path)?.ino(), entries);
        Ok(())
    }

    /// The offset in another page of the file.
    fn another_page(&self, open: &Open, offset: u64) -> u64 {
        let mut random = self.random(open, "elsewhere");
        let pages = (offset / PAGE).max(1) + 2;
        let page = random.below(pages);
        if page == offset / PAGE { (page + 1) * PAGE + offset % PAGE } else { page * PAGE + offset % PAGE }
    }

    fn unsynced(&mut self, fd: i32, open: &Open) -> Option<&mut Unsynced> {
        if let Entry::Vacant(place) = self.files.entry(open.inode) {
            // A separate handle, because the file may be closed, renamed or removed before the power fails.
            let mut options = fs::OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_CLOEXEC);
            let file = options.open(format!("/proc/self/fd/{fd}")).ok()?;
            let length = file.metadata().ok()?.len();
            let (pages, sync_failed) = (BTreeMap::new(), BTreeMap::new());
            place.insert(Unsynced { file, path: open.path.clone(), length, pages, sync_failed });
        }
        self.files.get_mut(&open.inode)
    }

    /// Saves the synced content of pages before they are written.
    fn keep_pages(&mut self, fd: i32, open: &Open, offset: u64, length: u64) {
        let Some(file) = self.unsynced(fd, open) else { return };
        for page in offset / PAGE..(offset + length).div_ceil(PAGE) {
            file.keep(page);
        }
    }

    /// Saves the pages that a truncation removes.
    fn keep_tail(&mut self, fd: i32, open: &Open, length: u64) {
        let Some(file) = self.unsynced(fd, open) else { return };
        let end = file.file.metadata().map_or(0, |metadata| metadata.len());
        let mut page = length / PAGE;
        while page * PAGE < end {
            // Journals are mostly holes.
            let Some(data) = next_data(&file.file, page * PAGE) else { break };
            page = page.max(data / PAGE);
            file.keep(page);
            page += 1;
        }
    }

    /// Simulates a power loss: some of the unsynced changes are lost. Ends the process.
    pub(crate) fn power_loss(&mut self) -> ! {
        let mut random = Random::for_purpose(self.seed, "how much is lost");
        let severity = *random.pick(&Severity::ALL);
        self.log.line("power loss");
        for (_, file) in std::mem::take(&mut self.files) {
            let mut random = Random::for_purpose(self.seed, &file.path.to_string_lossy());
            if let Err(error) = file.lose(severity, &mut random) {
                self.log.line(&format!("broken simulation: {error}"));
            }
        }
        let root = self.root.clone();
        if let Err(error) = self.lose_entries(&root, severity) {
            self.log.line(&format!("broken simulation: {error}"));
        }
        crate::symbols::exit(POWER_LOST)
    }

    /// Reverts unsynced entries of a directory.
    fn lose_entries(&mut self, directory: &Path, severity: Severity) -> io::Result<()> {
        let synced = self.directories.get(&fs::metadata(directory)?.ino()).cloned().unwrap_or_default();
        let now = list(directory)?;
        let relative = directory.strip_prefix(&self.root).unwrap_or(directory).to_string_lossy().into_owned();
        for name in synced.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            let path = directory.join(name);
            let mut random = Random::for_purpose(self.seed, &format!("entry {relative}/{name}"));
            let lost = severity.loses(&mut random);
            match (synced.get(name), now.get(name)) {
                (Some(before), Some(after)) if before == after => {}
                (Some((before, false)), after) if lost => {
                    // A renamed file has one of its two names, never none.
                    if after.is_some() {
                        fs::remove_file(&path)?;
                    }
                    fs::hard_link(self.kept.join(before.to_string()), &path)?;
                    let other =
                        now.iter().find(|(other, (inode, _))| inode == before && synced.get(*other) != now.get(*other));
                    if let Some((other, _)) = other {
                        fs::remove_file(directory.join(other))?;
                    }
                }
                (None, Some((inode, is_directory))) if lost => {
                    let renamed = synced.values().any(|(before, _)| before == inode);
                    match is_directory {
                        true => fs::remove_dir_all(&path)?,
                        false if renamed => {}
                        // It may already have been reverted with its other name.
                        false => match fs::remove_file(&path) {
                            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                            _ => {}
                        },
                    }
                }
                _ => {}
            }
            if now.get(name).is_some_and(|(_, is_directory)| *is_directory) && path.is_dir() {
                self.lose_entries(&path, severity)?;
            }
        }
        Ok(())
    }
}

/// How many of the unsynced changes are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    All,
    None,
    /// Half of them.
    Some,
    /// A few pages: the structure of a journal is mostly intact, but some of its content is missing.
    Few,
    /// Half of them, and pages can be partially written.
    Torn,
}

impl Severity {
    const ALL: [Severity; 6] =
        [Severity::All, Severity::None, Severity::Some, Severity::Few, Severity::Few, Severity::Torn];

    fn loses(self, random: &mut Random) -> bool {
        match self {
            Severity::All => true,
            Severity::None => false,
            Severity::Some | Severity::Torn => random.once_in(2),
            Severity::Few => random.once_in(10),
        }
    }
}

impl Unsynced {
    /// Saves the synced content of a page, unless it is already saved.
    fn keep(&mut self, page: u64) {
        if let Some(synced) = self.sync_failed.remove(&page) {
            self.pages.insert(page, synced);
        }
        if !self.pages.contains_key(&page) {
            self.pages.insert(page, read_page(&self.file, page));
        }
    }

    fn lose(mut self, severity: Severity, random: &mut Random) -> io::Result<()> {
        let written = self.file.metadata()?.len();
        let mut pages = std::mem::take(&mut self.sync_failed);
        pages.append(&mut self.pages);
        // A page beyond the synced length can only be kept with the new length.
        let mut needed = 0;
        let mut changed = Vec::new();
        for (page, synced) in pages {
            let now = read_page(&self.file, page);
            let stays = if severity == Severity::Torn && random.once_in(3) {
                let sector = |at: usize| at * SECTOR..(at + 1) * SECTOR;
                let mut torn = synced.clone();
                for at in 0..PAGE as usize / SECTOR {
                    if random.once_in(2) {
                        torn[sector(at)].copy_from_slice(&now[sector(at)]);
                    }
                }
                torn
            } else if severity.loses(random) {
                synced.clone()
            } else {
                now
            };
            if stays != synced {
                needed = written.min((page + 1) * PAGE);
            }
            changed.push((page, stays));
        }
        let length = if severity.loses(random) { self.length.max(needed) } else { written };
        for (page, bytes) in changed {
            let end = length.saturating_sub(page * PAGE).min(PAGE) as usize;
            self.file.write_all_at(&bytes[..end], page * PAGE)?;
        }
        self.file.set_len(length)
    }
}

fn read_page(file: &File, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], page * PAGE + filled as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => filled += more,
        }
    }
    bytes
}

fn list(directory: &Path) -> io::Result<Entries> {
    let mut entries = Entries::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = fs::symlink_metadata(entry.path())?;
        entries.insert(entry.file_name().to_string_lossy().into_owned(), (metadata.ino(), metadata.is_dir()));
    }
    Ok(entries)
}

/// The offset of the next write of a file.
fn position(fd: i32, appends: bool) -> u64 {
    crate::symbols::position(fd, appends)
}

fn next_data(file: &File, from: u64) -> Option<u64> {
    crate::symbols::next_data(std::os::fd::AsRawFd::as_raw_fd(file), from)
}
