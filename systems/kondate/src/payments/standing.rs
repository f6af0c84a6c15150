//! The states of a subscription, and the transitions between them.

/// The state of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On trial, not paid yet.
    Trialing,
    /// Paid.
    Active,
    /// A payment failed; the provider tries again.
    PastDue,
    /// Over. Only a new start follows.
    Canceled,
}

impl State {
    /// All of them.
    pub const ALL: [State; 4] = [State::Trialing, State::Active, State::PastDue, State::Canceled];

    /// Its name in an item.
    pub fn name(self) -> &'static str {
        match self {
            State::Trialing => "trialing",
            State::Active => "active",
            State::PastDue => "past_due",
            State::Canceled => "canceled",
        }
    }

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether the subscription is running.
    pub fn runs(self) -> bool {
        self != State::Canceled
    }

    /// Whether a subscription can go from this state to the next one. It can always stay in its state.
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
