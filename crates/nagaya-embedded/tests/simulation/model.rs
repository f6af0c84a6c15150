//! All possible states of the store, according to the results that its client logged.

use std::collections::{BTreeMap, BTreeSet};

use crate::workload::{Change, Expected, ItemId, START, Stored};

pub(crate) type State = BTreeMap<ItemId, Stored>;

/// The maximum number of states; the client stops writing before there are more.
const MAX_STATES: usize = 4096;

/// The parsed log of a process.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: Vec<Event>,
    pub(crate) index_done: bool,
    /// The second of the last step.
    pub(crate) now: i64,
    /// Whether the client finished.
    pub(crate) ended: bool,
    /// The number of operations that failed, if it finished.
    pub(crate) struck: u64,
    /// Why the store did not recover by itself, if it had to.
    pub(crate) not_healed: Option<String>,
    /// Whether a compaction hangs.
    pub(crate) hangs: bool,
    pub(crate) broken: Option<String>,
}

#[derive(Debug)]
enum Event {
    Write {
        number: u64,
        now: i64,
        changes: Vec<Change>,
        outcome: Outcome,
    },
    Read {
        now: i64,
        id: ItemId,
        version: Option<u64>,
    },
    /// A journal was really synced.
    Synced,
    /// The number of acknowledged commits was really synced.
    Counted,
    /// A sync was acknowledged but not made.
    Lied,
    /// A write of a journal went to another page.
    Misdirected,
    /// The directory was opened.
    Opened,
}

/// A fault that the content of the disk cannot show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndetectableFault {
    /// Syncs are acknowledged but not made.
    LostSyncs,
    /// A write goes to another page, and then the power loss reverts the number of acknowledged commits.
    MisdirectedBeforePowerLoss,
}

/// A state, and the writes with an unknown outcome that may still appear: the journal may contain them, and they become
/// visible when the directory is reopened.
type Possible = BTreeSet<(State, Vec<usize>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    /// It failed, and the error says that nothing was written.
    Nothing,
    Unknown,
}

impl History {
    pub(crate) fn read(log: &str) -> Self {
        let mut history = History { now: START, ..History::default() };
        for line in log.lines() {
            // The last line may be incomplete.
            let _ = history.line(line);
        }
        history
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split(' ');
        match verb {
            "write" => {
                let (number, now) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let changes = words.next()?.split(',').map(str::parse).collect::<Result<_, ()>>().ok()?;
                self.events.push(Event::Write { number, now, changes, outcome: Outcome::Unknown });
            }
            "done" => self.set_outcome(words.next()?.parse().ok()?, Outcome::Done),
            "refused" => self.set_outcome(words.next()?.parse().ok()?, Outcome::Refused),
            "nothing" => self.set_outcome(words.next()?.parse().ok()?, Outcome::Nothing),
            "read" => {
                let (now, id) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let version = match words.next()? {
                    "none" => None,
                    version => Some(version.parse().ok()?),
                };
                self.events.push(Event::Read { now, id, version });
            }
            "synced" => self.events.push(Event::Synced),
            "counted" => self.events.push(Event::Counted),
            "lied" => self.events.push(Event::Lied),
            "misdirected" => self.events.push(Event::Misdirected),
            "opened" => self.events.push(Event::Opened),
            "compact" => self.hangs |= rest == "hangs",
            // A sweep may have removed what expires before this time.
            "time" => self.now = words.next()?.parse().ok()?,
            "index" => self.index_done = true,
            "struck" => {
                self.struck += words.next()?.parse::<u64>().ok()?;
                self.ended = true;
            }
            "unhealed" => self.not_healed = Some(rest.to_owned()),
            "broken" => self.broken = Some(line.to_owned()),
            _ => {}
        }
        Some(())
    }

    fn set_outcome(&mut self, write: u64, result: Outcome) {
        for event in self.events.iter_mut().rev() {
            if let Event::Write { number, outcome, .. } = event
                && *number == write
            {
                *outcome = result;
                return;
            }
        }
    }

    /// All possible states.
    pub(crate) fn possible(&self, fault: Option<UndetectableFault>) -> Result<BTreeSet<State>, String> {
        let mut possible = Possible::from([(State::new(), Vec::new())]);
        let lossy = fault.map_or(self.events.len(), |fault| self.lossy_from(fault));
        let mut all = BTreeSet::new();
        for at in 0..self.events.len() {
            if at >= lossy {
                all.extend(self.settled(&possible).into_iter().map(|(state, _)| state));
            }
            possible = self.after(at, possible)?;
            if possible.len() > MAX_STATES {
                return Err("there are too many unknown outcomes for the simulation".to_owned());
            }
        }
        all.extend(self.settled(&possible).into_iter().map(|(state, _)| state));
        Ok(all)
    }

