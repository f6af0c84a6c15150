//! The journals of fjall, looked at before fjall opens them.
//!
//! fjall cuts a journal at the first record that it cannot read, whatever follows. That is right for the end that a crash
//! has left half written, and wrong for damage in the middle, which would take acknowledged commits with it. So each journal
//! is read here first: an end that is torn is cut off and kept aside, and damage that is followed by whole batches is
//! refused.
//!
//! A batch is a start (1, count, sequence number), items (2, …) or clears (4, …), and an end (3, checksum, magic). The
//! checksum covers the items alone, so the sequence numbers are held to grow. Every batch has an item with the number of its
//! commit, tagged with the key of the directory: what tenants write cannot pass for a commit.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use nagaya_store::Error;
use xxhash_rust::xxh3::Xxh3;

use super::{
    files::{self, sync_folder},
    tag::{self, Commit, CommitKey},
    unreadable,
};
use crate::layout;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8] = b"FJL\x03";

/// Numbers of one batch and the next are closer than this.
const MAX_STEP: u64 = 1 << 40;
/// The sequence number of a batch is at most this much above the one that was reached before: flushes take some.
const MAX_TAKEN: u64 = 1 << 20;

/// What is in the journals of a directory.
#[derive(Debug)]
pub(crate) struct Journals {
    directory: PathBuf,
    pub(crate) files: Vec<Journal>,
    /// The first whole commit in the journals, with the sequence number of its batch.
    pub(crate) first: Option<Commit>,
    /// The number of the last whole commit, if one is in the journals.
    pub(crate) last_commit: Option<u64>,
}

/// What is in one journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) path: PathBuf,
    /// Whole batches from the beginning on.
    pub(crate) batches: u64,
    /// Where the last of them ends.
    pub(crate) end: u64,
    pub(crate) tail: Tail,
}

/// What follows the last whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing, or room for what is to come.
    Empty,
    /// Bytes that are no whole batch, and no later commit after them.
    Torn { bytes: u64 },
    /// Damage: later commits follow.
    Damaged { next: u64 },
}

/// Acknowledged commits that the journals do not hold any more.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) path: PathBuf,
    pub(crate) at: u64,
    pub(crate) what: String,
}

impl Damage {
    /// Where it is, and what.
    pub(crate) fn place(&self) -> String {
        format!("{} is damaged at byte {}: {}", self.path.display(), self.at, self.what)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        write!(
            f,
            "{place}. Nothing was changed. `nagaya store recover` shows what can be saved; a backup may have more"
        )
    }
}

impl std::error::Error for Damage {}

/// The next batch, as far as it matters here.
struct Batch {
    sequence: u64,
    commit: Found,
}

/// What a batch says about its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing: it was written by a version that did not number commits.
    Nothing,
    Commit(Commit),
    /// Something that the key of the directory has not tagged.
    Foreign,
}

impl Journals {
    /// Reads the journals of a directory, from the oldest to the one that is written.
    pub(crate) fn read(directory: &Path, key: Option<&CommitKey>) -> Result<Self, Error> {
        let mut journals =
            Journals { directory: directory.to_path_buf(), files: Vec::new(), first: None, last_commit: None };
        let mut last_sequence = None;
        for (_, path) in paths(directory).map_err(|error| unreadable(directory, &error))? {
            let journal = journals.read_one(&path, key, &mut last_sequence);
            let journal = journal.map_err(|error| unreadable(&path, &error))?;
            journals.files.push(journal);
        }
        Ok(journals)
    }

    fn read_one(
        &mut self,
        path: &Path,
        key: Option<&CommitKey>,
        last_sequence: &mut Option<u64>,
    ) -> io::Result<Journal> {
        let mut journal = Journal { path: path.to_path_buf(), batches: 0, end: 0, tail: Tail::Empty };
        let mut input = Input::file(path)?;
        while let Some(batch) = batch(&mut input, key)? {
            if !self.follows(&batch, *last_sequence) {
                journal.tail = Tail::Damaged { next: journal.end };
                return Ok(journal);
            }
            *last_sequence = Some(batch.sequence);
            if let Found::Commit(Commit { number, .. }) = batch.commit {
                self.first.get_or_insert(Commit { number, sequence: batch.sequence });
                self.last_commit = Some(number);
            }
            journal.batches += 1;
            journal.end = input.read;
        }
        journal.tail = tail(path, journal.end, key.zip(self.last_commit))?;
        Ok(journal)
    }

