//! The keys of templates as regular languages: decides whether two templates can give the same key.
//!
//! Comparing literal prefixes is not enough. `USER#{id}` and `USER_PREFS#{id}` never collide; `tenant_{name}` and
//! `tenant_user_{id}` do, unless names cannot contain an underscore. Each language becomes an automaton, and a search
//! through the product of two automata finds a key that both accept.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    rc::Rc,
};

use regex_automata::{
    Anchored, Input, MatchKind,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::primitives::StateID,
};

use crate::{
    diagnostic::Span,
    template::{End, Part, Slot, Template},
    text_syntax::{StringFormat, escape},
};

type Dfa = dense::DFA<Vec<u32>>;

/// The languages of a design's templates; each automaton is built once.
#[derive(Default)]
pub(crate) struct Languages {
    built: HashMap<String, Option<Rc<Dfa>>>,
    /// Whether the values of an expression need no escaping before a terminator.
    plain: HashMap<(String, Option<char>), bool>,
    /// What the comparisons so far have cost.
    cost: usize,
    /// The templates that were compared last within the budget.
    pub(crate) last_compared: Option<(Span, Span)>,
}

/// Whether the literal prefixes differ: true for most pairs, and much cheaper than an automaton.
fn have_different_prefixes(left: &Template, right: &Template) -> bool {
    let (left, right) = (left.literal_prefix(), right.literal_prefix());
    !left.starts_with(right) && !right.starts_with(left)
}

/// The size limit of an automaton. A larger pattern counts as matching anything.
const MAX_AUTOMATON_BYTES: usize = 1 << 18;
/// The size limit of what an automaton is built from.
const MAX_NFA_BYTES: usize = 1 << 20;
/// The most that all comparisons of a design may cost: in states of automata that are built or visited.
const BUDGET: usize = 100_000;
/// About how many bytes of an automaton take as long to build as one state takes to visit.
const BYTES_PER_STEP: usize = 64;

