//! Whether a history is one that a store without concurrency could have given.

use std::{collections::BTreeMap, fmt};

use super::{Call, Event, Outcome, Version};

/// What cannot have happened one call after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Two writes replaced the same version.
    ReplacedTwice(Event, Event),
    /// A version was read or replaced before any write that could have made it.
    OutOfNothing(Event, Version),
    /// A write made a lower version than one that was acknowledged before it was called.
    OutOfOrder(Event, Event),
    /// A condition failed although it held for as long as the call took.
    RefusedWithoutReason(Event),
    /// Items that are always written together were read with different versions.
    Torn(Event),
    /// A read did not see a write that was acknowledged before.
    Stale(Event, Version),
    /// A read saw less than one that ended before.
    Backwards(Event, Version),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::ReplacedTwice(one, other) => write!(f, "two writes replaced one version: {one} and {other}"),
            Violation::OutOfNothing(event, version) => {
                write!(f, "{event}: nobody could have written version {version} by then")
            }
            Violation::OutOfOrder(one, other) => {
                write!(f, "{one} came after {other} was acknowledged, and made a lower version")
            }
            Violation::RefusedWithoutReason(event) => write!(f, "{event}: the condition held all the time"),
            Violation::Torn(event) => write!(f, "{event}: half a write set was seen"),
            Violation::Stale(event, version) => write!(f, "{event}: version {version} was acknowledged before"),
            Violation::Backwards(event, version) => write!(f, "{event}: version {version} had been read before"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { client, invoked, returned, register, call } = self;
        write!(f, "[{invoked}..{returned}] client {client}, register {register}: ")?;
        match call {
            Call::Write { from, outcome: Outcome::Done } => write!(f, "replaced version {from}"),
            Call::Write { from, outcome: Outcome::Refused } => write!(f, "was refused to replace version {from}"),
            Call::Write { from, outcome: Outcome::Unknown } => write!(f, "may have replaced version {from}"),
            Call::Read(seen) => write!(f, "read {seen:?}"),
        }
    }
}

/// Checks a history, in whatever order its events are; the first violation that is found.
pub(crate) fn check(events: &[Event]) -> Result<(), Box<Violation>> {
    let mut registers: BTreeMap<usize, Register<'_>> = BTreeMap::new();
    for event in events {
        registers.entry(event.register).or_default().events.push(event);
    }
    registers.into_values().try_for_each(|register| register.check()).map_err(Box::new)
}

/// The events of one register.
#[derive(Default)]
struct Register<'e> {
    events: Vec<&'e Event>,
}

/// The writes of a register by the version that they replaced.
#[derive(Default)]
struct Writes<'e> {
    done: BTreeMap<Version, &'e Event>,
    /// When the first write that could have replaced a version was called.
    called: BTreeMap<Version, u64>,
}

impl<'e> Register<'e> {
    fn check(mut self) -> Result<(), Violation> {
        let writes = self.writes()?;
        writes.check_versions_are_consecutive()?;
        self.check_refusals(&writes)?;
        self.check_reads(&writes)
    }