    /// Whether a batch can come after those that have been read.
    fn follows(&self, batch: &Batch, last_sequence: Option<u64>) -> bool {
        let grows = last_sequence.is_none_or(|last| batch.sequence > last && batch.sequence - last < MAX_STEP);
        let numbered = match (batch.commit, self.last_commit) {
            (Found::Foreign, _) | (Found::Nothing, Some(_)) => false,
            // Before the first commit with a number, batches have none.
            (Found::Nothing, None) => true,
            (Found::Commit(commit), last) => {
                let taken = batch.sequence.checked_sub(commit.sequence);
                last.is_none_or(|last| commit.number == last + 1) && taken.is_some_and(|taken| taken < MAX_TAKEN)
            }
        };
        grows && numbered
    }

    /// The first place where acknowledged commits are damaged, if there is one. `acknowledged` is the number of the last
    /// commit that is known to have been acknowledged.
    pub(crate) fn damage(&self, acknowledged: u64) -> Option<Damage> {
        if self.files.is_empty() {
            let what = "its journals are gone".to_owned();
            return Some(Damage { path: self.directory.clone(), at: 0, what });
        }
        let (newest, sealed) = self.written().split_last()?;
        // A journal that batches of another one follow was synced before they were written.
        let torn = sealed.iter().find(|journal| journal.tail != Tail::Empty);
        let damaged = torn.or_else(|| Some(newest).filter(|newest| matches!(newest.tail, Tail::Damaged { .. })));
        let what = |journal: &Journal| match journal.tail {
            Tail::Damaged { next } if next == journal.end => {
                "the batch there does not follow the one before".to_owned()
            }
            Tail::Damaged { next } => format!("later commits go on at byte {next}"),
            _ => "the journals after it are whole".to_owned(),
        };
        if let Some(journal) = damaged {
            return Some(Damage { path: journal.path.clone(), at: journal.end, what: what(journal) });
        }
        let missing = self.last_commit.map(|last| acknowledged.saturating_sub(last)).filter(|missing| *missing > 0)?;
        let what = format!("{missing} acknowledged commits are missing after commit {}", acknowledged - missing);
        Some(Damage { path: newest.path.clone(), at: newest.end, what })
    }

    /// The journals without those at the end in which nothing has been written yet.
    fn written(&self) -> &[Journal] {
        let last = self.files.iter().rposition(|journal| journal.batches > 0 || journal.tail != Tail::Empty);
        &self.files[..last.map_or(0, |last| last + 1)]
    }

    /// Writes the newest journal anew: what a process has written and not synced before it ended may look whole, and still
    /// never reach the disk.
    pub(crate) fn rewrite_newest(&self) -> io::Result<()> {
        self.written().last().map_or(Ok(()), |journal| replace(&journal.path, journal.end))
    }

    /// Puts another file in the place of the journal that was being written: whoever still has that one open, with something
    /// left to write, does not write to this one.
    pub(crate) fn detach_newest(&self) -> io::Result<()> {
        self.files.last().map_or(Ok(()), |journal| replace(&journal.path, journal.end))
    }

    /// Cuts off what is torn at the end of the newest journal, and keeps it in a file of its own; where, if there was
    /// anything.
    pub(crate) fn cut_torn(&self, aside: &Path) -> io::Result<Option<PathBuf>> {
        match self.written().last() {
            Some(journal) if matches!(journal.tail, Tail::Torn { .. }) => journal.cut(aside).map(Some),
            _ => Ok(None),
        }
    }

    /// Cuts off everything from the first damage on, and keeps it: the store is then as it was before the commit that is
    /// damaged. Where the bytes are kept.
    pub(crate) fn cut_damaged(&self, aside: &Path) -> io::Result<Vec<PathBuf>> {
        let whole = self.files.iter().take_while(|journal| journal.tail == Tail::Empty).count();
        let mut kept = Vec::new();
        for (at, journal) in self.files.iter().enumerate().skip(whole) {
            // Of the journals after the damage, everything is kept.
            kept.push(cut(&journal.path, if at == whole { journal.end } else { 0 }, aside)?);
            if at > whole {
                fs::remove_file(&journal.path)?;
            }
        }
        Ok(kept)
    }
}

