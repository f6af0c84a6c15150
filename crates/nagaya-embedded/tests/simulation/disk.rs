//! A disk below one directory: what has been synced, and what may be gone when the power goes.
//!
//! Files are known by their inode, and directories by their entries at their last sync, so that it does not matter by
//! which call an entry came or went. Nothing is ever synced for real.

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

/// The exit code of a process whose power went.
pub(crate) const POWER_LOST: i32 = 77;

type Inode = u64;

pub(crate) struct Disk {
    seed: u64,
    root: PathBuf,
    /// Holds a link to every file that a synced directory names, so that removing it can be undone.
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

/// What has not been synced of a file.
struct Unsynced {
    file: File,
    path: PathBuf,
    /// The length that is synced.
    length: u64,
    /// Pages as they are synced.
    pages: BTreeMap<u64, Vec<u8>>,
    /// Pages whose sync failed: the system takes them for written, and no later sync makes up for it.
    doomed: BTreeMap<u64, Vec<u8>>,
}

/// The entries of a directory: the inode, and whether it is a directory.
type Entries = BTreeMap<String, (Inode, bool)>;

/// What becomes of a call.
pub(crate) enum Fate {
    /// It is made.
    Go,
    /// It is made with this many bytes.
    Part(usize),
    /// It is made at this offset, and the position moves on as if it had been made where it should.
    Elsewhere(u64),
    /// It is not made, and this is returned.
    Answer(isize),
    Fail(i32),
    /// It is made, and then the power goes.
    Last,
}

impl Disk {
    /// Everything that is there is synced.
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

    /// What becomes of an operation on an entry of a directory, or of opening a file.
    pub(crate) fn before_path(&mut self, operation: Operation, path: &Path) -> Fate {
        let relative = path.strip_prefix(&self.root).unwrap_or(path).to_path_buf();
        let directory = fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
        match self.faults.strike(operation, &relative, directory) {
            Some(Action::Crash { after: false }) => self.power_loss(),
            Some(Action::Crash { after: true }) => Fate::Last,
            Some(Action::Fail(number)) => Fate::Fail(number),
            _ => Fate::Go,
        }
    }

    /// A file has been opened.
    pub(crate) fn opened(&mut self, fd: i32, path: &Path, was_there: bool, appends: bool) {
        let Ok(metadata) = fs::metadata(path) else { return };
        let mut relative = path.strip_prefix(&self.root).unwrap_or(path).to_path_buf();
        // Temporary files have names by chance, which must not move their fate.
        if relative.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tmp")) {
            relative.set_file_name(".tmp");
        }
        let open = Open { inode: metadata.ino(), path: relative, directory: metadata.is_dir(), appends };
        if !was_there {
            // The number may be that of a file that is gone.
            self.files.remove(&open.inode);
        }
        self.open.insert(fd, open);
    }

    pub(crate) fn closed(&mut self, fd: i32) {
        self.open.remove(&fd);
    }

