//! Verifying the hash chain of the operator log.
//!
//! The entries are read once, in the order of time, and few of them are in memory. Their numbers are not quite in this order, because the
//! clocks of servers differ.

mod report;
mod runs;

use nagaya_store::Query;

pub use self::report::{LogFinding, LogFindingKind, LogHead, LogReport};
use self::{report::Findings, runs::Runs};
use crate::{
    Error, Operator,
    session::Session,
    values::integer_in,
    write::{
        Expiries,
        chain::{HashCheck, Head, Link},
        log::{self, FIRST_SPAN},
    },
};

/// Entries that are read at once.
const PAGE: usize = 1_000;

impl Operator {
    /// Verifies that no entry of the operator log was changed, or removed before its time; `noted` is an earlier head that was
    /// noted elsewhere.
    ///
    /// Verifying the log is an entry of the log itself, and the head is that entry.
    pub async fn verify_log(&self, noted: Option<&LogHead>) -> Result<LogReport, Error> {
        let session = &self.0;
        session.require_reason()?;
        session.audit_log_reading("verify").await?;
        let read = Head::read(&session.state).await?;
        session.store_pending(read.as_ref()).await?;
        let Some(head) = read else { return Ok(headless()) };
        let now = session.state.settings.clock.seconds();
        let mut verification = Verification::new(&head, noted, now);
        session.verify_entries(&mut verification).await?;
        Ok(verification.report())
    }
}

