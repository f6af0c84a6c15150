//! The states of a subscription, and the transitions between them.

/// The state of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionState {
    /// On trial, not paid yet.
    Trialing,
    /// Paid.
    Active,
    /// A payment failed; the provider tries again.
    PastDue,
    /// Over. Only a new start follows.
    Canceled,
}

impl SubscriptionState {
    /// All of them.
    pub const ALL: [SubscriptionState; 4] = [
        SubscriptionState::Trialing,
        SubscriptionState::Active,
        SubscriptionState::PastDue,
        SubscriptionState::Canceled,
    ];

    /// Its name in an item.
    pub fn name(self) -> &'static str {
        match self {
            SubscriptionState::Trialing => "trialing",
            SubscriptionState::Active => "active",
            SubscriptionState::PastDue => "past_due",
            SubscriptionState::Canceled => "canceled",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        SubscriptionState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether the subscription is running.
    pub fn is_running(self) -> bool {
        self != SubscriptionState::Canceled
    }

    /// Whether a subscription can go from this state to the next one. It can always stay in its state.
    pub fn can_become(self, next: SubscriptionState) -> bool {
        match (self, next) {
            (
                SubscriptionState::Trialing,
                SubscriptionState::Active | SubscriptionState::PastDue | SubscriptionState::Canceled,
            )
            | (SubscriptionState::Active, SubscriptionState::PastDue | SubscriptionState::Canceled)
            | (SubscriptionState::PastDue, SubscriptionState::Active | SubscriptionState::Canceled) => true,
            (from, to) => from == to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves the transitions part of K13.
    #[test]
    fn only_these_changes_of_state_are_possible() {
        let mut table = String::new();
        for from in SubscriptionState::ALL {
            let to = SubscriptionState::ALL.into_iter().filter(|to| from.can_become(*to)).map(SubscriptionState::name);
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
    fn a_state_is_found_by_its_name() {
        for state in SubscriptionState::ALL {
            assert_eq!(SubscriptionState::from_name(state.name()), Some(state));
        }
        assert_eq!(SubscriptionState::from_name("paused"), None);
    }
}
