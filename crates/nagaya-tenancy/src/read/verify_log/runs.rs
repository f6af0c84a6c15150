//! Runs of entries with successive numbers.
//!
//! Entries of a log that is whole are one run, however many there are. So a verification needs memory for gaps only, and entries may come
//! in any order.

use std::collections::BTreeMap;

use super::{Gap, LogFindingKind};
use crate::write::{
    Expiries,
    chain::{HashCheck, Link},
};

/// Runs that are kept. If there are more, the gap after the first one is taken for final.
const MAX_RUNS: usize = 10_000;

/// The runs, by the number of their first entry.
#[derive(Debug)]
pub(super) struct Runs(BTreeMap<u64, Run>);

#[derive(Debug)]
struct Run {
    start: Start,
    /// The number and the hash of its last entry.
    last: u64,
    last_hash: String,
}

/// What the first entry of a run says about the ones before it.
#[derive(Debug)]
struct Start {
    at: i64,
    previous: String,
    expiries: Option<Expiries>,
}

/// What adding an entry reveals.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// What is wrong, with the number and the time of the entry.
    pub(super) findings: Vec<(LogFindingKind, u64, i64)>,
    /// A gap that is final.
    pub(super) gap: Option<Gap>,
}

impl Default for Runs {
    /// The log begins after an entry 0 without a hash.
    fn default() -> Self {
        let start = Start { at: 0, previous: String::new(), expiries: None };
        Runs(BTreeMap::from([(0, Run { start, last: 0, last_hash: String::new() })]))
    }
}

impl Runs {
    pub(super) fn add(&mut self, link: Link) -> Added {
        let Link { number, at, last, previous, .. } = link;
        let mut added = Added::default();
        let before = self.0.range_mut(..=number).next_back().map(|(_, run)| run);
        if before.as_ref().is_some_and(|run| run.last >= number) {
            added.findings.push((LogFindingKind::Repeated, number, at));
            return added;
        }
        // What a changed entry says about the ones before it counts for nothing, and neither does what a changed head said.
        let is_believed = link.hash != HashCheck::Wrong && !link.after_changed_head;
        let expiries = is_believed.then_some(link.previous_expiries);
        match before.filter(|run| run.last + 1 == number) {
            Some(run) => {
                if run.last_hash != previous {
                    added.findings.push((LogFindingKind::Unlinked, number, at));
                }
                (run.last, run.last_hash) = (number, last);
            }
            None => {
                let start = Start { at, previous, expiries };
                self.0.insert(number, Run { start, last: number, last_hash: last });
            }
        }
        if let Some(next) = number.checked_add(1).and_then(|next| self.0.remove(&next))
            && let Some((_, run)) = self.0.range_mut(..=number).next_back()
        {
            if next.start.previous != run.last_hash {
                added.findings.push((LogFindingKind::Unlinked, number + 1, next.start.at));
            }
            (run.last, run.last_hash) = (next.last, next.last_hash);
        }
        if self.0.len() > MAX_RUNS {
            added.gap = self.close_first_gap();
        }
        added
    }

    /// The gaps between the runs, and the number of the last entry.
    pub(super) fn gaps(self) -> (Vec<Gap>, u64) {
        let mut last = 0;
        let mut gaps = Vec::new();
        for (first, run) in self.0 {
            gaps.extend(gap(last, first, run.start));
            last = run.last;
        }
        (gaps, last)
    }

    fn close_first_gap(&mut self) -> Option<Gap> {
        let (_, mut first) = self.0.pop_first()?;
        let (number, second) = self.0.pop_first()?;
        let closed = gap(first.last, number, second.start);
        (first.last, first.last_hash) = (second.last, second.last_hash);
        self.0.insert(0, first);
        closed
    }
}

