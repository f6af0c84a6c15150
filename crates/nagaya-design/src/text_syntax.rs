//! The syntax of field values as text: which texts are valid, their order and their length in keys.

use std::{borrow::Cow, fmt::Write as _};

use jiff::{SignedDuration, Timestamp, ToSpan, civil::Date};
use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::named::named;

named! {
    /// How a timestamp is stored.
    pub enum TimestampPrecision {
        /// `2026-01-01T00:00:00Z`
        Seconds = "seconds",
        /// `2026-01-01T00:00:00.000Z`
        Millis = "millis",
        /// `2026-01-01T00:00:00.000000Z`
        Micros = "micros",
        /// The number of seconds since 1970, as a number.
        Epoch = "epoch",
        /// Any RFC 3339 text. Text order is not time order.
        Any = "any",
    }
}

impl TimestampPrecision {
    fn decimals(self) -> Option<usize> {
        match self {
            TimestampPrecision::Seconds => Some(0),
            TimestampPrecision::Millis => Some(3),
            TimestampPrecision::Micros => Some(6),
            TimestampPrecision::Epoch | TimestampPrecision::Any => None,
        }
    }

    /// The length of the text in bytes.
    fn length(self) -> usize {
        match self.decimals() {
            Some(0) | None => 20,
            Some(decimals) => 21 + decimals,
        }
    }

    /// The smallest difference between two times.
    fn step(self) -> SignedDuration {
        match self {
            TimestampPrecision::Millis => SignedDuration::from_millis(1),
            TimestampPrecision::Micros => SignedDuration::from_micros(1),
            TimestampPrecision::Seconds | TimestampPrecision::Epoch | TimestampPrecision::Any => {
                SignedDuration::from_secs(1)
            }
        }
    }
}

named! {
    /// The format of a string.
    pub enum StringFormat {
        /// `name@example.com`
        Email = "email",
        /// `https://example.com/path`
        Uri = "uri",
        /// `example.com`
        Hostname = "hostname",
        /// An IPv4 or IPv6 address.
        Ip = "ip",
        /// Lower-case words with hyphens between them.
        Slug = "slug",
    }
}

impl StringFormat {
    fn accepts(self, text: &str) -> bool {
        match self {
            StringFormat::Email => text
                .rsplit_once('@')
                .is_some_and(|(name, host)| !name.is_empty() && !name.contains(char::is_whitespace) && hostname(host)),
            StringFormat::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                    && scheme.chars().all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each))
                    && !rest.is_empty()
                    && !rest.contains(|each: char| each.is_whitespace() || each.is_control())
            }),
            StringFormat::Hostname => hostname(text),
            StringFormat::Ip => text.parse::<std::net::IpAddr>().is_ok(),
            StringFormat::Slug => text.split('-').all(|word| {
                !word.is_empty() && word.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit())
            }),
        }
    }
}

fn hostname(text: &str) -> bool {
    // Internationalized names are accepted: which characters are allowed is decided by the registries.
    let beyond = |each: char| !each.is_ascii() && !each.is_whitespace() && !each.is_control();
    text.chars().count() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.chars().count())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|each| each.is_ascii_alphanumeric() || each == '-' || beyond(each))
        })
}

/// A type that can be written as text, and so be part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Text,
    Integer,
    Boolean,
    Timestamp(TimestampPrecision),
    Date,
    Ulid,
    Uuid,
}

/// A regular expression for whole texts.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// As the design writes it.
    pub(crate) text: String,
    pub(crate) regex: Regex,
    /// The length of the longest match in bytes, if that is bounded.
    pub(crate) max_bytes: Option<usize>,
}

impl Pattern {
    /// Compiles a pattern, or returns the reason why it is invalid. Its size is taken off the budget, which all patterns of a
    /// design share.
    pub(crate) fn new(text: &str, budget: &mut usize) -> Result<Pattern, String> {
        let last_line =
            |error: String| error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let syntax = regex_syntax::parse(text).map_err(|error| last_line(error.to_string()))?;
        // Inside a key the pattern is not at the start of the text, so an anchor would never match.
        if !syntax.properties().look_set().is_empty() {
            return Err("anchors and word boundaries are not needed, the whole text is matched anyway".to_owned());
        }
        let Some(left) = budget.checked_sub(size(&syntax)) else {
            let advice = "use smaller classes, such as [a-z] in place of \\w, and fewer repetitions";
            return Err(format!("the patterns of this design are too large together; {advice}"));
        };
        *budget = left;
        let regex = Regex::new(&format!("^(?:{text})$")).map_err(|error| last_line(error.to_string()))?;
        Ok(Pattern { text: text.to_owned(), regex, max_bytes: syntax.properties().maximum_len() })
    }