    /// What becomes of reading or writing so many bytes; `offset`: where, if the call says so.
    pub(crate) fn before_transfer(
        &mut self,
        operation: Operation,
        fd: i32,
        offset: Option<u64>,
        length: usize,
    ) -> Fate {
        let Some(open) = self.open.get(&fd).cloned() else { return Fate::Go };
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
                return Fate::Elsewhere(elsewhere);
            }
            self.keep_pages(fd, &open, offset, length as u64);
        }
        let part = |random: &mut Random| random.below((length as u64).max(2)) as usize;
        match struck {
            Some(Action::Crash { .. }) => Fate::Last,
            Some(Action::Short) if length > 1 => Fate::Part(1 + part(&mut self.random(&open, "short")) % (length - 1)),
            Some(Action::Fail(libc::ENOSPC)) if length > 1 && self.random(&open, "full").once_in(2) => {
                // What still fits is written, and the next write tells.
                Fate::Part(1)
            }
            Some(Action::Fail(number)) => Fate::Fail(number),
            _ => Fate::Go,
        }
    }

    /// What becomes of setting the length of a file.
    pub(crate) fn before_truncate(&mut self, fd: i32, length: u64) -> Fate {
        let Some(open) = self.open.get(&fd).cloned() else { return Fate::Go };
        let struck = self.faults.strike(Operation::Truncate, &open.path, open.directory);
        match struck {
            Some(Action::Crash { after: false }) => self.power_loss(),
            Some(Action::Fail(number)) => return Fate::Fail(number),
            _ => {}
        }
        self.keep_tail(fd, &open, length);
        if matches!(struck, Some(Action::Crash { .. })) { Fate::Last } else { Fate::Go }
    }

    /// A file that is there is about to be opened and cut to nothing.
    pub(crate) fn before_cut(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else { return };
        let Ok(metadata) = file.metadata() else { return };
        let relative = path.strip_prefix(&self.root).unwrap_or(path).to_path_buf();
        let open = Open { inode: metadata.ino(), path: relative, directory: false, appends: false };
        self.keep_tail(std::os::fd::AsRawFd::as_raw_fd(&file), &open, 0);
    }

    /// A sync, which is never made for real.
    pub(crate) fn sync(&mut self, fd: i32) -> Fate {
        let Some(open) = self.open.get(&fd).cloned() else { return Fate::Go };
        let struck = self.faults.strike(Operation::Sync, &open.path, open.directory);
        match struck {
            Some(Action::Crash { after: false }) => self.power_loss(),
            Some(Action::Fail(number)) => {
                if let Some(file) = self.files.get_mut(&open.inode) {
                    let pages = std::mem::take(&mut file.pages);
                    file.doomed.extend(pages);
                }
                return Fate::Fail(number);
            }
            Some(Action::Lie) => {
                self.log.line("lied");
                return Fate::Answer(0);
            }
            _ => {}
        }
        if open.directory {
            let path = self.root.join(&open.path);
            let _ = self.synced_directory(&path);
        } else if let Some(mut file) = self.files.remove(&open.inode)
            && !file.doomed.is_empty()
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
        Fate::Answer(0)
    }

    fn random(&self, open: &Open, what: &str) -> Random {
        let count = self.faults.struck;
        Random::of(self.seed, &format!("{what} {} {count}", open.path.display()))
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

    /// Another page of the file, as far as it has others.
    fn another_page(&self, open: &Open, offset: u64) -> u64 {
        let mut random = self.random(open, "elsewhere");
        let pages = (offset / PAGE).max(1) + 2;
        let page = random.below(pages);
        if page == offset / PAGE { (page + 1) * PAGE + offset % PAGE } else { page * PAGE + offset % PAGE }
    }

    fn unsynced(&mut self, fd: i32, open: &Open) -> Option<&mut Unsynced> {
        if let Entry::Vacant(place) = self.files.entry(open.inode) {
            // A handle of its own: the file may be closed, renamed or removed before the power goes.
            let mut options = fs::OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_CLOEXEC);
            let file = options.open(format!("/proc/self/fd/{fd}")).ok()?;
            let length = file.metadata().ok()?.len();
            let (pages, doomed) = (BTreeMap::new(), BTreeMap::new());
            place.insert(Unsynced { file, path: open.path.clone(), length, pages, doomed });
        }
        self.files.get_mut(&open.inode)
    }

    /// Keeps the pages as they are synced before something is written to them.
    fn keep_pages(&mut self, fd: i32, open: &Open, offset: u64, length: u64) {
        let Some(file) = self.unsynced(fd, open) else { return };
        for page in offset / PAGE..(offset + length).div_ceil(PAGE) {
            file.keep(page);
        }
    }

    /// Keeps the pages that a shorter length cuts off.
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

    /// The power goes: of what is not synced, a part is there and a part is not.
    pub(crate) fn power_loss(&mut self) -> ! {
        let mut random = Random::of(self.seed, "how much is lost");
        let severity = *random.pick(&Severity::ALL);
        self.log.line("power loss");
        for (_, file) in std::mem::take(&mut self.files) {
            let mut random = Random::of(self.seed, &file.path.to_string_lossy());
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

    /// Takes back entries of a directory that are not synced.
    fn lose_entries(&mut self, directory: &Path, severity: Severity) -> io::Result<()> {
        let synced = self.directories.get(&fs::metadata(directory)?.ino()).cloned().unwrap_or_default();
        let now = list(directory)?;
        let relative = directory.strip_prefix(&self.root).unwrap_or(directory).to_string_lossy().into_owned();
        for name in synced.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            let path = directory.join(name);
            let mut random = Random::of(self.seed, &format!("entry {relative}/{name}"));
            let lost = severity.loses(&mut random);
            match (synced.get(name), now.get(name)) {
                (Some(before), Some(after)) if before == after => {}
                (Some((before, false)), after) if lost => {
                    // A renamed file is under one of its two names, never under none.
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
                        // It may have been taken back together with another name.
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

/// How much of what is not synced is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    All,
    None,
    /// Half of it.
    Some,
    /// A page here and there: what holds a journal together is mostly there, and what it holds is not.
    Few,
    /// Pages are cut within as well.
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
    /// Keeps a page as it is synced, unless that has been done.
    fn keep(&mut self, page: u64) {
        if let Some(synced) = self.doomed.remove(&page) {
            self.pages.insert(page, synced);
        }
        if !self.pages.contains_key(&page) {
            self.pages.insert(page, read_page(&self.file, page));
        }
    }

    fn lose(mut self, severity: Severity, random: &mut Random) -> io::Result<()> {
        let written = self.file.metadata()?.len();
        let mut pages = std::mem::take(&mut self.doomed);
        pages.append(&mut self.pages);
        // A page that stays beyond the synced length needs the length to stay as well.
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

/// Where the next write of a file goes.
fn position(fd: i32, appends: bool) -> u64 {
    crate::symbols::position(fd, appends)
}

fn next_data(file: &File, from: u64) -> Option<u64> {
    crate::symbols::next_data(std::os::fd::AsRawFd::as_raw_fd(file), from)
}
