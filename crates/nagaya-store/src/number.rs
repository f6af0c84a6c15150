//! Decimal numbers of up to 38 digits, exact and ordered by value.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An exact decimal number: up to 38 significant digits, magnitude between 1E-130 and 9.99…E+125.
///
/// Two numbers are equal when their values are: `1.50` is `1.5`.
///
/// ```
/// use nagaya_store::Number;
///
/// let tenth: Number = "0.1".parse()?;
/// let fifth: Number = "0.2".parse()?;
/// assert_eq!(tenth.plus(&fifth)?.to_string(), "0.3");
/// assert!("9".parse::<Number>()? < "10".parse()?);
/// # Ok::<(), nagaya_store::NumberError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Number {
    negative: bool,
    /// Without trailing zeros; zero has none at all.
    digits: u128,
    /// The value is `digits` times ten to this power.
    exponent: i16,
}

/// Why a text or the result of a calculation cannot be stored as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NumberError {
    /// The text is not a decimal number.
    #[error("this is not a decimal number")]
    Malformed,
    /// It has more than 38 significant digits.
    #[error("a number has at most 38 significant digits")]
    TooManyDigits,
    /// Its magnitude is over 9.99…E+125 or under 1E-130.
    #[error("the magnitude of a number is between 1E-130 and 9.99E+125")]
    OutOfRange,
}

const MAX_DIGITS: u32 = 38;
/// The range of the power of ten of the first digit.
const MAX_MAGNITUDE: i32 = 125;
const MIN_MAGNITUDE: i32 = -130;

impl Number {
    /// Zero.
    pub const ZERO: Number = Number { negative: false, digits: 0, exponent: 0 };

