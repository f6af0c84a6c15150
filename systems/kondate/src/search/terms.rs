//! Terms: the searchable parts of a text.
//!
//! Japanese does not say where words begin, so the terms are pairs of neighbouring characters. The last character of a run is
//! a term by itself. So every character starts a term, and a query of one character (卵) is a prefix match. Width, case and the
//! two kana make no difference: `ｶﾚｰ`, `カレー` and `かれー` are the same.

use std::collections::BTreeMap;

use icu_normalizer::ComposingNormalizerBorrowed;

/// Terms of an item, at most. What comes first counts, and the title comes first.
pub(super) const MAX_ITEM_TERMS: usize = 400;

/// Terms that a question is looked up by, at most: the first ones.
pub(super) const MAX_QUERY_TERMS: usize = 32;

/// Terms, each with the highest weight among the places where it occurs.
pub(super) type Weighted = BTreeMap<String, i64>;

/// What a question looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryTerm {
    /// This term.
    Pair(String),
    /// Any term that begins so.
    Beginning(char),
}

/// The terms of texts that come with their weights, the weightiest first.
pub(super) fn index_terms<'t>(texts: impl IntoIterator<Item = (i64, &'t str)>) -> Weighted {
    let mut terms = Weighted::new();
    for (weight, text) in texts {
        for run in runs(text) {
            let last = run.last().map(char::to_string);
            for term in pairs(&run).chain(last) {
                if terms.len() == MAX_ITEM_TERMS {
                    return terms;
                }
                terms.entry(term).or_insert(weight);
            }
        }
    }
    terms
}

/// The distinct terms of a query; empty if it has no letter or digit.
pub(super) fn query_terms(question: &str) -> Vec<QueryTerm> {
    let mut wanted = Vec::new();
    for run in runs(question) {
        let single = match run.as_slice() {
            [only] => Some(QueryTerm::Beginning(*only)),
            _ => None,
        };
        for each in pairs(&run).map(QueryTerm::Pair).chain(single) {
            if !wanted.contains(&each) {
                wanted.push(each);
            }
        }
    }
    wanted.truncate(MAX_QUERY_TERMS);
    wanted
}

fn pairs(run: &[char]) -> impl Iterator<Item = String> {
    run.windows(2).map(|pair| pair.iter().collect())
}

/// Runs of letters and digits, normalised for case, width and kana.
fn runs(text: &str) -> Vec<Vec<char>> {
    let normal = ComposingNormalizerBorrowed::new_nfkc().normalize(text);
    let folded: Vec<char> = normal.chars().flat_map(char::to_lowercase).map(hiragana).collect();
    let runs = folded.split(|letter| !letter.is_alphanumeric());
    runs.filter(|run| !run.is_empty()).map(<[char]>::to_vec).collect()
}