    fn writes(&self) -> Result<Writes<'e>, Violation> {
        let mut writes = Writes::default();
        for event in &self.events {
            let Call::Write { from, outcome } = &event.call else { continue };
            if *outcome == Outcome::Done
                && let Some(other) = writes.done.insert(*from, event)
            {
                return Err(Violation::ReplacedTwice(other.clone(), (*event).clone()));
            }
            if *outcome != Outcome::Refused {
                let called = writes.called.entry(*from).or_insert(event.invoked);
                *called = event.invoked.min(*called);
            }
        }
        Ok(writes)
    }

    /// A condition that fails has to have failed at some moment of the call.
    fn check_refusals(&self, writes: &Writes<'_>) -> Result<(), Violation> {
        for event in &self.events {
            let Call::Write { from, outcome: Outcome::Refused } = &event.call else { continue };
            let was_there = *from == 0 || writes.made(*from).is_some_and(|made| made.returned < event.invoked);
            let was_replaced = writes.called.get(from).is_some_and(|called| *called < event.returned);
            if was_there && !was_replaced {
                return Err(Violation::RefusedWithoutReason((*event).clone()));
            }
        }
        Ok(())
    }

    /// Reads see whole write sets, every write acknowledged before them, and nothing that earlier reads had passed.
    fn check_reads(&mut self, writes: &Writes<'_>) -> Result<(), Violation> {
        let possible = writes.possible();
        let mut ended: Vec<&Event> = self.events.clone();
        ended.sort_unstable_by_key(|event| event.returned);
        self.events.sort_unstable_by_key(|event| event.invoked);
        let mut ended = ended.into_iter().peekable();
        let (mut acknowledged, mut read) = (0, 0);
        for event in &self.events {
            while let Some(earlier) = ended.next_if(|earlier| earlier.returned < event.invoked) {
                match &earlier.call {
                    Call::Write { from, outcome: Outcome::Done } => acknowledged = acknowledged.max(from + 1),
                    Call::Write { .. } => {}
                    Call::Read(seen) => read = seen.iter().copied().fold(read, Version::max),
                }
            }
            let Call::Read(seen) = &event.call else { continue };
            let Some(version) = seen.first().copied() else { continue };
            let violation = |violation: fn(Event, Version) -> Violation, of| Err(violation((*event).clone(), of));
            if seen.iter().any(|other| *other != version) {
                return Err(Violation::Torn((*event).clone()));
            }
            if version > 0 && possible.get(&version).is_none_or(|called| *called > event.returned) {
                return violation(Violation::OutOfNothing, version);
            }
            if version < acknowledged {
                return violation(Violation::Stale, acknowledged);
            }
            if version < read {
                return violation(Violation::Backwards, read);
            }
        }
        Ok(())
    }
}