    fn accepts(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// The most ranges of characters that all patterns of a design may have, each as often as it is repeated.
pub(crate) const PATTERN_BUDGET: usize = 150_000;

/// How many ranges of characters an expression has, each as often as it is repeated: about what compiling it costs.
fn size(expression: &Hir) -> usize {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(0, |sum, part| sum.saturating_add(size(part)))
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            size(&repetition.sub).saturating_mul(times as usize)
        }
    }
}

/// The syntax of a field's values as text.
#[derive(Debug, Clone)]
pub(crate) struct TextSyntax {
    pub(crate) scalar_type: ScalarType,
    pub(crate) prefix: String,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) one_of: Vec<String>,
    pub(crate) also: Option<Pattern>,
    pub(crate) format: Option<StringFormat>,
    /// The schemes of addresses; empty: `http` and `https`.
    pub(crate) schemes: Vec<String>,
    pub(crate) min_chars: usize,
    pub(crate) max_chars: usize,
    /// The least and the greatest value of an integer.
    pub(crate) bounds: (Option<i64>, Option<i64>),
}

pub(crate) const ULID: &str = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
pub(crate) const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const DATE: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
const TIME: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}";

impl TextSyntax {
    /// Whether `text` (not escaped) is a valid value.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        if self.also.as_ref().is_some_and(|also| also.accepts(text)) {
            return true;
        }
        let Some(rest) = strip_literal(text, &self.prefix) else { return false };
        match self.scalar_type {
            ScalarType::Text => {
                // Lengths are in characters; a text that is short enough in bytes need not be counted.
                (text.len() <= self.max_chars || text.chars().count() <= self.max_chars)
                    && (self.min_chars == 0 || text.chars().count() >= self.min_chars)
                    && (self.one_of.is_empty() || self.one_of.iter().any(|choice| choice == text))
                    && self.pattern.as_ref().is_none_or(|pattern| pattern.accepts(text))
                    && self.format.is_none_or(|format| format.accepts(text))
                    && (self.format != Some(StringFormat::Uri) || self.accepts_scheme(text))
            }
            ScalarType::Integer => text.parse().is_ok_and(|number| self.is_in_bounds(number)),
            ScalarType::Boolean => matches!(text, "true" | "false"),
            ScalarType::Timestamp(TimestampPrecision::Epoch) => {
                text.parse::<i64>().is_ok_and(|number| self.is_in_bounds(number))
            }
            ScalarType::Timestamp(precision) => is_timestamp(text, precision),
            ScalarType::Date => is_date(text),
            ScalarType::Ulid => is_ulid(rest),
            ScalarType::Uuid => is_uuid(rest),
        }
    }

    /// Whether the scheme of an address is allowed. Schemes have no case.
    fn accepts_scheme(&self, text: &str) -> bool {
        let scheme = text.split(':').next().unwrap_or_default();
        self.schemes().any(|allowed| allowed.eq_ignore_ascii_case(scheme))
    }

    /// The schemes that addresses may have.
    pub(crate) fn schemes(&self) -> impl Iterator<Item = &str> {
        let usual: &[&str] = if self.schemes.is_empty() { &["http", "https"] } else { &[] };
        usual.iter().copied().chain(self.schemes.iter().map(String::as_str))
    }

    /// A text as it is compared: in keys and unique constraints. E-mail addresses have no case.
    pub(crate) fn comparable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.format {
            // Lower-case letters of ASCII are the usual case, and need no copy.
            Some(StringFormat::Email) if !text.bytes().all(|each| each.is_ascii() && !each.is_ascii_uppercase()) => {
                text.to_lowercase().into()
            }
            _ => text.into(),
        }
    }

    /// Whether an integer is within the bounds.
    pub(crate) fn is_in_bounds(&self, number: i64) -> bool {
        self.bounds.0.is_none_or(|min| number >= min) && self.bounds.1.is_none_or(|max| number <= max)
    }

    /// The length of every value in bytes, if it is always the same.
    pub(crate) fn fixed_length(&self) -> Option<usize> {
        if self.also.is_some() {
            return None;
        }
        let bare = match self.scalar_type {
            ScalarType::Timestamp(precision) => {
                precision.decimals()?;
                precision.length()
            }
            ScalarType::Date => 10,
            ScalarType::Ulid => 26,
            ScalarType::Uuid => 36,
            ScalarType::Text | ScalarType::Integer | ScalarType::Boolean => return None,
        };
        Some(self.prefix.len() + bare)
    }

    /// Whether it is a number that can be negative.
    pub(crate) fn may_be_negative(&self) -> bool {
        match self.scalar_type {
            ScalarType::Integer => self.bounds.0.is_none_or(|min| min < 0),
            ScalarType::Timestamp(TimestampPrecision::Epoch) => true,
            _ => false,
        }
    }

    /// Whether a value of fixed length can contain `mark`.
    pub(crate) fn may_contain(&self, mark: char) -> bool {
        let in_material = match self.scalar_type {
            ScalarType::Timestamp(_) => mark.is_ascii_digit() || "-:TZ.".contains(mark),
            ScalarType::Date => mark.is_ascii_digit() || mark == '-',
            ScalarType::Ulid => mark.is_ascii_digit() || mark.is_ascii_uppercase(),
            ScalarType::Uuid => mark.is_ascii_digit() || mark.is_ascii_lowercase() || mark == '-',
            ScalarType::Text | ScalarType::Integer | ScalarType::Boolean => true,
        };
        in_material || self.prefix.contains(mark)
    }

    /// The regular expression of the values (not escaped for keys); `None` for any text.
    pub(crate) fn expression(&self, pad: Option<usize>) -> Option<String> {
        let prefix = regex::escape(&self.prefix);
        let own = match self.scalar_type {
            ScalarType::Text if !self.one_of.is_empty() => {
                let choices: Vec<_> = self.one_of.iter().map(|choice| regex::escape(choice)).collect();
                choices.join("|")
            }
            ScalarType::Text => match (&self.pattern, self.format) {
                (Some(pattern), _) => pattern.text.clone(),
                (None, Some(StringFormat::Slug)) => format!("{prefix}[a-z0-9-]+"),
                (None, Some(StringFormat::Email)) => format!("{prefix}(?s:.+)@(?s:.+)"),
                (None, Some(StringFormat::Ip)) => "[0-9A-Fa-f.:]+".to_owned(),
                _ if !prefix.is_empty() => format!("{prefix}(?s:.*)"),
                _ => return None,
            },
            ScalarType::Integer | ScalarType::Timestamp(TimestampPrecision::Epoch) => match pad {
                Some(pad) => format!("[0-9]{{{pad}}}"),
                None => "-?[0-9]+".to_owned(),
            },
            ScalarType::Boolean => "true|false".to_owned(),
            ScalarType::Timestamp(precision) => match precision.decimals()? {
                0 => format!("{TIME}Z"),
                decimals => format!("{TIME}\\.[0-9]{{{decimals}}}Z"),
            },
            ScalarType::Date => DATE.to_owned(),
            ScalarType::Ulid => format!("{prefix}{ULID}"),
            ScalarType::Uuid => format!("{prefix}{UUID}"),
        };
        Some(match &self.also {
            Some(also) => format!("{own}|{}", also.text),
            None => own,
        })
    }

    /// The maximum length of a value in bytes.
    pub(crate) fn max_bytes(&self, pad: Option<usize>) -> usize {
        if !self.one_of.is_empty() {
            return self.one_of.iter().map(String::len).max().unwrap_or(0);
        }
        let longest = match self.scalar_type {
            ScalarType::Text => {
                let matched = self.pattern.as_ref().and_then(|pattern| pattern.max_bytes);
                self.max_chars.saturating_mul(4).min(matched.unwrap_or(usize::MAX))
            }
            ScalarType::Integer | ScalarType::Timestamp(TimestampPrecision::Epoch) => pad.unwrap_or(20),
            ScalarType::Boolean => 5,
            ScalarType::Timestamp(TimestampPrecision::Any) => 40,
            ScalarType::Timestamp(_) | ScalarType::Date | ScalarType::Ulid | ScalarType::Uuid => {
                TextSyntax { also: None, ..self.clone() }.fixed_length().unwrap_or(64)
            }
        };
        let older = self.also.as_ref().and_then(|also| also.max_bytes);
        longest.max(older.unwrap_or(0))
    }

    /// Whether searching by a prefix makes sense: for texts, dates and ids, not for numbers and booleans.
    pub(crate) fn supports_prefix(&self) -> bool {
        !matches!(
            self.scalar_type,
            ScalarType::Integer
                | ScalarType::Boolean
                | ScalarType::Timestamp(TimestampPrecision::Epoch | TimestampPrecision::Any)
        )
    }

    /// Whether values have an order and their texts have the same order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.also.is_none()
            && matches!(
                self.scalar_type,
                ScalarType::Timestamp(_) | ScalarType::Date | ScalarType::Integer | ScalarType::Ulid
            )
    }

    /// The greatest value below `text`, for an exclusive upper bound.
    pub(crate) fn predecessor(&self, text: &str) -> Option<String> {
        match self.scalar_type {
            ScalarType::Integer | ScalarType::Timestamp(TimestampPrecision::Epoch) => {
                Some((text.parse::<i64>().ok()?.checked_sub(1)?).to_string())
            }
            ScalarType::Timestamp(precision) => {
                let instant = text.parse::<Timestamp>().ok()?.checked_sub(precision.step()).ok()?;
                Some(timestamp(instant, precision))
            }
            ScalarType::Date => Some(text.parse::<Date>().ok()?.checked_sub(1.day()).ok()?.to_string()),
            ScalarType::Ulid => Some(self.prefix.clone() + &ulid_before(text.strip_prefix(self.prefix.as_str())?)?),
            ScalarType::Text | ScalarType::Boolean | ScalarType::Uuid => None,
        }
    }
}

