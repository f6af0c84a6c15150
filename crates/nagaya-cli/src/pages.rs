//! The reference pages about diagnostic codes.

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The page about a code, in any case.
pub(super) fn page(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code)).map(|(_, page)| *page)
}

/// Whether a word looks like a code: `NG` and four digits.
pub(super) fn is_code(word: &str) -> bool {
    let digits = word.get(..2).filter(|start| start.eq_ignore_ascii_case("NG")).and(word.get(2..));
    digits.is_some_and(|digits| digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