impl Journal {
    /// Cuts the journal after its last whole batch.
    fn cut(&self, aside: &Path) -> io::Result<PathBuf> {
        cut(&self.path, self.end, aside)
    }
}

/// Cuts off commits that were never acknowledged: what a failed sync has left would otherwise count as written, although
/// it may never have reached the disk.
pub(crate) fn cut_after(directory: &Path, key: &CommitKey, acknowledged: u64, aside: &Path) -> io::Result<()> {
    for (_, path) in paths(directory)? {
        let mut input = Input::file(&path)?;
        let mut end = 0;
        while let Some(batch) = batch(&mut input, Some(key))? {
            if matches!(batch.commit, Found::Commit(commit) if commit.number > acknowledged) {
                cut(&path, end, aside)?;
                break;
            }
            end = input.read;
        }
    }
    Ok(())
}

/// Cuts a file, after what is cut off is safe in another one.
fn cut(path: &Path, end: u64, aside: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (kept, mut out) = (0..)
        .find_map(|nth: u32| {
            let kept = aside.join(format!("{name}-{end}-{nth}"));
            match File::create_new(&kept) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made.map(|file| (kept, file))),
            }
        })
        .ok_or_else(|| io::Error::other("no name is free"))??;
    let mut input = File::open(path)?;
    input.seek(SeekFrom::Start(end))?;
    // Room for what is to come is nothing to keep.
    let length = last_data(path)?.saturating_sub(end);
    io::copy(&mut input.take(length), &mut out)?;
    out.sync_all()?;
    sync_folder(aside)?;
    replace(path, end)?;
    Ok(kept)
}

/// Puts a file with its first bytes in the place of a file. It is another file to whoever still has the former one open.
fn replace(path: &Path, end: u64) -> io::Result<()> {
    files::replace(path, |out| io::copy(&mut File::open(path)?.take(end), out).map(drop))
}

/// Leaves one journal in a directory that is not open, with nothing in it. fjall has to find one: without any it begins to
/// count its sequence numbers from nothing, and shows nothing of what is there.
pub(crate) fn empty(directory: &Path) -> io::Result<()> {
    let mut paths = paths(directory)?;
    match paths.pop() {
        Some((_, newest)) => replace(&newest, 0)?,
        None => File::create(directory.join("0.jnl"))?.sync_all()?,
    }
    for (_, path) in paths {
        fs::remove_file(path)?;
    }
    sync_folder(directory)
}

/// The journals of a directory with their numbers, the oldest first.
fn paths(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let unknown = || io::Error::other(format!("{} is no journal of this store", path.display()));
            found.push((number.ok_or_else(unknown)?, path));
        }
    }
    found.sort();
    Ok(found)
}

/// What follows the last whole batch of a journal. `known`: the key of commits, and the number of the last one.
fn tail(path: &Path, end: u64, known: Option<(&CommitKey, u64)>) -> io::Result<Tail> {
    let last = last_data(path)?;
    if last <= end {
        return Ok(Tail::Empty);
    }
    let mut rest = Vec::new();
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(end))?;
    file.take(last - end).read_to_end(&mut rest)?;
    let next = match known {
        // The number of the very next commit may be what is left of a batch that was torn. Any later one was written after
        // that batch had been synced.
        Some((key, last)) => later_commit(&rest, key, last),
        // Without numbers, any batch counts.
        None => whole_batch(&rest)?,
    };
    Ok(match next {
        Some(at) => Tail::Damaged { next: end + at as u64 },
        None => Tail::Torn { bytes: last - end },
    })
}

/// Where the number of a commit lies in some bytes that was written after the one after the last.
fn later_commit(bytes: &[u8], key: &CommitKey, last: u64) -> Option<usize> {
    // A number comes right after its key, which is a zero byte.
    let places = bytes.iter().enumerate().filter(|(_, byte)| **byte == layout::COMMIT[0]).map(|(at, _)| at + 1);
    let later = |at: &usize| {
        let stored = bytes.get(*at..at + tag::LENGTH)?;
        // Looked at before the tag is worked out: most places are zeros among zeros.
        tag::read(stored).filter(|commit| commit.number > last + 1 && commit.number - last < MAX_STEP)?;
        key.check(stored)
    };
    places.into_iter().find(|at| later(at).is_some())
}