    /// The event after which acknowledged writes may be lost without an error, because nothing on the disk shows the
    /// loss.
    fn lossy_from(&self, fault: UndetectableFault) -> usize {
        let last = |wanted: fn(&Event) -> bool| self.events.iter().rposition(wanted);
        match fault {
            UndetectableFault::LostSyncs => {
                let honest = last(|event| matches!(event, Event::Synced | Event::Counted)).unwrap_or(0);
                // A flush may have synced the journal between the start of a write and its own sync, which was fake.
                let lied = last(|event| matches!(event, Event::Lied)).is_some_and(|lied| lied > honest);
                let under_way = self.events[..honest].iter().rposition(|event| matches!(event, Event::Write { .. }));
                under_way.filter(|_| lied).unwrap_or(honest)
            }
            UndetectableFault::MisdirectedBeforePowerLoss => {
                let misdirected = last(|event| matches!(event, Event::Misdirected));
                let written = last(|event| matches!(event, Event::Write { outcome: Outcome::Done, .. }));
                // A later commit shows that one before it is missing.
                match misdirected > written {
                    true => last(|event| matches!(event, Event::Counted)).unwrap_or(0),
                    false => self.events.len(),
                }
            }
        }
    }

    /// Each state with every subset of its writes with an unknown outcome, in order.
    fn settled(&self, possible: &Possible) -> Possible {
        let mut all = Possible::new();
        for (state, pending) in possible {
            let mut ways = vec![(state.clone(), Vec::new())];
            for at in pending {
                for (state, left) in std::mem::take(&mut ways) {
                    ways.extend(self.applied(*at, &state).map(|applied| (applied, left.clone())));
                    ways.push((state, left.into_iter().chain([*at]).collect()));
                }
            }
            all.extend(ways);
        }
        all
    }

    /// The state after a write, if its conditions hold.
    fn applied(&self, at: usize, state: &State) -> Option<State> {
        let Event::Write { now, changes, .. } = &self.events[at] else { return None };
        if !changes.iter().all(|change| holds(state, change, *now)) {
            return None;
        }
        let mut state = state.clone();
        for Change { id, new, .. } in changes {
            match new {
                Some(stored) => state.insert(*id, *stored),
                None => state.remove(id),
            };
        }
        Some(state)
    }

    fn after(&self, at: usize, mut possible: Possible) -> Result<Possible, String> {
        match &self.events[at] {
            Event::Synced | Event::Counted | Event::Lied | Event::Misdirected => {}
            Event::Opened => {
                possible = self.settled(&possible).into_iter().map(|(state, _)| (state, Vec::new())).collect();
            }
            Event::Read { now, id, version } => {
                possible = self.settled(&possible);
                possible.retain(|(state, _)| found(state, *id, *now) == *version);
                if possible.is_empty() {
                    return Err(format!("a read of {id} gave {version:?}, which is not possible"));
                }
            }
            Event::Write { number, outcome, .. } => {
                match outcome {
                    Outcome::Done => {
                        let settled = self.settled(&possible).into_iter();
                        possible =
                            settled.filter_map(|(state, left)| Some((self.applied(at, &state)?, left))).collect();
                    }
                    Outcome::Refused => {
                        possible = self.settled(&possible);
                        possible.retain(|(state, _)| self.applied(at, state).is_none());
                    }
                    Outcome::Nothing => {}
                    Outcome::Unknown => {
                        let more = |(state, left): (State, Vec<usize>)| (state, left.into_iter().chain([at]).collect());
                        possible = possible.into_iter().map(more).collect();
                    }
                }
                if possible.is_empty() {
                    return Err(format!(
                        "write {number} had the outcome {outcome:?}, which its condition does not allow"
                    ));
                }
            }
        }
        Ok(possible)
    }

    pub(crate) fn writes(&self) -> usize {
        let done = |event: &&Event| matches!(event, Event::Write { outcome: Outcome::Done, .. });
        self.events.iter().filter(done).count()
    }
}

fn found(state: &State, id: ItemId, now: i64) -> Option<u64> {
    state.get(&id).filter(|stored| stored.is_unexpired(now)).map(|stored| stored.version)
}

fn holds(state: &State, change: &Change, now: i64) -> bool {
    match change.expected {
        Expected::Anything => true,
        Expected::Nothing => found(state, change.id, now).is_none(),
        Expected::Version(version) => found(state, change.id, now) == Some(version),
    }
}