impl Writes<'_> {
    /// The write that made a version, if it was acknowledged.
    fn made(&self, version: Version) -> Option<&Event> {
        self.done.get(&version.checked_sub(1)?).copied()
    }

    /// Each version follows from the one before, and none was made after a higher one was acknowledged.
    fn check_versions_are_consecutive(&self) -> Result<(), Violation> {
        let mut first_higher: Option<&Event> = None;
        for (from, event) in self.done.iter().rev() {
            if *from > 0 && self.called.get(&(from - 1)).is_none_or(|called| *called > event.returned) {
                return Err(Violation::OutOfNothing((*event).clone(), *from));
            }
            if let Some(higher) = first_higher.filter(|higher| higher.returned < event.invoked) {
                return Err(Violation::OutOfOrder((*event).clone(), higher.clone()));
            }
            if first_higher.is_none_or(|higher| event.returned < higher.returned) {
                first_higher = Some(event);
            }
        }
        Ok(())
    }

    /// From which tick on a version may have been there: the writes of all versions up to it have been called.
    fn possible(&self) -> BTreeMap<Version, u64> {
        let mut possible = BTreeMap::new();
        let mut since = 0;
        for (version, (from, called)) in (1..).zip(&self.called) {
            if *from + 1 != version {
                break;
            }
            since = since.max(*called);
            possible.insert(version, since);
        }
        possible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with the ticks before and after it.
    fn event(client: usize, (invoked, returned): (u64, u64), call: Call) -> Event {
        Event { client, invoked, returned, register: 0, call }
    }

    fn wrote(client: usize, ticks: (u64, u64), from: Version) -> Event {
        event(client, ticks, Call::Write { from, outcome: Outcome::Done })
    }

    fn expect_error(client: usize, ticks: (u64, u64), from: Version) -> Event {
        event(client, ticks, Call::Write { from, outcome: Outcome::Refused })
    }

    fn lost(client: usize, ticks: (u64, u64), from: Version) -> Event {
        event(client, ticks, Call::Write { from, outcome: Outcome::Unknown })
    }

    fn read(client: usize, ticks: (u64, u64), seen: &[Version]) -> Event {
        event(client, ticks, Call::Read(seen.to_vec()))
    }

    #[track_caller]
    fn fine(history: &[Event]) {
        assert_eq!(check(history), Ok(()));
    }

    #[track_caller]
    fn bad(history: &[Event], expected: &str) {
        let violation = check(history).expect_err("the history is bad");
        assert!(violation.to_string().contains(expected), "{violation}");
    }

    #[test]
    fn calls_one_after_another_are_fine() {
        fine(&[wrote(1, (0, 1), 0), read(2, (2, 3), &[1, 1]), wrote(2, (4, 5), 1), read(1, (6, 7), &[2])]);
    }

    #[test]
    fn calls_at_the_same_time_may_be_seen_or_not() {
        fine(&[wrote(1, (0, 9), 0), read(2, (1, 2), &[0]), read(2, (3, 4), &[1]), expect_error(3, (5, 6), 0)]);
    }

    #[test]
    fn a_version_is_replaced_once() {
        bad(&[wrote(1, (0, 3), 0), wrote(2, (1, 2), 0)], "two writes replaced one version");
    }

    #[test]
    fn a_version_is_made_before_it_is_replaced() {
        bad(&[wrote(1, (0, 1), 1)], "nobody could have written version 1");
        bad(&[wrote(1, (0, 1), 1), wrote(2, (2, 3), 0)], "nobody could have written version 1");
    }

    #[test]
    fn an_unanswered_write_may_have_made_a_version() {
        fine(&[lost(1, (0, 1), 0), wrote(2, (2, 3), 1), read(2, (4, 5), &[2])]);
        fine(&[lost(1, (0, 1), 0), read(2, (2, 3), &[0]), wrote(2, (4, 5), 0)]);
        fine(&[lost(1, (0, 1), 0), expect_error(2, (2, 3), 0)]);
    }

    #[test]
    fn versions_grow_in_the_order_of_real_time() {
        let history = [wrote(1, (0, 9), 0), lost(3, (1, 2), 1), wrote(1, (3, 4), 2), wrote(2, (5, 6), 1)];
        bad(&history, "made a lower version");
    }

    #[test]
    fn a_condition_that_held_all_the_time_does_not_fail() {
        bad(&[expect_error(1, (0, 1), 0)], "held all the time");
        bad(&[wrote(1, (0, 1), 0), expect_error(2, (2, 3), 1), wrote(1, (4, 5), 1)], "held all the time");
        fine(&[wrote(1, (0, 2), 0), expect_error(2, (1, 3), 1)]);
    }

    #[test]
    fn a_read_sees_whole_write_sets() {
        bad(&[wrote(1, (0, 1), 0), wrote(1, (2, 9), 1), read(2, (3, 4), &[2, 1])], "half a write set");
    }

    #[test]
    fn a_read_sees_what_was_acknowledged_before() {
        bad(&[wrote(1, (0, 1), 0), read(2, (2, 3), &[0])], "version 1 was acknowledged before");
    }

    #[test]
    fn reads_in_sequence_never_go_back() {
        // Both while the write is under way: the second item is older than the first that the same client saw.
        bad(&[wrote(1, (0, 9), 0), read(2, (1, 2), &[1]), read(2, (3, 4), &[0])], "version 1 had been read before");
        // Another client is no different.
        bad(&[wrote(1, (0, 9), 0), read(2, (1, 2), &[1]), read(3, (3, 4), &[0])], "version 1 had been read before");
        fine(&[wrote(1, (0, 9), 0), read(2, (1, 4), &[1]), read(3, (2, 3), &[0])]);
    }

    #[test]
    fn nothing_is_seen_before_it_is_written() {
        bad(&[read(2, (0, 1), &[1]), wrote(1, (2, 3), 0)], "nobody could have written version 1");
        bad(&[wrote(1, (0, 1), 0), read(2, (2, 3), &[7])], "nobody could have written version 7");
    }

    #[test]
    fn registers_have_nothing_to_do_with_each_other() {
        let other = |event: Event| Event { register: 1, ..event };
        fine(&[wrote(1, (0, 1), 0), other(read(2, (2, 3), &[0]))]);
        bad(&[wrote(1, (0, 1), 0), other(wrote(1, (2, 3), 0)), other(read(2, (4, 5), &[0]))], "register 1: read [0]");
    }
}