impl Languages {
    /// Whether the design needs more comparisons than the budget allows. What is asked after that has no answer.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.cost > BUDGET
    }

    /// What the comparisons so far have cost.
    #[cfg(test)]
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// The regular expression of the keys that a template gives, up to the field after the first `bound` ones.
    fn language(&mut self, template: &Template, bound: usize) -> String {
        let mut expression = String::new();
        let mut slots = 0;
        for part in &template.parts {
            match part {
                Part::Literal(literal) => expression += &regex::escape(literal),
                Part::Slot(_) if slots == bound => break,
                Part::Slot(slot) => {
                    slots += 1;
                    expression += &self.slot(slot);
                }
            }
        }
        expression
    }

    /// Whether a value of a slot can contain a character that is escaped in the key.
    pub(crate) fn may_need_escaping(&mut self, slot: &Slot) -> bool {
        let marked =
            |text: &String| text.contains(['#', '%']) || slot.terminator().is_some_and(|stop| text.contains(stop));
        if !slot.text_syntax.one_of.is_empty() {
            return slot.text_syntax.one_of.iter().any(marked);
        }
        match slot.text_syntax.expression(slot.pad) {
            Some(expression) => !self.is_plain(&format!("(?:{expression})"), slot.terminator()),
            None => true,
        }
    }

    /// Whether a value of a slot can contain a character of a class such as `[/?]`.
    pub(crate) fn may_contain(&mut self, slot: &Slot, class: &str) -> bool {
        let values = slot.text_syntax.expression(slot.pad).unwrap_or_else(|| "(?s:.*)".to_owned());
        self.shortest_common_text(&format!("(?:{values})"), &format!("(?s:.*){class}(?s:.*)")).is_some()
    }

    /// The escaped values of a slot.
    fn slot(&mut self, slot: &Slot) -> String {
        let stop = slot.terminator();
        let any = match stop {
            Some(stop) => format!("[^#{}]+", regex::escape(&stop.to_string())),
            None => "[^#]+".to_owned(),
        };
        if !slot.text_syntax.one_of.is_empty() {
            let escaped = |choice: &String| {
                let mut escaped = String::new();
                escape(choice, stop, &mut escaped);
                regex::escape(&escaped)
            };
            let choices: Vec<_> = slot.text_syntax.one_of.iter().map(escaped).collect();
            return format!("(?:{})", choices.join("|"));
        }
        let Some(expression) = slot.text_syntax.expression(slot.pad) else { return any };
        let expression = format!("(?:{expression})");
        if matches!(slot.end, End::After(_)) {
            return expression;
        }
        match slot.text_syntax.format {
            _ if self.is_plain(&expression, stop) => expression,
            // Escaping does not change the `@` of an email address.
            Some(StringFormat::Email) if stop != Some('@') => format!("{any}@{any}"),
            _ => any,
        }
    }

    /// Whether no value contains a character that is escaped in the key.
    fn is_plain(&mut self, expression: &str, stop: Option<char>) -> bool {
        let asked = (expression.to_owned(), stop);
        if let Some(known) = self.plain.get(&asked) {
            return *known;
        }
        let stop = stop.map_or_else(String::new, |stop| regex::escape(&stop.to_string()));
        let marked = format!("(?s:.*)[#%{stop}](?s:.*)");
        let plain = self.automaton(expression).is_some() && self.shortest_common_text(expression, &marked).is_none();
        self.plain.insert(asked, plain);
        plain
    }

    /// A key that two templates can both give.
    pub(crate) fn common_key(&mut self, left: &Template, right: &Template) -> Option<String> {
        if have_different_prefixes(left, right) {
            return None;
        }
        self.compares(left, right);
        let (left, right) = (self.language(left, usize::MAX), self.language(right, usize::MAX));
        self.shortest_common_text(&left, &right)
    }

    /// A key of `other` that has the same prefix as a key of `template` with its first `bound` fields.
    pub(crate) fn common_prefix(&mut self, template: &Template, bound: usize, other: &Template) -> Option<String> {
        if have_different_prefixes(template, other) {
            return None;
        }
        self.compares(template, other);
        let beginning = self.language(template, bound) + "(?s:.*)";
        let keys = self.language(other, usize::MAX);
        self.shortest_common_text(&beginning, &keys)
    }

    fn compares(&mut self, left: &Template, right: &Template) {
        if !self.is_exhausted() {
            self.last_compared = Some((left.span.clone(), right.span.clone()));
        }
    }

    fn automaton(&mut self, expression: &str) -> Option<Rc<Dfa>> {
        if let Some(built) = self.built.get(expression) {
            return built.clone();
        }
        if self.is_exhausted() {
            return None;
        }
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(4 * MAX_AUTOMATON_BYTES));
        let nfa = thompson::Config::new().nfa_size_limit(Some(MAX_NFA_BYTES));
        let built = dense::Builder::new().configure(config).thompson(nfa).build(expression).ok().map(Rc::new);
        // One that is too large has cost as much as the largest.
        let bytes = built.as_ref().map_or(4 * MAX_AUTOMATON_BYTES, |dfa| dfa.memory_usage());
        self.cost += bytes / BYTES_PER_STEP;
        self.built.insert(expression.to_owned(), built.clone());
        built
    }

    /// A shortest text that both expressions match: a breadth-first search through both automata at once.
    fn shortest_common_text(&mut self, left: &str, right: &str) -> Option<String> {
        // The design is rejected: the answer does not matter any more.
        if self.is_exhausted() {
            return None;
        }
        // Without an automaton nothing can be proven, so the two count as overlapping.
        let (Some(left), Some(right)) = (self.automaton(left), self.automaton(right)) else {
            return Some("…".to_owned());
        };
        let start = |dfa: &Dfa| dfa.start_state_forward(&Input::new("").anchored(Anchored::Yes)).ok();
        let first = (start(&left)?, start(&right)?);
        let accepts = |(a, b): (StateID, StateID)| {
            left.is_match_state(left.next_eoi_state(a)) && right.is_match_state(right.next_eoi_state(b))
        };
        // Bytes of one class lead to the same states: one of each class is enough.
        let mut classes = HashSet::new();
        let class = |byte: u8| (left.byte_classes().get(byte), right.byte_classes().get(byte));
        let bytes: Vec<u8> = BYTES_BY_READABILITY.into_iter().filter(|byte| classes.insert(class(*byte))).collect();
        let mut seen = HashSet::from([first]);
        // Each step refers to the previous one, so that the text can be read back.
        let mut steps: Vec<(usize, u8)> = vec![(usize::MAX, 0)];
        let mut queue = VecDeque::from([(first, 0)]);
        while let Some(((a, b), step)) = queue.pop_front() {
            self.cost += 1;
            if self.is_exhausted() {
                return None;
            }
            if accepts((a, b)) {
                return Some(text_of_steps(&steps, step));
            }
            for &byte in &bytes {
                let next = (left.next_state(a, byte), right.next_state(b, byte));
                if !left.is_dead_state(next.0) && !right.is_dead_state(next.1) && seen.insert(next) {
                    steps.push((step, byte));
                    queue.push_back((next, steps.len() - 1));
                }
            }
        }
        None
    }
}

fn text_of_steps(steps: &[(usize, u8)], last: usize) -> String {
    let mut bytes = Vec::new();
    let mut at = last;
    while steps[at].0 != usize::MAX {
        bytes.push(steps[at].1);
        at = steps[at].0;
    }
    bytes.reverse();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All bytes, the most readable ones first, so that examples look good.
static BYTES_BY_READABILITY: [u8; 256] = {
    const READABILITY_RANGES: [(u8, u8); 7] =
        [(b'a', b'z'), (b'0', b'9'), (b'A', b'Z'), (b' ', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', 0xff)];
    let mut bytes = [0; 256];
    let mut at = 0;
    let mut range = 0;
    while range < READABILITY_RANGES.len() {
        let (mut byte, last) = (READABILITY_RANGES[range].0 as usize, READABILITY_RANGES[range].1 as usize);
        while byte <= last {
            bytes[at] = byte as u8;
            at += 1;
            byte += 1;
        }
        range += 1;
    }
    // Control characters come last.
    let mut byte = 0;
    while at < 256 {
        bytes[at] = byte;
        at += 1;
        byte += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_automata_are_built_than_the_budget_allows() {
        let mut languages = Languages::default();
        for number in 0..100 {
            let too_large = format!("[abcd]*[ab][abcd]{{20}}{number}");
            assert!(languages.automaton(&too_large).is_none(), "{number}");
        }
        assert_eq!(languages.built.len(), 7);
        // The last one may exceed the budget.
        assert!(languages.is_exhausted() && languages.cost <= 7 * 16_384, "{}", languages.cost);
    }
}
