//! What may be in the store after everything that its client knows: every state that the answers allow.

use std::collections::{BTreeMap, BTreeSet};

use crate::workload::{Change, Expected, Place, START, Stored};

pub(crate) type State = BTreeMap<Place, Stored>;

/// More states than answers that are lost can give: the client stops before.
const MOST_STATES: usize = 4096;

/// What the log of a process tells.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: Vec<Event>,
    pub(crate) index_done: bool,
    /// The second of the last step.
    pub(crate) now: i64,
    /// Whether the client came to its end.
    pub(crate) ended: bool,
    /// Faults that have struck, if it did.
    pub(crate) struck: u64,
    /// Why the process did not take writes again by itself, if it was to.
    pub(crate) not_healed: Option<String>,
    /// Whether compacting did not come to an end.
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
        place: Place,
        stamp: Option<u64>,
    },
    /// A journal was really synced.
    Synced,
    /// The number of acknowledged commits was really synced.
    Counted,
    /// A sync was acknowledged and not made.
    Lied,
    /// A write of a journal went elsewhere.
    Misdirected,
    /// The directory was opened anew.
    Opened,
}

/// What a disk does that not even its own contents can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It acknowledges syncs that it does not make.
    LostSyncs,
    /// It writes elsewhere, and then loses what was not synced, the number of acknowledged commits among it.
    MisdirectedBeforePowerLoss,
}

/// A state, and the writes without an answer that may still come to be: the journal may hold what memory does not show
/// until the directory is opened again.
type Possible = BTreeSet<(State, Vec<usize>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    /// It failed, and the error says that nothing has happened.
    Nothing,
    Unknown,
}

impl History {
    pub(crate) fn read(log: &str) -> Self {
        let mut history = History { now: START, ..History::default() };
        for line in log.lines() {
            // The last line may be cut.
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
            "done" => self.answered(words.next()?.parse().ok()?, Outcome::Done),
            "refused" => self.answered(words.next()?.parse().ok()?, Outcome::Refused),
            "nothing" => self.answered(words.next()?.parse().ok()?, Outcome::Nothing),
            "read" => {
                let (now, place) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let stamp = match words.next()? {
                    "none" => None,
                    stamp => Some(stamp.parse().ok()?),
                };
                self.events.push(Event::Read { now, place, stamp });
            }
            "synced" => self.events.push(Event::Synced),
            "counted" => self.events.push(Event::Counted),
            "lied" => self.events.push(Event::Lied),
            "misdirected" => self.events.push(Event::Misdirected),
            "opened" => self.events.push(Event::Opened),
            "compact" => self.hangs |= rest == "hangs",
            // A sweep may have taken what expires by then.
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

    fn answered(&mut self, answered: u64, how: Outcome) {
        for event in self.events.iter_mut().rev() {
            if let Event::Write { number, outcome, .. } = event
                && *number == answered
            {
                *outcome = how;
                return;
            }
        }
    }

    /// Every state that may be there.
    pub(crate) fn possible(&self, lie: Option<Lie>) -> Result<BTreeSet<State>, String> {
        let mut possible = Possible::from([(State::new(), Vec::new())]);
        let lossy = lie.map_or(self.events.len(), |lie| self.lossy_from(lie));
        let mut all = BTreeSet::new();
        for at in 0..self.events.len() {
            if at >= lossy {
                all.extend(self.settled(&possible).into_iter().map(|(state, _)| state));
            }
            possible = self.after(at, possible)?;
            if possible.len() > MOST_STATES {
                return Err("the simulation cannot follow so many lost answers".to_owned());
            }
        }
        all.extend(self.settled(&possible).into_iter().map(|(state, _)| state));
        Ok(all)
    }

    /// The event from which on acknowledged writes may be gone without a word: there is nothing on the disk that could tell.
    fn lossy_from(&self, lie: Lie) -> usize {
        let last = |wanted: fn(&Event) -> bool| self.events.iter().rposition(wanted);
        match lie {
            Lie::LostSyncs => {
                let honest = last(|event| matches!(event, Event::Synced | Event::Counted)).unwrap_or(0);
                // A flush may have synced the journal between the beginning of a write and its own sync, which was the lie.
                let lied = last(|event| matches!(event, Event::Lied)).is_some_and(|lied| lied > honest);
                let under_way = self.events[..honest].iter().rposition(|event| matches!(event, Event::Write { .. }));
                under_way.filter(|_| lied).unwrap_or(honest)
            }
            Lie::MisdirectedBeforePowerLoss => {
                let misdirected = last(|event| matches!(event, Event::Misdirected));
                let written = last(|event| matches!(event, Event::Write { outcome: Outcome::Done, .. }));
                // A commit that follows shows that one is missing before it.
                match misdirected > written {
                    true => last(|event| matches!(event, Event::Counted)).unwrap_or(0),
                    false => self.events.len(),
                }
            }
        }
    }

    /// Each state with any of its writes without an answer, in their order.
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
        for Change { place, new, .. } in changes {
            match new {
                Some(stored) => state.insert(*place, *stored),
                None => state.remove(place),
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
            Event::Read { now, place, stamp } => {
                possible = self.settled(&possible);
                possible.retain(|(state, _)| found(state, *place, *now) == *stamp);
                if possible.is_empty() {
                    return Err(format!("a read of {place} gave {stamp:?}, which cannot have been there"));
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
                        "write {number} was answered with {outcome:?}, which its condition did not allow"
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

fn found(state: &State, place: Place, now: i64) -> Option<u64> {
    state.get(&place).filter(|stored| stored.is_alive(now)).map(|stored| stored.stamp)
}

fn holds(state: &State, change: &Change, now: i64) -> bool {
    match change.expected {
        Expected::Anything => true,
        Expected::Nothing => found(state, change.place, now).is_none(),
        Expected::Stamp(stamp) => found(state, change.place, now) == Some(stamp),
    }
}
