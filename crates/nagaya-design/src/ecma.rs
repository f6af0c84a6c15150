//! Regular expressions in the ECMA-262 dialect that JSON Schema requires.
//!
//! Only the syntax that JSON Schema recommends is written: characters, classes, repetition, groups and alternatives. Other
//! features of Rust's dialect (Unicode `\d`, flags, named groups) are expanded, so that every validator accepts the same
//! texts.

use std::fmt::Write as _;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

/// The expression that matches the same texts in ECMA-262; `None` when Rust cannot read it either.
pub(crate) fn translate(expression: &str) -> Option<String> {
    let mut out = String::new();
    write(&regex_syntax::parse(expression).ok()?, &mut out)?;
    Some(out)
}

/// An expression that matches exactly this text.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    text.chars().for_each(|each| character(each, r"^$\.*+?()[]{}|/", &mut out));
    out
}

fn write(hir: &Hir, out: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => out.push_str(&escape(std::str::from_utf8(&literal.0).ok()?)),
        HirKind::Class(Class::Unicode(class)) => write_class(class, out),
        HirKind::Class(Class::Bytes(class)) => write_class(&class.to_unicode_class()?, out),
        // Patterns match the whole text, and patterns with other anchors are rejected.
        HirKind::Look(_) => return None,
        HirKind::Capture(capture) => write(&capture.sub, out)?,
        HirKind::Repetition(repetition) => {
            group(&repetition.sub, !matches!(repetition.sub.kind(), HirKind::Class(_)), out)?;
            match (repetition.min, repetition.max) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (min, None) => out.push_str(&format!("{{{min},}}")),
                (min, Some(max)) if min == max => out.push_str(&format!("{{{min}}}")),
                (min, Some(max)) => out.push_str(&format!("{{{min},{max}}}")),
            }
        }
        HirKind::Concat(parts) => {
            for part in parts {
                group(part, is_alternation(part), out)?;
            }
        }
        HirKind::Alternation(choices) => {
            for (at, choice) in choices.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                write(choice, out)?;
            }
        }
    }
    Some(())
}

/// Whether it is an alternation, looking through captures, which are not written.
fn is_alternation(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => is_alternation(&capture.sub),
        kind => matches!(kind, HirKind::Alternation(_)),
    }
}

fn group(hir: &Hir, needed: bool, out: &mut String) -> Option<()> {
    out.push_str(if needed { "(?:" } else { "" });
    write(hir, out)?;
    out.push_str(if needed { ")" } else { "" });
    Some(())
}

/// Writes a class. One that includes the last Unicode character is written as a negated class.
fn write_class(class: &ClassUnicode, out: &mut String) {
    let mut rest = class.clone();
    rest.negate();
    let negated = class.ranges().last().is_some_and(|last| last.end() == char::MAX);
    let ranges = if negated { rest.ranges() } else { class.ranges() };
    match (ranges, negated) {
        ([], true) => return out.push_str(r"[\s\S]"),
        // This class matches no character.
        ([], false) => return out.push_str(r"[^\s\S]"),
        _ => out.push_str(if negated { "[^" } else { "[" }),
    }
    ranges.iter().for_each(|range| write_range(range, out));
    out.push(']');
}

fn write_range(range: &ClassUnicodeRange, out: &mut String) {
    // Browsers match with the stricter flag `v`, so more characters are escaped than necessary.
    const SPECIAL: &str = r"^\[](){}|/-";
    character(range.start(), SPECIAL, out);
    if range.end() != range.start() {
        if range.end() as u32 > range.start() as u32 + 1 {
            out.push('-');
        }
        character(range.end(), SPECIAL, out);
    }
}

/// Writes a character, escaped if it is special or invisible.
fn character(each: char, special: &str, out: &mut String) {
    let code = each as u32;
    if special.contains(each) {
        out.push('\\');
        out.push(each);
    } else if each.is_control() || each.is_whitespace() && each != ' ' || (0xfff0..=0xffff).contains(&code) {
        // Writing to a string does not fail.
        let _ = write!(out, "\\u{code:04x}");
    } else {
        out.push(each);
    }
}
