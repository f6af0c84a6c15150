//! Repeatable chance.

/// Random values that are the same for the same seed, names and numbers.
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// The generator for one thing, which its names and numbers tell apart from all others.
    pub fn new(seed: u64, names: &[&str], numbers: [usize; 2]) -> Self {
        let mut mixed = seed ^ 0xCBF2_9CE4_8422_2325;
        // FNV-1a; a byte that no text has goes between the names.
        let mut mix = |byte: u8| mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        for name in names {
            name.bytes().for_each(&mut mix);
            mix(0xFF);
        }
        numbers.iter().flat_map(|number| (*number as u64).to_be_bytes()).for_each(&mut mix);
        Rng(fastrand::Rng::with_seed(mixed))
    }

    /// A number from 0, below the end.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }

    /// A number between two, both included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0.i64(least..=most.max(least))
    }

    /// `true` with this probability.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    /// 128 random bits.
    pub fn bits(&mut self) -> u128 {
        self.0.u128(..)
    }

    /// One of the values.
    pub fn pick<'s, T>(&mut self, of: &'s [T]) -> Option<&'s T> {
        of.get(self.below(of.len()))
    }

    /// One of the words.
    pub fn pick_word(&mut self, of: &[&'static str]) -> &'static str {
        self.pick(of).copied().unwrap_or_default()
    }

    /// Puts the values into a random order.
    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        self.0.shuffle(of);
    }

    /// A text of this number of hexadecimal digits.
    pub fn hex(&mut self, digits: usize) -> String {
        let mut text = String::new();
        while text.len() < digits {
            text += &format!("{:032x}", self.bits());
        }
        text.truncate(digits);
        text
    }
}