/// Where the first whole batch lies in some bytes.
fn whole_batch(bytes: &[u8]) -> io::Result<Option<usize>> {
    // A batch may begin at any byte.
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == START) {
        let rest = &bytes[at..];
        if batch(&mut Input { inner: rest, read: 0, length: rest.len() as u64 }, None)?.is_some() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Where the last byte of a file lies that is not zero.
fn last_data(path: &Path) -> io::Result<u64> {
    const BLOCK: u64 = 1024 * 1024;
    let mut file = File::open(path)?;
    let mut end = allocated_end(&file)?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        Read::by_ref(&mut file).take(end - start).read_to_end(&mut block)?;
        if let Some(last) = block.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The end of what a file has on disk: a journal begins as 64 MiB of nothing, which need not be read.
#[cfg(target_os = "linux")]
fn allocated_end(file: &File) -> io::Result<u64> {
    use rustix::{fs, io::Errno};
    let length = file.metadata()?.len();
    let mut at = 0;
    loop {
        match fs::seek(file, fs::SeekFrom::Data(at)) {
            Ok(data) => at = fs::seek(file, fs::SeekFrom::Hole(data))?,
            // No data follows.
            Err(Errno::NXIO) => return Ok(at),
            // A file system that does not know.
            Err(_) => return Ok(length),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn allocated_end(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// Bytes, counted.
struct Input<R> {
    inner: R,
    read: u64,
    length: u64,
}

impl Input<BufReader<File>> {
    fn file(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Input { inner: BufReader::with_capacity(256 * 1024, file), read: 0, length })
    }
}

impl<R: Read> Input<R> {
    /// The next bytes; `None` if they are not there.
    fn bytes<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        Ok(self.fill(&mut bytes)?.then_some(bytes))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {
                self.read += bytes.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The next batch; `None` if what comes is not a whole one.
fn batch(input: &mut Input<impl Read>, tags: Option<&CommitKey>) -> io::Result<Option<Batch>> {
    let Some([START]) = input.bytes()? else { return Ok(None) };
    let (Some(count), Some(sequence)) = (input.bytes()?, input.bytes()?) else { return Ok(None) };
    let mut batch = Batch { sequence: u64::from_le_bytes(sequence), commit: Found::Nothing };
    let mut hash = Xxh3::new();
    let mut value = Vec::new();
    for _ in 0..u32::from_le_bytes(count) {
        match input.bytes()? {
            Some([ITEM]) => {
                let Some(number) = item(input, &mut hash, &mut value)? else { return Ok(None) };
                if let Some(stored) = number {
                    let commit = tags.map_or_else(|| tag::read(stored), |tags| tags.check(stored));
                    batch.commit = commit.map_or(Found::Foreign, Found::Commit);
                }
            }
            Some([CLEAR]) => {
                let Some(keyspace) = input.bytes::<8>()? else { return Ok(None) };
                hash.update(&[CLEAR]);
                hash.update(&keyspace);
            }
            _ => return Ok(None),
        }
    }
    let (Some([END]), Some(checksum), Some(magic)) = (input.bytes()?, input.bytes()?, input.bytes()?) else {
        return Ok(None);
    };
    let magic: [u8; MAGIC.len()] = magic;
    Ok((magic == *MAGIC && u64::from_le_bytes(checksum) == hash.digest()).then_some(batch))
}

/// The rest of an item, if it is whole: the stored number of the commit, if it is that.
fn item<'v>(
    input: &mut Input<impl Read>,
    hash: &mut Xxh3,
    value: &'v mut Vec<u8>,
) -> io::Result<Option<Option<&'v [u8]>>> {
    // Kind, compression, keyspace, length of the key, of the value, and of the value as it is written.
    let Some(head) = input.bytes::<20>()? else { return Ok(None) };
    let key_length = usize::from(u16::from_le_bytes([head[10], head[11]]));
    let stored = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
    // A length that is damaged must not claim memory.
    if (key_length + stored) as u64 > input.length.saturating_sub(input.read) {
        return Ok(None);
    }
    value.resize(key_length + stored, 0);
    if !input.fill(value)? {
        return Ok(None);
    }
    hash.update(&[ITEM]);
    hash.update(&head);
    hash.update(value);
    let (key, value) = value.split_at(key_length);
    Ok(Some((key == layout::COMMIT).then_some(value)))
}