    fn new(negative: bool, mut digits: u128, mut exponent: i32) -> Result<Number, NumberError> {
        if digits == 0 {
            return Ok(Number::ZERO);
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        let count = digits.ilog10() + 1;
        if count > MAX_DIGITS {
            return Err(NumberError::TooManyDigits);
        }
        let first = exponent + count as i32 - 1;
        if !(MIN_MAGNITUDE..=MAX_MAGNITUDE).contains(&first) {
            return Err(NumberError::OutOfRange);
        }
        let exponent = i16::try_from(exponent).map_err(|_| NumberError::OutOfRange)?;
        Ok(Number { negative, digits, exponent })
    }

    /// The power of ten of its first digit.
    fn magnitude(&self) -> i32 {
        i32::from(self.exponent) + self.digits.checked_ilog10().unwrap_or(0) as i32
    }

    /// The exact sum.
    pub fn plus(&self, other: &Number) -> Result<Number, NumberError> {
        // A zero has no digits to align, so its exponent must not count.
        match (self.digits, other.digits) {
            (0, _) => return Ok(*other),
            (_, 0) => return Ok(*self),
            _ => {}
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned = |number: &Number| {
            let shift = u32::try_from(number.exponent - exponent).ok()?;
            number.digits.checked_mul(10_u128.checked_pow(shift)?)
        };
        let (mine, theirs) = aligned(self).zip(aligned(other)).ok_or(NumberError::TooManyDigits)?;
        let (negative, digits) = if self.negative == other.negative {
            (self.negative, mine.checked_add(theirs).ok_or(NumberError::TooManyDigits)?)
        } else if mine >= theirs {
            (self.negative, mine - theirs)
        } else {
            (other.negative, theirs - mine)
        };
        Number::new(negative, digits, i32::from(exponent))
    }

    /// The exact difference.
    pub fn minus(&self, other: &Number) -> Result<Number, NumberError> {
        self.plus(&Number { negative: !other.negative && other.digits > 0, ..*other })
    }

    /// Its size in bytes as DynamoDB counts it.
    pub fn size(&self) -> usize {
        let digits = self.digits.checked_ilog10().map_or(0, |digits| digits as usize + 1);
        digits.div_ceil(2) + 1 + usize::from(self.negative)
    }

    /// Appends bytes whose order is the order of the numbers.
    pub fn encode_ordered(&self, out: &mut Vec<u8>) {
        if self.digits == 0 {
            out.push(1);
            return;
        }
        let start = out.len();
        out.push(2);
        // The biased magnitude, then the digits, each plus one so that a shorter number sorts first.
        out.extend(u16::try_from(self.magnitude() + 1_000).unwrap_or(0).to_be_bytes());
        out.extend(self.digits.to_string().bytes().map(|digit| digit - b'0' + 1));
        out.push(0);
        if self.negative {
            out[start] = 0;
            out[start + 1..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Number| match (number.digits, number.negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        };
        let size = || {
            self.magnitude().cmp(&other.magnitude()).then_with(|| {
                // With the same magnitude, compare the digits padded to 38.
                let filled = |number: &Number| {
                    let count = number.digits.checked_ilog10().unwrap_or(0);
                    number.digits * 10_u128.pow(MAX_DIGITS - 1 - count)
                };
                filled(self).cmp(&filled(other))
            })
        };
        sign(self).cmp(&sign(other)).then_with(|| if self.negative { size().reverse() } else { size() })
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        // Nineteen digits always fit.
        Number::new(number < 0, u128::from(number.unsigned_abs()), 0).unwrap_or(Number::ZERO)
    }
}

impl TryFrom<Number> for i64 {
    type Error = NumberError;

    fn try_from(number: Number) -> Result<i64, NumberError> {
        let scale = u32::try_from(number.exponent).map_err(|_| NumberError::Malformed)?;
        let scale = 10_i128.checked_pow(scale).ok_or(NumberError::OutOfRange)?;
        let digits = i128::try_from(number.digits).map_err(|_| NumberError::OutOfRange)?;
        let value = digits.checked_mul(scale).ok_or(NumberError::OutOfRange)?;
        i64::try_from(if number.negative { -value } else { value }).map_err(|_| NumberError::OutOfRange)
    }
}

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i32>().map_err(|_| NumberError::Malformed)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return Err(NumberError::Malformed);
        }
        // Leading and trailing zeros are not significant, however many there are.
        let text = format!("{whole}{fraction}");
        let trimmed = text.trim_start_matches('0').trim_end_matches('0');
        if trimmed.is_empty() {
            return Ok(Number::ZERO);
        }
        if trimmed.len() > MAX_DIGITS as usize {
            return Err(NumberError::TooManyDigits);
        }
        let zeros = text.len() - text.trim_end_matches('0').len();
        let shift = i32::try_from(zeros).ok().zip(i32::try_from(fraction.len()).ok());
        let exponent = shift.and_then(|(zeros, fraction)| power.checked_add(zeros)?.checked_sub(fraction));
        let digits = trimmed.parse().map_err(|_| NumberError::TooManyDigits)?;
        Number::new(negative, digits, exponent.ok_or(NumberError::OutOfRange)?)
    }
}

impl fmt::Display for Number {
    /// Writes plain decimals up to 20 zeros, and an exponent beyond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let digits = self.digits.to_string();
        let exponent = i32::from(self.exponent);
        let point = digits.len() as i32 + exponent;
        match (exponent, point) {
            (0..=20, _) => write!(f, "{sign}{digits}{}", "0".repeat(exponent as usize)),
            (_, 1..) if exponent < 0 => {
                let (whole, fraction) = digits.split_at(point as usize);
                write!(f, "{sign}{whole}.{fraction}")
            }
            (_, -20..=0) if exponent < 0 => write!(f, "{sign}0.{}{digits}", "0".repeat(-point as usize)),
            _ => {
                let (first, rest) = digits.split_at(1);
                let point = if rest.is_empty() { "" } else { "." };
                write!(f, "{sign}{first}{point}{rest}E{:+}", self.magnitude())
            }
        }
    }
}
