//! Terms: what an item is found by, and what a question looks for.
//!
//! Japanese does not say where words begin, so the terms of a text are pairs of neighbouring characters. The last character of a run
//! is a term by itself. So every character starts a term, and a query of one character (鍋) is a prefix match. Width, case and the
//! two kana make no difference: `ｶﾚｰ`, `カレー` and `かれー` are the same. A word of the dictionary is a term too, the same one however
//! it is written. So are a tag and a category as a whole.
//!
//! Terms only say where to look. Whether an item answers a question is decided by the item.

use std::collections::BTreeMap;

use icu_normalizer::ComposingNormalizerBorrowed;

use super::words::{Token, tokens, words_within};

/// What the terms of an item are made by. A process of another version indexes everything anew.
///
/// 1: pairs. 2: words, tags and categories besides.
pub(crate) const INDEX_VERSION: u32 = 2;

/// Terms of an item, at most. What comes first counts, and the title comes first.
pub(super) const MAX_ITEM_TERMS: usize = 400;

/// Terms that a question is looked up by, at most: few find what has all of them.
pub(super) const MAX_QUERY_TERMS: usize = 8;

/// Characters of the longest term.
const MAX_TERM_CHARS: usize = 65;

/// What terms begin with that are not pairs: no pair has a sign.
const WORD: char = '~';
const TAG: char = '=';
const CATEGORY: char = '/';

/// Terms, each with the highest weight among the places where it occurs.
pub(super) type Weighted = BTreeMap<String, i64>;

/// The first letter of a term, which the postings of the catalog are partitioned by.
pub(super) fn initial(term: &str) -> Option<char> {
    term.strip_prefix([WORD, TAG, CATEGORY]).unwrap_or(term).chars().next()
}

/// The term of a tag; `None` for one of signs alone.
pub(super) fn tag_term(tag: &str) -> Option<String> {
    let folded = folded_tag(tag);
    (!folded.is_empty()).then(|| whole(TAG, &folded))
}

/// The term of a category.
pub(super) fn category_term(id: &str) -> String {
    whole(CATEGORY, id)
}

/// A tag as it is compared: without signs, and with each word in one spelling.
pub(super) fn folded_tag(tag: &str) -> String {
    let mut folded = String::new();
    for run in runs(tag) {
        if !folded.is_empty() {
            folded.push('_');
        }
        for token in tokens(&run) {
            match token {
                Token::Word(word) => folded.push_str(word),
                Token::Letter(letter) => folded.push(letter),
            }
        }
    }
    folded
}

/// The record of what is indexed has terms with spaces between them.
fn whole(sign: char, text: &str) -> String {
    let letters = text.chars().map(|letter| if letter.is_whitespace() { '_' } else { letter });
    [sign].into_iter().chain(letters).take(MAX_TERM_CHARS).collect()
}

/// The terms of texts that come with their weights, the weightiest first, and these terms besides.
pub(super) fn index_terms<'t>(
    besides: impl IntoIterator<Item = String>,
    texts: impl IntoIterator<Item = (i64, &'t str)>,
) -> Weighted {
    let mut terms: Weighted = besides.into_iter().map(|term| (term, 1)).collect();
    for (weight, text) in texts {
        for run in runs(text) {
            let words = words_within(&run).map(word_term);
            let last = run.last().map(char::to_string);
            for term in pairs(&run).chain(last).chain(words) {
                if terms.len() >= MAX_ITEM_TERMS {
                    return terms;
                }
                terms.entry(term).or_insert(weight);
            }
        }
    }
    terms
}

fn word_term(word: &str) -> String {
    whole(WORD, word)
}

fn pairs(run: &[char]) -> impl Iterator<Item = String> {
    run.windows(2).map(|pair| pair.iter().collect())
}

/// Words of a question that have to stand together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    letters: String,
    tokens: Vec<Token>,
}

/// The phrases of a question; empty if it has no letter or digit.
pub(super) fn phrases(question: &str) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    for run in runs(question) {
        let phrase = Phrase { letters: run.iter().collect(), tokens: tokens(&run) };
        if !phrases.contains(&phrase) {
            phrases.push(phrase);
        }
    }
    phrases
}

impl Phrase {
    /// The same without words: what it is looked up by in an index that has none.
    pub(super) fn by_letters(&self) -> Phrase {
        Phrase { letters: self.letters.clone(), tokens: self.letters.chars().map(Token::Letter).collect() }
    }

    /// Terms that every item with this phrase has, whatever it stands in: the words first.
    pub(super) fn terms(&self) -> Vec<String> {
        let mut terms: Vec<_> = self.tokens.iter().filter_map(|token| token.word().map(word_term)).collect();
        for letters in self.tokens.split(|token| token.word().is_some()) {
            let letters: Vec<char> = letters.iter().filter_map(|token| token.letter()).collect();
            // Every other pair, and the last one, have all letters.
            let last = letters.len().saturating_sub(2);
            terms
                .extend(pairs(&letters).enumerate().filter(|(at, _)| at % 2 == 0 || *at == last).map(|(_, pair)| pair));
        }
        let mut seen = std::collections::HashSet::new();
        terms.retain(|term| seen.insert(term.clone()));
        terms
    }

