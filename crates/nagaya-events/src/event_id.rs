//! Event ids: they increase within an aggregate, also when the clock goes back.

use nagaya_tenancy::IdGenerator;
use ulid::Ulid;

/// An id of the current time, or the one right after `last` if the clock has not passed it.
pub(crate) fn next(ids: &IdGenerator, now: i64, last: Option<&str>) -> String {
    let fresh = ids.ulid(now);
    match last {
        Some(last) if fresh.as_str() <= last => after(last),
        _ => fresh,
    }
}

/// The id right after another one.
pub(crate) fn after(id: &str) -> String {
    let bits = Ulid::from_string(id).map(|id| id.0).unwrap_or_default();
    Ulid(bits.saturating_add(1)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_when_the_clock_goes_back() {
        let ids = IdGenerator::sequential();
        let first = next(&ids, 2_000, None);
        let second = next(&ids, 1_000, Some(&first));
        let third = next(&ids, 3_000, Some(&second));
        assert!(first < second && second < third, "{first} {second} {third}");
        assert_eq!(second, after(&first));
    }
}
