//! `major.minor` versions of designs and schemas, and durations.

use std::{fmt, str::FromStr};

/// A version of a design or of an entity's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Increases with breaking changes.
    pub major: u32,
    /// Increases with other changes.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = VersionParseError;

    fn from_str(text: &str) -> Result<Self, VersionParseError> {
        let (major, minor) = text.split_once('.').ok_or(VersionParseError)?;
        Ok(Version { major: number(major)?, minor: number(minor)? })
    }
}

/// The text is not `major.minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the version is not of the form major.minor")]
pub struct VersionParseError;

/// One spelling per number: no sign, no leading zero.
fn number(text: &str) -> Result<u32, VersionParseError> {
    let number: u32 = text.parse().map_err(|_| VersionParseError)?;
    if number.to_string() == text { Ok(number) } else { Err(VersionParseError) }
}

/// The seconds of a duration such as `90d`, `12h` or `30s`.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let count = number(&text[..text.len() - 1]).ok()?;
    (count > 0).then(|| u64::from(count) * unit)
}