    /// Its only letter, if it has one letter that is no word.
    pub(super) fn single(&self) -> Option<char> {
        match self.tokens.as_slice() {
            [Token::Letter(letter)] => Some(*letter),
            _ => None,
        }
    }
}

impl Token {
    fn word(&self) -> Option<&'static str> {
        match self {
            Token::Word(word) => Some(word),
            Token::Letter(_) => None,
        }
    }

    fn letter(&self) -> Option<char> {
        match self {
            Token::Word(_) => None,
            Token::Letter(letter) => Some(*letter),
        }
    }
}

/// A text that phrases are looked for in.
pub(super) struct Text(Vec<Phrase>);

impl Text {
    pub(super) fn new(text: &str) -> Self {
        Text(runs(text).iter().map(|run| Phrase { letters: run.iter().collect(), tokens: tokens(run) }).collect())
    }

    /// Whether a phrase stands in it, letter by letter or with words in other spellings.
    pub(super) fn has(&self, phrase: &Phrase) -> bool {
        self.0.iter().any(|run| {
            run.letters.contains(&phrase.letters)
                || run.tokens.windows(phrase.tokens.len()).any(|tokens| tokens == phrase.tokens)
        })
    }
}

/// Runs of letters and digits, normalised for case, width and kana.
pub(super) fn runs(text: &str) -> Vec<Vec<char>> {
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

    fn index(text: &str) -> Weighted {
        index_terms([], [(4, text)])
    }

    fn check(text: &str, expected: &[&str]) {
        let mut expected: Vec<_> = expected.iter().map(|term| (*term).to_owned()).collect();
        expected.sort();
        assert_eq!(index(text).into_keys().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_run_gives_its_pairs_its_last_character_and_its_words() {
        check("生姜焼き", &["生姜", "姜焼", "焼き", "き", "~しょうが", "~やき"]);
        check("卵", &["卵", "~たまご"]);
        check("Egg curry", &["eg", "gg", "g", "cu", "ur", "rr", "ry", "y"]);
        check("鶏もも 300g", &["鶏も", "もも", "も", "~とり", "30", "00", "0g", "g"]);
        check("、。！ 〜", &[]);
        check("", &[]);
    }

    #[test]
    fn width_case_and_kana_make_no_difference() {
        let alike = |one: &str, other: &str| assert_eq!(index(one), index(other), "{one} {other}");
        alike("カレー", "かれー");
        alike("ｶﾚｰ", "かれー");
        alike("ｶﾞｰﾘｯｸ", "ガーリック");
        alike("か\u{3099}", "が");
        alike("ＣＵＲＲＹ　１２", "curry 12");
        alike("ヴィシソワーズ", "ゔぃしそわーず");
        alike("㌘", "ぐらむ");
        alike("①", "1");
        // Different words stay different.
        assert_ne!(index("カレー"), index("カレ"));
        assert_ne!(index("はは"), index("ばば"));
    }

    #[test]
    fn a_term_has_its_highest_weight() {
        let terms = index_terms([], [(4, "卵焼き"), (2, "卵"), (1, "卵焼きと卵")]);
        let weight = |term: &str| terms.get(term).copied();
        assert_eq!(weight("卵焼"), Some(4));
        assert_eq!(weight("卵"), Some(2));
        assert_eq!(weight("きと"), Some(1));
        assert_eq!(weight("豚"), None);
        assert_eq!(weight("~たまご"), Some(4));
    }

    #[test]
    fn the_number_of_terms_is_limited_and_tags_and_the_title_come_first() {
        let letters = |from: u32, count: u32| (from..from + count).filter_map(char::from_u32).collect::<String>();
        let (title, description) = (letters(0xac00, 200), letters(0xb000, 2_000));
        let besides = ["=和食".to_owned(), "/c_01".to_owned()];
        let terms = index_terms(besides, [(4, title.as_str()), (1, description.as_str())]);
        assert_eq!(terms.len(), MAX_ITEM_TERMS);
        assert_eq!(terms.values().filter(|weight| **weight == 4).count(), 200);
        assert!(terms.contains_key("=和食") && terms.contains_key("/c_01"));
    }

    #[test]
    fn a_tag_and_a_category_are_terms_as_a_whole() {
        assert_eq!(tag_term("和食").as_deref(), Some("=和食"));
        assert_eq!(tag_term("玉子 料理!"), tag_term("たまご・料理"));
        assert_ne!(tag_term("卵料理"), tag_term("卵"));
        assert_eq!(tag_term("！？"), None);
        assert_eq!(category_term("c 01"), "/c_01");
        assert_eq!(category_term(&"x".repeat(99)).chars().count(), MAX_TERM_CHARS);
        assert_eq!((initial("=和食"), initial("~たまご"), initial("卵焼")), (Some('和'), Some('た'), Some('卵')));
    }

    #[test]
    fn a_phrase_is_looked_up_by_its_words_and_by_pairs_of_its_other_letters() {
        let check = |question: &str, expected: &[&[&str]]| {
            let terms: Vec<_> = phrases(question).iter().map(Phrase::terms).collect();
            assert_eq!(terms, expected, "{question}");
        };
        check("ハヤシライス", &[&["はや", "しら", "いす"]]);
        check("ハヤシ", &[&["はや", "やし"]]);
        check("卵", &[&["~たまご"]]);
        check("玉子スープ", &[&["~たまご", "すー", "ーぷ"]]);
        check("豚のしょうが焼き", &[&["~ぶた", "~しょうが", "~やき"]]);
        check("ハヤ・ハヤ 豚 ぬ", &[&["はや"], &["~ぶた"], &[]]);
        check("ぬぬぬぬ", &[&["ぬぬ"]]);
        check("！？ 、", &[]);
        let single = |question: &str| phrases(question)[0].single();
        assert_eq!((single("ぬ"), single("卵"), single("ぬぬ")), (Some('ぬ'), None, None));
    }

    #[track_caller]
    fn check_phrase(text: &str, question: &str, expected: bool) {
        let text_of = Text::new(text);
        assert_eq!(phrases(question).iter().all(|phrase| text_of.has(phrase)), expected, "{question} in {text}");
    }

    /// Proves the full-text search part of K19.
    #[test]
    fn a_phrase_is_found_where_its_letters_stand_together() {
        check_phrase("しょうゆラーメン", "しょうが", false);
        check_phrase("ショウガ焼き", "しょうが", true);
        check_phrase("うどんとうがらし", "どうが", false);
        check_phrase("豚肉のカレー", "豚 カレー", true);
        check_phrase("豚肉のカレー", "豚カレー", false);
        check_phrase("豚 カレー", "豚カレー", false);
        check_phrase("東京都", "京都", true);
    }

    /// Proves the full-text search part of K19.
    #[test]
    fn a_phrase_is_found_in_other_spellings_of_its_words() {
        for text in ["玉子焼き", "卵焼き", "たまご焼き", "だし巻きタマゴ焼"] {
            for question in ["卵", "玉子", "たまご", "tamago", "卵焼き", "玉子やき"] {
                check_phrase(text, question, true);
            }
            check_phrase(text, "卵とじ", false);
        }
        check_phrase("塩鮭のおにぎり", "さけのお握り", true);
        check_phrase("紅サケ", "鮭", true);
        // Within another word it is another word, but letters are letters.
        check_phrase("玉ねぎのスープ", "葱", false);
        check_phrase("玉ねぎのスープ", "ねぎ", true);
        check_phrase("すいか", "烏賊", false);
        check_phrase("すいか", "いか", true);
        check_phrase("paprika", "いか", false);
        check_phrase("paprika", "ika", true);
    }

    proptest! {
        /// Proves the full-text search part of K19: whatever part of a title is asked for, the title has it, and has its terms.
        #[test]
        fn every_part_of_a_title_finds_it(
            title in "([ぁ-んァ-ヶー一-鿋a-zA-Zａ-ｚ０-９0-9 　・（）]{1,4}|玉子|玉ねぎ|tamago|ika|すいか|味噌){1,12}",
            from in any::<prop::sample::Index>(),
            length in 1..40_usize,
        ) {
            let letters: Vec<char> = title.chars().collect();
            let from = from.index(letters.len());
            let part: String = letters[from..letters.len().min(from + length)].iter().collect();
            let (terms, text) = (index(&title), Text::new(&title));
            let wanted = phrases(&part);
            prop_assert_eq!(wanted.is_empty(), !part.chars().any(char::is_alphanumeric));
            for phrase in &wanted {
                prop_assert!(text.has(phrase), "{:?} of {} is not in {}", phrase, part, title);
                for term in phrase.terms() {
                    prop_assert!(terms.contains_key(&term), "{} of {} is not in {}", term, part, title);
                }
                let single = phrase.single();
                prop_assert!(single.is_none_or(|first| terms.keys().any(|term| term.starts_with(first))));
            }
        }

        /// What has a phrase in other spellings has its terms too.
        #[test]
        fn what_has_a_phrase_has_its_terms(
            title in "(玉子|卵|たまご|玉ねぎ|葱|ねぎ|ika|烏賊|すいか|の|焼|き){1,6}",
            question in "(玉子|卵|たまご|玉ねぎ|葱|ねぎ|ika|烏賊|いか|の|焼|き){1,3}",
        ) {
            let (terms, text) = (index(&title), Text::new(&title));
            for phrase in phrases(&question) {
                if text.has(&phrase) {
                    for term in phrase.terms() {
                        prop_assert!(terms.contains_key(&term), "{} of {} is not in {}", term, question, title);
                    }
                }
            }
        }

        /// Whatever is written, terms are what the design takes, and the record of them can be divided at spaces.
        #[test]
        fn terms_are_short_and_have_no_spaces(text in any::<String>()) {
            let besides = tag_term(&text).into_iter().chain([category_term(&text)]);
            for term in index_terms(besides, [(1, text.as_str())]).keys() {
                prop_assert!((1..=MAX_TERM_CHARS).contains(&term.chars().count()), "{}", term);
                prop_assert!(!term.contains(char::is_whitespace), "{}", term);
            }
        }
    }
}