/// The hiragana of a katakana that has one. `ー` has none, and stays.
fn hiragana(letter: char) -> char {
    match letter {
        'ァ'..='ヶ' | 'ヽ' | 'ヾ' => char::from_u32(u32::from(letter) - 0x60).unwrap_or(letter),
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let mut expected: Vec<_> = expected.iter().map(|term| (*term).to_owned()).collect();
        expected.sort();
        assert_eq!(index_terms([(4, text)]).into_keys().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_run_gives_its_pairs_and_its_last_character() {
        check("生姜焼き", &["生姜", "姜焼", "焼き", "き"]);
        check("卵", &["卵"]);
        check("Egg curry", &["eg", "gg", "g", "cu", "ur", "rr", "ry", "y"]);
        check("鶏もも肉 300g", &["鶏も", "もも", "も肉", "肉", "30", "00", "0g", "g"]);
        check("、。！ 〜", &[]);
        check("", &[]);
    }

    #[test]
    fn width_case_and_kana_make_no_difference() {
        let alike =
            |one: &str, other: &str| assert_eq!(index_terms([(1, one)]), index_terms([(1, other)]), "{one} {other}");
        alike("カレー", "かれー");
        alike("ｶﾚｰ", "かれー");
        alike("ｶﾞｰﾘｯｸ", "ガーリック");
        alike("か\u{3099}", "が");
        alike("ＣＵＲＲＹ　１２", "curry 12");
        alike("ヴィシソワーズ", "ゔぃしそわーず");
        alike("㌘", "ぐらむ");
        alike("①", "1");
        // Different words stay different.
        assert_ne!(index_terms([(1, "カレー")]), index_terms([(1, "カレ")]));
        assert_ne!(index_terms([(1, "はは")]), index_terms([(1, "ばば")]));
    }

    #[test]
    fn a_term_has_its_highest_weight() {
        let terms = index_terms([(4, "卵焼き"), (2, "卵"), (1, "卵焼きと卵")]);
        let weight = |term: &str| terms.get(term).copied();
        assert_eq!(weight("卵焼"), Some(4));
        assert_eq!(weight("卵"), Some(2));
        assert_eq!(weight("きと"), Some(1));
        assert_eq!(weight("豚"), None);
    }

    #[test]
    fn the_number_of_terms_is_limited_and_the_title_comes_first() {
        let letters = |from: u32, count: u32| (from..from + count).filter_map(char::from_u32).collect::<String>();
        let (title, description) = (letters(0x4e00, 200), letters(0x5000, 2_000));
        let terms = index_terms([(4, title.as_str()), (1, description.as_str())]);
        assert_eq!(terms.len(), MAX_ITEM_TERMS);
        assert_eq!(terms.values().filter(|weight| **weight == 4).count(), 200);
    }

    #[test]
    fn one_character_is_searched_as_a_prefix() {
        let pair = |text: &str| QueryTerm::Pair(text.to_owned());
        assert_eq!(query_terms("卵"), [QueryTerm::Beginning('卵')]);
        assert_eq!(query_terms("カレー"), [pair("かれ"), pair("れー")]);
        assert_eq!(query_terms("豚 しょうが"), [QueryTerm::Beginning('豚'), pair("しょ"), pair("ょう"), pair("うが")]);
        assert_eq!(query_terms("もももも"), [pair("もも")]);
        assert_eq!(query_terms("！？ 、"), []);
        assert_eq!(
            query_terms(&(0..100).filter_map(|at| char::from_u32(0x4e00 + at)).collect::<String>()).len(),
            MAX_QUERY_TERMS
        );
    }

    /// Whether an item with these terms has everything that is looked for.
    fn has(terms: &Weighted, wanted: &QueryTerm) -> bool {
        match wanted {
            QueryTerm::Pair(pair) => terms.contains_key(pair),
            QueryTerm::Beginning(first) => terms.keys().any(|term| term.starts_with(*first)),
        }
    }

    proptest! {
        /// Proves the full-text search part of K19: whatever part of a title is asked for, the title has all of it.
        #[test]
        fn every_part_of_a_title_finds_it(
            title in "[ぁ-んァ-ヶー一-鿋a-zA-Zａ-ｚ０-９0-9 　・（）]{1,40}",
            from in any::<prop::sample::Index>(),
            length in 1..40_usize,
        ) {
            let letters: Vec<char> = title.chars().collect();
            let from = from.index(letters.len());
            let part: String = letters[from..letters.len().min(from + length)].iter().collect();
            let terms = index_terms([(4, title.as_str())]);
            let wanted = query_terms(&part);
            prop_assert_eq!(wanted.is_empty(), !part.chars().any(char::is_alphanumeric));
            for each in &wanted {
                prop_assert!(has(&terms, each), "{:?} of {} is not in {}", each, part, title);
            }
        }

        /// Whatever is written, terms are what the design takes: one or two letters or digits.
        #[test]
        fn terms_are_one_or_two_letters_or_digits(text in any::<String>()) {
            for term in index_terms([(1, text.as_str())]).keys() {
                prop_assert!((1..=2).contains(&term.chars().count()) && term.chars().all(char::is_alphanumeric), "{}", term);
            }
        }
    }
}
