//! Texts that match a regular expression, for fields whose pattern no word fits.

use regex_syntax::hir::{Class, Hir, HirKind};

use nagaya_seed::Rng;

/// How much longer than it has to be an unbounded repetition becomes.
const MORE: u32 = 8;

/// Some text that the whole pattern matches.
pub(super) fn matching(pattern: &str, rng: &mut Rng) -> Option<String> {
    let mut text = String::new();
    append(&regex_syntax::parse(pattern).ok()?, rng, &mut text)?;
    Some(text)
}

fn append(part: &Hir, rng: &mut Rng, text: &mut String) -> Option<()> {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(letter(class, rng)?),
        HirKind::Capture(capture) => append(&capture.sub, rng, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| append(part, rng, text))?,
        HirKind::Alternation(parts) => append(rng.pick(parts)?, rng, text)?,
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX).min(repetition.min.saturating_add(MORE));
            let times = rng.between(repetition.min.into(), most.into());
            (0..times).try_for_each(|_| append(&repetition.sub, rng, text))?;
        }
    }
    Some(())
}

/// One letter of a class: a plain one where it has some.
fn letter(class: &Class, rng: &mut Rng) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let within = |letter: &char| ranges.iter().any(|(first, last)| (first..=last).contains(&letter));
    let plain: Vec<char> = ('a'..='z').chain('0'..='9').chain('A'..='Z').filter(within).collect();
    if let Some(letter) = rng.pick(&plain) {
        return Some(*letter);
    }
    rng.pick(&ranges).map(|(first, _)| *first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_matches() {
        let mut rng = Rng::new(1, &["pattern"], [0, 0]);
        for pattern in [
            r"\$2[aby]\$12\$[./A-Za-z0-9]{53}",
            "sha256:[0-9a-f]{64}",
            r"(\S+ ){4}\S+",
            "[0-9]{4}-(0[1-9]|1[0-2])",
            "tenant_[a-z0-9]+(-[a-z0-9]+)*",
            "/.*",
        ] {
            let text = matching(pattern, &mut rng).expect("a text");
            let shape = regex_syntax::parse(pattern).expect("a pattern");
            let length = shape.properties().minimum_len().unwrap_or(0);
            assert!(text.len() >= length, "{text:?} is too short for {pattern}");
        }
        assert_eq!(matching("(", &mut rng), None);
        assert_eq!(matching("ak_live", &mut rng).as_deref(), Some("ak_live"));
    }
}
