//! When entries of the operator log have expired at the latest.
//!
//! After the retention was shortened, entries do not expire in their order: a later one is gone while earlier ones have to be
//! there. So each entry says, for every number, when the last of the entries from that number up to itself has expired. That is a
//! short list, because with one retention the last entry is the one that expires last.

use nagaya_store::{Item, Value};

use super::chain::stored_number;
use crate::state::TenancyState;

/// Seconds by which the clocks of servers and the store may differ.
const CLOCK_GRACE: i64 = 5 * 60;
/// Steps of a list. One is added when the retention is shortened, and goes when later entries expire later again.
const MAX_STEPS: usize = 16;
/// The time of an entry that never expires.
const NEVER: i64 = i64::MAX;

/// For entries up to a number: when they have expired. The times descend, and differ by more than the clocks may.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Expiries(Vec<Step>);

/// No entry after the previous step expires later than this, up to the last entry.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    number: u64,
    expires: i64,
}

impl Expiries {
    /// Adds the entry with the next number; `None`: it never expires.
    pub(super) fn add(&mut self, number: u64, expires: Option<i64>) {
        let mut expires = expires.unwrap_or(NEVER);
        while let Some(step) = self.0.pop_if(|step| step.expires <= expires.saturating_add(CLOCK_GRACE)) {
            expires = expires.max(step.expires);
        }
        self.0.push(Step { number, expires });
        // Two steps become one with the later time: rather an expired entry that is taken for removed than the other way round.
        if self.0.len() > MAX_STEPS {
            let latest = self.0.remove(0).expires;
            self.0[0].expires = latest;
        }
    }

    /// Whether all entries from this number on have expired.
    pub(crate) fn have_expired(&self, first: u64, now: i64) -> bool {
        let last_to_expire = self.0.iter().find(|step| step.number >= first);
        last_to_expire.is_some_and(|step| step.expires != NEVER && step.expires <= now.saturating_add(CLOCK_GRACE))
    }

    /// As an attribute: numbers and times in turn, without a time where it is never.
    pub(super) fn to_value(&self) -> Value {
        let time = |expires: i64| if expires == NEVER { Value::Null } else { Value::from(expires) };
        let number = |number: u64| Value::from(stored_number(number));
        Value::List(self.0.iter().flat_map(|step| [number(step.number), time(step.expires)]).collect())
    }

    /// From an attribute. What has another form says nothing, so that every gap is a removal.
    pub(super) fn from_item(item: &Item, name: &str) -> Self {
        let Some(Value::List(values)) = item.get(name) else { return Expiries::default() };
        let step = |pair: &[Value]| {
            let expires = match &pair[1] {
                Value::Null => NEVER,
                time => time.as_number()?.try_into().ok()?,
            };
            let number = i64::try_from(pair[0].as_number()?).ok()?;
            Some(Step { number: number.try_into().ok()?, expires })
        };
        Expiries(values.chunks_exact(2).map_while(step).collect())
    }
}

/// When an entry of this millisecond expires by the retention of today, in seconds since 1970; `None`: never.
pub(super) fn expires_at(state: &TenancyState, at: i64) -> Option<i64> {
    let retention = i64::try_from(state.settings.audit_retention.as_secs()).unwrap_or(i64::MAX);
    (retention > 0).then(|| (at / 1_000).saturating_add(retention))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60;

    /// The times of entries, from the first one on.
    fn expiries(times: impl IntoIterator<Item = Option<i64>>) -> Expiries {
        let mut expiries = Expiries::default();
        for (at, expires) in times.into_iter().enumerate() {
            expiries.add(at as u64 + 1, expires);
        }
        let item = Item::new().with("x", expiries.to_value());
        assert_eq!(Expiries::from_item(&item, "x"), expiries);
        expiries
    }

    #[test]
    fn with_one_retention_the_last_entry_expires_last() {
        let expiries = expiries((1..=50).map(|day| Some(day * DAY)));
        assert_eq!(expiries.0.len(), 1);
        assert!(!expiries.have_expired(1, 49 * DAY) && expiries.have_expired(1, 50 * DAY));
        assert!(!expiries.have_expired(51, 99 * DAY), "there is no such entry");
    }

    #[test]
    fn earlier_entries_may_expire_later() {
        let expiries = expiries([Some(400 * DAY), None, Some(401 * DAY), Some(30 * DAY), Some(31 * DAY)]);
        assert_eq!(expiries.0.len(), 3);
        assert!(!expiries.have_expired(2, 9_999 * DAY), "one of them never expires");
        assert!(!expiries.have_expired(3, 400 * DAY) && expiries.have_expired(3, 401 * DAY));
        assert!(!expiries.have_expired(4, 30 * DAY) && expiries.have_expired(4, 31 * DAY));
    }

    #[test]
    fn clocks_may_differ_a_little() {
        let jumping = (0..50).map(|at| Some(DAY + at + if at % 2 == 0 { 200 } else { 0 }));
        let expiries = expiries(jumping);
        assert_eq!(expiries.0.len(), 1);
        assert!(expiries.have_expired(1, DAY) && !expiries.have_expired(1, DAY - 60));
        let expiries = self::expiries([Some(DAY)]);
        assert!(expiries.have_expired(1, DAY - CLOCK_GRACE) && !expiries.have_expired(1, DAY - CLOCK_GRACE - 1));
    }

    /// Logs are kept for years, and a server of any version reads them.
    #[test]
    fn what_never_expires_is_stored_without_a_time() {
        let stored = expiries([None, Some(DAY)]).to_value();
        assert_eq!(stored, Value::List(vec![1.into(), Value::Null, 2.into(), DAY.into()]));
    }

    #[test]
    fn a_list_stays_short_and_never_says_too_early() {
        let expiries = expiries((1..=40).rev().map(|day| Some(day * DAY)));
        assert_eq!(expiries.0.len(), MAX_STEPS);
        assert!(!expiries.have_expired(1, 39 * DAY) && expiries.have_expired(1, 40 * DAY));
        assert!(!expiries.have_expired(20, 20 * DAY), "merged");
        assert!(expiries.have_expired(40, DAY));
    }
}
