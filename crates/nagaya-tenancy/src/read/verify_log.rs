//! Verifying the hash chain of the operators' log.

use std::{fmt, str::FromStr};

use nagaya_store::Query;

use crate::{
    Error, Operator,
    session::Session,
    write::{
        Expiries,
        chain::{HashCheck, Head, Link},
        log::{self, FIRST_SPAN, number_in},
    },
};

/// Entries that are read at once.
const PAGE: usize = 1_000;

/// What the hash chain says about the operators' log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReport {
    /// Entries of the chain that are there.
    pub entries: u64,
    /// Entries of the chain that are gone because their time is over.
    pub expired: u64,
    /// Entries from before the log had a chain: nothing can be said about them.
    pub unchained: u64,
    /// The end of the chain. Noted elsewhere, it reveals later that somebody put back an older state of the log.
    pub head: LogHead,
    /// What is wrong.
    pub findings: Vec<LogFinding>,
}

/// The number and the hash of the last entry. As text: `17-9f86d081…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHead {
    /// The number.
    pub number: u64,
    /// The hash.
    pub hash: String,
}

impl fmt::Display for LogHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.hash)
    }
}

impl FromStr for LogHead {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.trim().split_once('-').and_then(|(number, hash)| Some((number.parse().ok()?, hash)));
        let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match parts {
            Some((number, hash)) if is_hash(hash) => Ok(LogHead { number, hash: hash.to_ascii_lowercase() }),
            _ => Err("a head is a number, a hyphen and a hash of 64 digits, as `nagaya audit verify` prints it"),
        }
    }
}

/// Something that is wrong with the operators' log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFinding {
    /// What it is.
    pub kind: LogFindingKind,
    /// The number of the first entry that it is about.
    pub number: Option<u64>,
    /// The time of the entry; for missing ones, that of the entry after them. In milliseconds since 1970.
    pub at: Option<i64>,
    /// How many entries it is about.
    pub count: u64,
}

/// What is wrong with the operators' log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFindingKind {
    /// An entry is not as it was written.
    Changed,
    /// Entries are missing whose time is not over.
    Removed,
    /// Two entries have this number.
    Repeated,
    /// An entry does not follow the one before it: one of them is from another chain.
    Unlinked,
    /// An entry that is younger than the chain is not part of it.
    Unchained,
    /// The hash of an entry is made with a key of this id, which is not known here.
    UnknownKey(String),
    /// The head of the chain was not as it was written when this entry followed, or made with a key that was lost.
    HeadChanged,
    /// There are entries after the head: it was removed, or an older one was put back.
    HeadReplaced,
    /// The chain does not have the entry that was noted.
    NotAsNoted,
    /// The entry that was noted has expired: note a newer one.
    NotedExpired,
}

impl LogFindingKind {
    /// A stable name.
    pub fn name(&self) -> &'static str {
        match self {
            LogFindingKind::Changed => "changed",
            LogFindingKind::Removed => "removed",
            LogFindingKind::Repeated => "repeated",
            LogFindingKind::Unlinked => "unlinked",
            LogFindingKind::Unchained => "unchained",
            LogFindingKind::UnknownKey(_) => "unknownKey",
            LogFindingKind::HeadChanged => "headChanged",
            LogFindingKind::HeadReplaced => "headReplaced",
            LogFindingKind::NotAsNoted => "notAsNoted",
            LogFindingKind::NotedExpired => "notedExpired",
        }
    }
}

impl Operator {
    /// Verifies that no entry of the operators' log was changed, or removed before its time; `noted` is an earlier head that was
    /// noted elsewhere.
    ///
    /// Verifying the log is an entry of the log itself, and the head is that entry.
    pub async fn verify_log(&self, noted: Option<&LogHead>) -> Result<LogReport, Error> {
        let session = &self.0;
        session.require_reason()?;
        session.audit_log_reading("verify").await?;
        let read = Head::read(&session.state).await?;
        session.store_pending(read.as_ref()).await?;
        let Some(head) = read else { return Ok(Verification::default().headless()) };
        let stored = session.read_links(&head).await?;
        // Entries that were written meanwhile are after the first head, but not after the second one.
        let newest = Head::read(&session.state).await?.map_or(0, |head| head.number);
        let now = session.state.settings.clock.seconds();
        Ok(Verification::default().run(&head, newest, stored, noted, now))
    }
}

/// All entries of the log, without their content.
struct StoredLinks {
    links: Vec<Link>,
    /// The times of entries without a link.
    unchained: Vec<i64>,
}