/// What is missing between the last entry of a run and the first one of the next run; `None` before the first run. Between two runs
/// something is always missing.
fn gap(last: u64, next: u64, Start { at, expiries, .. }: Start) -> Option<Gap> {
    let count = next.checked_sub(last + 1)?;
    Some(Gap { number: last + 1, count, at: Some(at), expiries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(number: u64) -> Link {
        Link {
            number,
            at: 0,
            last: number.to_string(),
            previous: if number <= 1 { String::new() } else { (number - 1).to_string() },
            previous_expiries: Expiries::default(),
            after_changed_head: false,
            hash: HashCheck::Right,
        }
    }

    /// The runs of these entries, and how often each kind of finding was there.
    fn runs(links: impl IntoIterator<Item = Link>) -> (Runs, BTreeMap<&'static str, usize>) {
        let (mut runs, mut found) = (Runs::default(), BTreeMap::new());
        for link in links {
            let added = runs.add(link);
            let names = added.findings.iter().map(|(kind, ..)| kind.name()).chain(added.gap.map(|_| "gap"));
            names.for_each(|name| *found.entry(name).or_default() += 1);
        }
        (runs, found)
    }

    #[test]
    fn a_log_that_is_whole_is_one_run_in_whatever_order_it_comes() {
        let orders: [fn(u64) -> u64; 3] = [|at| at, |at| 5_000 - at + 1, |at| at * 7 % 5_001];
        for order in orders {
            let (runs, found) = runs((1..=5_000).map(|at| link(order(at))));
            assert_eq!((runs.0.len(), found), (1, BTreeMap::new()));
            let (gaps, last) = runs.gaps();
            assert!(gaps.is_empty() && last == 5_000);
        }
    }

    #[test]
    fn an_entry_of_another_chain_is_found_in_whatever_order_it_comes() {
        let foreign = || Link { last: "x".to_owned(), previous: "y".to_owned(), ..link(2) };
        for links in [[link(1), foreign(), link(3)], [link(3), foreign(), link(1)], [foreign(), link(1), link(3)]] {
            assert_eq!(runs(links).1, BTreeMap::from([("unlinked", 2)]));
        }
        assert_eq!(runs([link(1), link(2), foreign(), link(3)]).1, BTreeMap::from([("repeated", 1)]));
        let links = [link(3), foreign(), link(1)];
        let mut runs_of_three = Runs::default();
        let found = links.into_iter().flat_map(|link| runs_of_three.add(link).findings);
        assert_eq!(found.map(|(_, number, _)| number).collect::<Vec<_>>(), [3, 2], "those that do not follow");
        assert_eq!(runs([link(0)]).1, BTreeMap::from([("repeated", 1)]), "the first one has the number 1");
    }

    #[test]
    fn many_gaps_need_a_bounded_number_of_runs_and_each_is_reported_once() {
        // Beside the run that the log begins with.
        let most = MAX_RUNS as u64 - 1;
        assert_eq!(runs((1..=most).map(|at| link(2 * at))).1, BTreeMap::new());
        assert_eq!(runs((1..=most + 1).map(|at| link(2 * at))).1, BTreeMap::from([("gap", 1)]));
        let number = 3 * MAX_RUNS as u64;
        let (runs, found) = runs((1..=number).map(|at| link(2 * at)));
        assert!(runs.0.len() <= MAX_RUNS);
        let (gaps, last) = runs.gaps();
        assert_eq!((found["gap"] + gaps.len(), last), (number as usize, 2 * number));
        assert!(gaps.iter().all(|gap| gap.count == 1 && gap.number % 2 == 1));
    }

    #[test]
    fn a_changed_entry_and_one_after_a_changed_head_say_nothing_about_the_ones_before() {
        let says = |link: Link| runs([link]).0.gaps().0.remove(0).expiries.is_some();
        assert!(says(link(9)));
        assert!(!says(Link { hash: HashCheck::Wrong, ..link(9) }));
        assert!(!says(Link { after_changed_head: true, ..link(9) }));
    }
}