impl Session {
    async fn verify_entries(&self, verification: &mut Verification<'_>) -> Result<(), Error> {
        let state = &self.state;
        // The clock of another server may be ahead.
        let ended = verification.head.span.max(log::span(state.settings.clock.millis()) + 1);
        for span in FIRST_SPAN..=ended {
            let mut after = None;
            loop {
                let query = Query::table(&state.operator_log_table().name, log::partition(span)).limit(PAGE);
                let page = state.store.query(Query { after: after.take(), ..query }).await?;
                let mut newer = Vec::new();
                for item in &page.items {
                    match Link::from_item(&state.settings.audit_keys, item) {
                        Some(link) if link.number > verification.newest => newer.push(link),
                        Some(link) => verification.add(link),
                        None => verification.add_unchained(integer_in(item, "%at").unwrap_or(i64::MAX)),
                    }
                }
                if !newer.is_empty() {
                    // An entry that was written meanwhile is after the first head, but not after the one that is there now.
                    let head = Head::read(state).await?;
                    verification.newest = verification.newest.max(head.map_or(0, |head| head.number));
                    newer.into_iter().for_each(|link| verification.add(link));
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// The report of a log whose head was removed while it was verified.
fn headless() -> LogReport {
    let finding = LogFinding { kind: LogFindingKind::HeadReplaced, number: None, at: None, count: 1 };
    let head = LogHead { number: 0, hash: String::new() };
    LogReport { entries: 0, expired: 0, unchained: 0, head, findings: vec![finding], further_findings: 0 }
}

/// A verification under way.
struct Verification<'v> {
    head: &'v Head,
    noted: Option<&'v LogHead>,
    now: i64,
    /// The number of the newest head that was read.
    newest: u64,
    /// The time of the first entry of the chain, as far as it is known.
    started: Option<i64>,
    runs: Runs,
    /// Whether there is an entry with the number of the head, and whether the head is about that entry.
    last_entry: Option<bool>,
    /// The same of the head that was noted.
    noted_entry: Option<bool>,
    /// The number and the time of the first entry after the newest head.
    first_after_head: Option<(u64, i64)>,
    entries: u64,
    expired: u64,
    unchained: u64,
    findings: Findings,
}

impl<'v> Verification<'v> {
    fn new(head: &'v Head, noted: Option<&'v LogHead>, now: i64) -> Self {
        Verification {
            head,
            noted,
            now,
            newest: head.number,
            started: head.started,
            runs: Runs::default(),
            last_entry: None,
            noted_entry: None,
            first_after_head: None,
            entries: 0,
            expired: 0,
            unchained: 0,
            findings: Findings::default(),
        }
    }

    /// Adds the next entry of the chain in the order of time.
    fn add(&mut self, link: Link) {
        let is = |found: &mut Option<bool>, hash: &str| *found = Some(*found == Some(true) || link.last == hash);
        if let Some(noted) = self.noted.filter(|noted| noted.number == link.number) {
            is(&mut self.noted_entry, &noted.hash);
        }
        if link.number == self.head.number {
            is(&mut self.last_entry, &self.head.last);
        }
        if link.number > self.newest {
            self.first_after_head = self.first_after_head.into_iter().chain([(link.number, link.at)]).min();
        }
        if link.number > self.head.number {
            return;
        }
        self.entries += 1;
        let (number, at) = (Some(link.number), Some(link.at));
        match &link.hash {
            HashCheck::Right => {}
            HashCheck::Wrong => self.find(LogFindingKind::Changed, number, at),
            HashCheck::UnknownKey(id) => self.find(LogFindingKind::UnknownKey(id.clone()), number, at),
        }
        if link.hash != HashCheck::Wrong {
            // The head may have been forged since the chain began.
            self.started = self.started.into_iter().chain(at).min();
        }
        if link.after_changed_head {
            self.find(LogFindingKind::HeadChanged, number, at);
        }
        let added = self.runs.add(link);
        for (kind, number, at) in added.findings {
            self.find(kind, Some(number), Some(at));
        }
        if let Some(gap) = added.gap {
            self.check_gap(gap);
        }
    }

    /// Adds an entry without a link.
    fn add_unchained(&mut self, at: i64) {
        if self.started.is_some_and(|started| at >= started) {
            self.find(LogFindingKind::Unchained, None, Some(at));
        } else {
            self.unchained += 1;
        }
    }

    fn report(mut self) -> LogReport {
        let head = self.head;
        let (gaps, last) = std::mem::take(&mut self.runs).gaps();
        for gap in gaps {
            self.check_gap(gap);
        }
        if last < head.number {
            let expiries = (head.hash == HashCheck::Right).then(|| head.expiries.clone());
            self.check_gap(Gap { number: last + 1, count: head.number - last, at: None, expiries });
        }
        if self.last_entry == Some(false) {
            self.find(LogFindingKind::HeadReplaced, Some(head.number), None);
        }
        match &head.hash {
            HashCheck::Right => {}
            HashCheck::Wrong => self.find(LogFindingKind::HeadChanged, None, None),
            HashCheck::UnknownKey(id) => self.find(LogFindingKind::UnknownKey(id.clone()), None, None),
        }
        if let Some((number, at)) = self.first_after_head {
            self.find(LogFindingKind::HeadReplaced, Some(number), Some(at));
        }
        if let Some(noted) = self.noted.filter(|_| self.noted_entry != Some(true)) {
            // A head that was noted is older than this one, which is that of the verification.
            let is_gone = self.noted_entry.is_none() && noted.number < head.number;
            let kind = if is_gone { LogFindingKind::NotedExpired } else { LogFindingKind::NotAsNoted };
            self.find(kind, Some(noted.number), None);
        }
        let Verification { entries, expired, unchained, .. } = self;
        let (findings, further_findings) = self.findings.sorted();
        let head = LogHead { number: head.number, hash: head.last.clone() };
        LogReport { entries, expired, unchained, head, findings, further_findings }
    }

    /// Entries that are not there have expired, or were removed.
    fn check_gap(&mut self, gap: Gap) {
        let Gap { number, count, at, expiries } = gap;
        if expiries.is_some_and(|expiries| expiries.have_expired(number, self.now)) {
            self.expired += count;
        } else {
            self.findings.add(LogFinding { kind: LogFindingKind::Removed, number: Some(number), at, count });
        }
    }

    fn find(&mut self, kind: LogFindingKind, number: Option<u64>, at: Option<i64>) {
        self.findings.add(LogFinding { kind, number, at, count: 1 });
    }
}

/// Entries that are not there.
#[derive(Debug)]
struct Gap {
    /// The number of the first one.
    number: u64,
    count: u64,
    /// The time of the entry after them.
    at: Option<i64>,
    /// When they have expired, as far as that entry says it and can be believed.
    expiries: Option<Expiries>,
}
