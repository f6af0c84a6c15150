//! What a verification of the operator log says.

use std::{collections::HashMap, fmt, str::FromStr};

/// Findings of a kind that are kept.
const MAX_FINDINGS: u64 = 1_000;

/// What the hash chain says about the operator log.
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
    /// What is wrong, of each kind up to 1,000 findings.
    pub findings: Vec<LogFinding>,
    /// How many more findings there are.
    pub further_findings: u64,
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

/// Something that is wrong with the operator log.
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

/// What is wrong with the operator log.
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
    /// This entry was linked to a changed head: its hash was wrong, or made with a key that was lost.
    HeadChanged,
    /// There are entries after the head: it was removed, or an older one was put back.
    HeadReplaced,
    /// The chain does not have the entry that was noted.
    NotAsNoted,
    /// The entry that was noted has expired: note a newer one.
    NotedExpired,
}

impl LogReport {
    /// How many findings there are.
    pub fn finding_count(&self) -> u64 {
        self.findings.len() as u64 + self.further_findings
    }
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

/// Findings, of each kind a bounded number. One kind does not keep another one out.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<LogFinding>,
    counts: HashMap<&'static str, u64>,
    further: u64,
}

impl Findings {
    pub(super) fn add(&mut self, finding: LogFinding) {
        let count = self.counts.entry(finding.kind.name()).or_default();
        *count += 1;
        if *count <= MAX_FINDINGS {
            self.kept.push(finding);
        } else {
            self.further += 1;
        }
    }

    /// The findings in the order of their entries, and how many more there are.
    pub(super) fn sorted(mut self) -> (Vec<LogFinding>, u64) {
        self.kept.sort_by_key(|finding| finding.number.unwrap_or(u64::MAX));
        (self.kept, self.further)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_findings_of_one_kind_are_counted_and_hide_none_of_another() {
        let mut findings = Findings::default();
        let finding = |kind, number| LogFinding { kind, number: Some(number), at: None, count: 1 };
        for number in 1..=5_000 {
            findings.add(finding(LogFindingKind::UnknownKey(number.to_string()), number));
        }
        findings.add(finding(LogFindingKind::Removed, 7));
        let (kept, further) = findings.sorted();
        assert_eq!((kept.len(), further), (1_001, 4_000));
        assert_eq!(kept.iter().position(|finding| finding.kind == LogFindingKind::Removed), Some(7));
    }

    #[test]
    fn a_report_counts_the_findings_that_are_kept_and_the_others() {
        let finding = || LogFinding { kind: LogFindingKind::Changed, number: Some(1), at: None, count: 1 };
        let head = LogHead { number: 1, hash: String::new() };
        let report = |findings, further_findings| LogReport {
            entries: 1,
            expired: 0,
            unchained: 0,
            head: head.clone(),
            findings,
            further_findings,
        };
        assert_eq!(report(vec![finding(), finding()], 3).finding_count(), 5);
        assert_eq!(report(Vec::new(), 0).finding_count(), 0);
    }

    #[test]
    fn a_noted_head_is_a_number_and_a_hash_of_64_digits() {
        let hash = "0123456789ABCDEF".repeat(4);
        let head = LogHead { number: 17, hash: hash.to_lowercase() };
        assert_eq!(format!(" 17-{hash}\n").parse(), Ok(head));
        for hash in [hash[1..].to_owned(), format!("{hash}0"), hash.replace('A', "g"), String::new()] {
            assert!(format!("17-{hash}").parse::<LogHead>().is_err(), "{hash}");
        }
        for text in [hash.clone(), format!("-{hash}"), format!("x-{hash}"), format!("17{hash}")] {
            assert!(text.parse::<LogHead>().is_err(), "{text}");
        }
    }
}