/// The canonical text of a time.
pub(crate) fn timestamp(instant: Timestamp, precision: TimestampPrecision) -> String {
    match precision.decimals() {
        Some(decimals) => format!("{instant:.decimals$}"),
        None if precision == TimestampPrecision::Epoch => instant.as_second().to_string(),
        None => instant.to_string(),
    }
}

fn is_timestamp(text: &str, precision: TimestampPrecision) -> bool {
    let Ok(instant) = text.parse::<Timestamp>() else { return false };
    match precision.decimals() {
        // The parser accepts more texts, but only canonical ones of the years 0 to 9999 sort like time.
        Some(_) => text.len() == precision.length() && timestamp(instant, precision) == text,
        None => true,
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok_and(|date| date.to_string() == text)
}

fn is_ulid(text: &str) -> bool {
    text.len() == 26
        && text.as_bytes()[0] <= b'7'
        && text.bytes().all(|each| {
            each.is_ascii_digit() || (each.is_ascii_uppercase() && !matches!(each, b'I' | b'L' | b'O' | b'U'))
        })
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, each)| match at {
            8 | 13 | 18 | 23 => each == b'-',
            _ => each.is_ascii_digit() || (b'a'..=b'f').contains(&each),
        })
}

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

fn ulid_before(text: &str) -> Option<String> {
    let mut number: u128 = 0;
    for each in text.bytes() {
        let digit = CROCKFORD.iter().position(|digit| *digit == each)?;
        number = number.checked_mul(32)?.checked_add(digit as u128)?;
    }
    Some(ulid(number.checked_sub(1)?))
}

/// The ULID with this value.
pub(crate) fn ulid(number: u128) -> String {
    (0..26).rev().map(|at| char::from(CROCKFORD[(number >> (5 * at)) as usize & 31])).collect()
}

/// Appends `value` with `%`, `#` and `stop` written as `%XX`.
pub(crate) fn escape(value: &str, stop: Option<char>, out: &mut String) {
    let marked = |each: char| each == '#' || each == '%' || Some(each) == stop;
    let mut rest = value;
    while let Some(at) = rest.find(marked) {
        out.push_str(&rest[..at]);
        let mark = rest[at..].chars().next().unwrap_or('%');
        let mut bytes = [0; 4];
        for byte in mark.encode_utf8(&mut bytes).bytes() {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
        rest = &rest[at + mark.len_utf8()..];
    }
    out.push_str(rest);
}

/// `text` without its prefix `literal`. For literals of a few bytes a loop is faster than `str::strip_prefix`.
pub(crate) fn strip_literal<'k>(text: &'k str, literal: &str) -> Option<&'k str> {
    let (front, rest) = text.split_at_checked(literal.len())?;
    front.bytes().zip(literal.bytes()).all(|(a, b)| a == b).then_some(rest)
}
