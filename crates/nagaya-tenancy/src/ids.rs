//! Ids that increase: sorted by them, items are in the order in which they were created.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// Random bits of a ULID, after its 48 bits of time.
const ULID_BITS: u32 = 80;
/// Random bits of a UUID of version 7, after its 48 bits of time.
const UUID_BITS: u32 = 74;

/// A generator of ids. Each has the time in front, in milliseconds, and random bits after it.
///
/// The ids of [`random`](Self::random) increase: each is greater than those before it, also within a millisecond and when the clock
/// goes back. This holds within a process, for all clones of a generator.
#[derive(Clone)]
pub struct IdGenerator {
    bits: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// The last ids, if ids increase.
    last: Option<Arc<LastIds>>,
}

/// The last ids, without the version of the UUID.
#[derive(Default)]
struct LastIds {
    ulid: Mutex<u128>,
    uuid: Mutex<u128>,
}

impl fmt::Debug for IdGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ids")
    }
}

impl IdGenerator {
    /// Random bits from the operating system; ids increase.
    pub fn random() -> Self {
        let bits = || {
            let mut bits = [0; 16];
            // Without random bits every id could be guessed.
            getrandom::fill(&mut bits).expect("the operating system gives random bits");
            u128::from_be_bytes(bits)
        };
        IdGenerator { last: Some(Arc::default()), ..IdGenerator::new(bits) }
    }

    /// Bits from a function, for tests and sample data: the same time and bits give the same id.
    pub fn new(bits: impl Fn() -> u128 + Send + Sync + 'static) -> Self {
        IdGenerator { bits: Arc::new(bits), last: None }
    }

    /// Counted up from 1, for tests; ids increase.
    pub fn sequential() -> Self {
        let next = Mutex::new(0_u128);
        let bits = move || {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        IdGenerator { last: Some(Arc::default()), ..IdGenerator::new(bits) }
    }

    /// 128 bits.
    pub(crate) fn bits(&self) -> u128 {
        (self.bits)()
    }

    /// A UUID (version 7) of this moment (milliseconds since 1970).
    pub fn uuid(&self, millis: i64) -> String {
        let id = self.next(millis, UUID_BITS, |last| &last.uuid);
        let (time, high, low) = (id >> UUID_BITS, id >> 62 & 0xfff, id & ((1 << 62) - 1));
        uuid::Uuid::from_u128(time << 80 | 7 << 76 | high << 64 | 2 << 62 | low).to_string()
    }

    /// A ULID of this moment (milliseconds since 1970).
    pub fn ulid(&self, millis: i64) -> String {
        ulid::Ulid(self.next(millis, ULID_BITS, |last| &last.ulid)).to_string()
    }

    /// The time, then as many random bits. If an id of this millisecond or a later one was given, the next id is a random step after
    /// it: who knows one cannot guess the other.
    fn next(&self, millis: i64, width: u32, last: fn(&LastIds) -> &Mutex<u128>) -> u128 {
        let bits = self.bits();
        let time = u128::from(u64::try_from(millis).unwrap_or(0)) & ((1 << 48) - 1);
        let fresh = time << width | bits & ((1 << width) - 1);
        let Some(ids) = &self.last else { return fresh };
        let mut last = last(ids).lock().unwrap_or_else(PoisonError::into_inner);
        *last = match time > *last >> width {
            true => fresh,
            // 65,000 steps and more fit into a millisecond; further ones go on in the next.
            false => *last + 1 + (bits >> (128 + 16 - width)),
        };
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves K20.
    #[test]
    fn ids_increase_within_a_millisecond_and_when_the_clock_goes_back() {
        for ids in [IdGenerator::random(), IdGenerator::sequential()] {
            for make in [IdGenerator::ulid, IdGenerator::uuid] {
                let times = [5_000; 300].into_iter().chain([6_000, 5_999, 0, 6_000, 6_001]);
                // A clone continues where the generator is.
                let made: Vec<String> = times.map(|millis| make(&ids.clone(), millis)).collect();
                assert!(made.is_sorted_by(|one, next| one < next), "{made:#?}");
            }
        }
    }

    #[test]
    fn ids_have_the_form_of_their_kind_and_hold_their_time() {
        let (ids, millis) = (IdGenerator::random(), 1_893_456_000_000);
        let ulid = ulid::Ulid::from_string(&ids.ulid(millis)).expect("a ULID");
        let uuid = uuid::Uuid::parse_str(&ids.uuid(millis)).expect("a UUID");
        assert_eq!((ulid.timestamp_ms(), uuid.as_u128() >> 80), (1_893_456_000_000, 1_893_456_000_000));
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, uuid::Variant::RFC4122));
    }

    /// The id of a share link is a secret: it must not follow from another one of the same millisecond.
    #[test]
    fn an_id_does_not_follow_from_the_one_before_it() {
        let ids = IdGenerator::random();
        let made: Vec<u128> = (0..100).map(|_| ids.next(5_000, ULID_BITS, |last| &last.ulid)).collect();
        let mut steps: Vec<u128> = made.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step >> 64 <= 1), "{steps:?}");
        assert!(steps.iter().filter(|step| **step >> 48 > 0).count() > 90, "{steps:?}");
        steps.sort_unstable();
        steps.dedup();
        assert_eq!(steps.len(), 99);
    }

    #[test]
    fn ids_of_given_bits_repeat() {
        let ids = IdGenerator::new(|| 7);
        assert_eq!((ids.ulid(5_000), ids.uuid(5_000)), (ids.ulid(5_000), ids.uuid(5_000)));
        assert_eq!(ids.uuid(5_000), "00000000-1388-7000-8000-000000000007");
    }
}
