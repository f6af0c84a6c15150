//! The states of a subscription, and which can follow which.

/// The state of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Tried out, not paid for yet.
    Trialing,
    /// Paid for.
    Active,
    /// A payment is missing; the provider goes on trying.
    PastDue,
    /// Over. Only another start comes after it.
    Canceled,
}

impl State {
    /// All of them.
    pub const ALL: [State; 4] = [State::Trialing, State::Active, State::PastDue, State::Canceled];

    /// What it is called in an item.
    pub fn name(self) -> &'static str {
        match self {
            State::Trialing => "trialing",
            State::Active => "active",
            State::PastDue => "past_due",
            State::Canceled => "canceled",
        }
    }

    /// The state that is called so.
    pub fn named(name: &str) -> Option<Self> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether it is one of a subscription that runs.
    pub fn runs(self) -> bool {
        self != State::Canceled
    }

    /// Whether a subscription in this state can be found in that one next. Staying as it is, it always can.
    pub fn leads_to(self, next: State) -> bool {
        match (self, next) {
            (State::Trialing, State::Active | State::PastDue | State::Canceled)
            | (State::Active, State::PastDue | State::Canceled)
            | (State::PastDue, State::Active | State::Canceled) => true,
            (from, to) => from == to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves the transitions part of K13.
    #[test]
    fn a_state_leads_to_these_and_no_others() {
        let mut table = String::new();
        for from in State::ALL {
            let to = State::ALL.into_iter().filter(|to| from.leads_to(*to)).map(State::name);
            table += &format!("{} → {}\n", from.name(), to.collect::<Vec<_>>().join(" "));
        }
        let expected = "\
            trialing → trialing active past_due canceled\n\
            active → active past_due canceled\n\
            past_due → active past_due canceled\n\
            canceled → canceled\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn states_are_known_by_their_names() {
        for state in State::ALL {
            assert_eq!(State::named(state.name()), Some(state));
        }
        assert_eq!(State::named("paused"), None);
    }
}