impl Session {
    async fn read_links(&self, head: &Head) -> Result<StoredLinks, Error> {
        let state = &self.state;
        let (mut links, mut unchained) = (Vec::new(), Vec::new());
        let ended = head.span.max(log::span(state.settings.clock.millis()) + 1);
        for span in FIRST_SPAN..=ended {
            let mut after = None;
            loop {
                let query = Query::table(state.log_table().name, log::partition(span)).limit(PAGE);
                let page = state.store.query(Query { after: after.take(), ..query }).await?;
                for item in &page.items {
                    match Link::from_item(&state.settings.audit_keys, item) {
                        Some(link) => links.push(link),
                        None => unchained.push(number_in(item, "%at").unwrap_or(i64::MAX)),
                    }
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        links.sort_by_key(|link| link.number);
        Ok(StoredLinks { links, unchained })
    }
}

/// A verification under way.
#[derive(Default)]
struct Verification {
    entries: u64,
    expired: u64,
    findings: Vec<LogFinding>,
}

impl Verification {
    fn run(mut self, head: &Head, newest: u64, stored: StoredLinks, noted: Option<&LogHead>, now: i64) -> LogReport {
        let StoredLinks { links, unchained } = stored;
        let mut before: Option<&Link> = None;
        for link in links.iter().filter(|link| link.number <= head.number) {
            self.entries += 1;
            self.check_link(link, before, now);
            before = Some(link);
        }
        let last = before.map_or(0, |link| link.number);
        if last < head.number {
            let expiries = (head.hash != HashCheck::Wrong).then_some(&head.expiries);
            self.missing(last + 1, head.number - last, None, expiries, now);
        }
        if before.is_some_and(|link| link.number == head.number && link.last != head.last) {
            self.find(LogFindingKind::HeadReplaced, Some(head.number), None);
        }
        match &head.hash {
            HashCheck::Right => {}
            HashCheck::Wrong => self.find(LogFindingKind::HeadChanged, None, None),
            HashCheck::UnknownKey(id) => self.find(LogFindingKind::UnknownKey(id.clone()), None, None),
        }
        if let Some(link) = links.iter().find(|link| link.number > newest) {
            self.find(LogFindingKind::HeadReplaced, Some(link.number), Some(link.at));
        }
        for at in unchained.iter().filter(|at| **at >= head.started) {
            self.find(LogFindingKind::Unchained, None, Some(*at));
        }
        if let Some(noted) = noted {
            self.compare(noted, head, &links);
        }
        let older = unchained.iter().filter(|at| **at < head.started).count() as u64;
        let Verification { entries, expired, findings } = self;
        let head = LogHead { number: head.number, hash: head.last.clone() };
        LogReport { entries, expired, unchained: older, head, findings }
    }

    /// The report of a log whose head was removed while it was verified.
    fn headless(mut self) -> LogReport {
        self.find(LogFindingKind::HeadReplaced, None, None);
        let head = LogHead { number: 0, hash: String::new() };
        LogReport { entries: 0, expired: 0, unchained: 0, head, findings: self.findings }
    }

    fn check_link(&mut self, link: &Link, before: Option<&Link>, now: i64) {
        match &link.hash {
            HashCheck::Right => {}
            HashCheck::Wrong => self.find(LogFindingKind::Changed, Some(link.number), Some(link.at)),
            HashCheck::UnknownKey(id) => {
                self.find(LogFindingKind::UnknownKey(id.clone()), Some(link.number), Some(link.at));
            }
        }
        if link.after_wrong_head {
            self.find(LogFindingKind::HeadChanged, Some(link.number), Some(link.at));
        }
        let (last, hash) = before.map_or((0, ""), |before| (before.number, before.last.as_str()));
        if link.number == last {
            self.find(LogFindingKind::Repeated, Some(link.number), Some(link.at));
        } else if link.number > last + 1 {
            // What a changed entry says about the ones before it counts for nothing.
            let expiries = (link.hash != HashCheck::Wrong).then_some(&link.previous_expiries);
            self.missing(last + 1, link.number - last - 1, Some(link.at), expiries, now);
        } else if link.previous != hash {
            self.find(LogFindingKind::Unlinked, Some(link.number), Some(link.at));
        }
    }

    /// Entries that are not there: they have expired, or were removed. What follows them says when they expire.
    fn missing(&mut self, number: u64, count: u64, at: Option<i64>, expiries: Option<&Expiries>, now: i64) {
        if expiries.is_some_and(|expiries| expiries.have_expired(number, now)) {
            self.expired += count;
        } else {
            self.findings.push(LogFinding { kind: LogFindingKind::Removed, number: Some(number), at, count });
        }
    }

    fn compare(&mut self, noted: &LogHead, head: &Head, links: &[Link]) {
        let has_number = links.iter().any(|link| link.number == noted.number);
        if links.iter().any(|link| link.number == noted.number && link.last == noted.hash) {
            return;
        }
        let is_gone = !has_number && noted.number <= head.number;
        let kind = if is_gone { LogFindingKind::NotedExpired } else { LogFindingKind::NotAsNoted };
        self.find(kind, Some(noted.number), None);
    }

    fn find(&mut self, kind: LogFindingKind, number: Option<u64>, at: Option<i64>) {
        self.findings.push(LogFinding { kind, number, at, count: 1 });
    }
}
