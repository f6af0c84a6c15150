//! Words of the kitchen that are written in several ways, by a dictionary that is data: `words.txt`.
//!
//! A text is a sequence of tokens: a word of the dictionary is one token however it is written, and any other letter is one by itself.
//! So 玉子焼き and たまご焼き are equal. Romaji are a spelling too, made from the reading: `tamago`.

use std::{collections::HashMap, sync::LazyLock};

/// The dictionary. Each line is a word, with its spellings.
pub(super) const DICTIONARY: &str = include_str!("words.txt");

/// Romaji of one word, at most: the ways to write its syllables are combined.
const MAX_ROMAJI: usize = 64;

static WORDS: LazyLock<Words> = LazyLock::new(|| Words::new(DICTIONARY));

/// A piece of a folded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A word of the dictionary, by its first spelling.
    Word(&'static str),
    Letter(char),
}

/// A dictionary.
struct Words {
    /// The spellings that begin with a letter, the longest first, each with its word.
    spellings: HashMap<char, Vec<(Vec<char>, &'static str)>>,
}

/// The tokens of a run of folded letters: of two spellings at one place the longer one counts.
pub(super) fn tokens(run: &[char]) -> Vec<Token> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(letter) = run.get(at) {
        let longest = WORDS.at(run, at).find(|(length, _)| is_whole_romaji(run, at, *length));
        let (length, token) = match longest {
            Some((length, word)) => (length, Token::Word(word)),
            None => (1, Token::Letter(*letter)),
        };
        tokens.push(token);
        at += length;
    }
    tokens
}

/// All words that are written anywhere in a run, also within others.
///
/// A part of a text can be divided in another way than the text: whatever words that part has, these are among them.
pub(super) fn words_within(run: &[char]) -> impl Iterator<Item = &'static str> {
    (0..run.len()).flat_map(|at| WORDS.at(run, at).map(|(_, word)| word))
}

/// Romaji are a word only where no Latin letter is beside them: `paprika` has no `ika`.
fn is_whole_romaji(run: &[char], at: usize, length: usize) -> bool {
    let is_latin = |at: Option<usize>| at.and_then(|at| run.get(at)).is_some_and(char::is_ascii_alphanumeric);
    !is_latin(Some(at)) || !(is_latin(at.checked_sub(1)) || is_latin(at.checked_add(length)))
}

impl Words {
    fn new(dictionary: &'static str) -> Self {
        let mut spellings: HashMap<char, Vec<(Vec<char>, &'static str)>> = HashMap::new();
        let mut add = |spelling: Vec<char>, word| {
            let alike = spellings.entry(spelling.first().copied().unwrap_or_default()).or_default();
            // Of words with the same romaji the first one counts.
            if !alike.iter().any(|(known, _)| *known == spelling) {
                alike.push((spelling, word));
            }
        };
        for line in lines(dictionary) {
            let Some(word) = line.split(' ').next() else { continue };
            line.split(' ').for_each(|spelling| add(spelling.chars().collect(), word));
            romaji(word).into_iter().for_each(|spelling| add(spelling.chars().collect(), word));
        }
        spellings.values_mut().for_each(|alike| alike.sort_by_key(|(spelling, _)| std::cmp::Reverse(spelling.len())));
        Words { spellings }
    }

    /// The words that are written at a place of a run, the longest first, with their lengths.
    fn at<'w>(&'w self, run: &'w [char], at: usize) -> impl Iterator<Item = (usize, &'static str)> + 'w {
        let rest = &run[at..];
        let alike = rest.first().and_then(|first| self.spellings.get(first)).into_iter().flatten();
        alike.filter(|(spelling, _)| rest.starts_with(spelling)).map(|(spelling, word)| (spelling.len(), *word))
    }
}

/// The lines with words.
fn lines(dictionary: &str) -> impl Iterator<Item = &str> {
    dictionary.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The ways to write a reading in Latin letters: none if it is not in hiragana, or where a short one would be an English word.
fn romaji(reading: &str) -> Vec<String> {
    let letters: Vec<char> = reading.chars().collect();
    let (mut found, mut at) = (vec![String::new()], 0);
    while at < letters.len() {
        let pair: String = letters[at..letters.len().min(at + 2)].iter().collect();
        let (length, ways) = match (syllable(&pair), syllable(&pair[..letters[at].len_utf8()])) {
            (Some(ways), _) if letters.len() > at + 1 => (2, ways),
            (_, Some(ways)) => (1, ways),
            _ => return Vec::new(),
        };
        let next = letters.get(at + 1).map(char::to_string).unwrap_or_default();
        found = found.iter().flat_map(|start| ways.split(' ').map(|way| joined(start, way, &next))).collect();
        found.sort();
        found.dedup();
        found.truncate(MAX_ROMAJI);
        at += length;
    }
    // A double consonant is written for the `っ` before it.
    found.into_iter().filter(|text| !text.contains('*') && text.len() > 2).collect()
}

/// A beginning with the next syllable: `*` in the beginning doubles the consonant, `-` prolongs the vowel or is left out.
fn joined(start: &str, way: &str, next: &str) -> String {
    let mut text = start.to_owned();
    if text.ends_with('*') {
        text.pop();
        match way.chars().next() {
            Some('c') => text.push('t'),
            Some(consonant) => text.push(consonant),
            None => {}
        }
    }
    let last = text.chars().last();
    match way {
        // The vowel before it is long.
        "u?" if matches!(last, Some('o' | 'u')) => {}
        "o?" if last == Some('o') => {}
        "u?" => text.push('u'),
        "o?" => text.push('o'),
        "-" => text.extend(last),
        "_" => {}
        "m?" if next.starts_with([
            'ば', 'び', 'ぶ', 'べ', 'ぼ', 'ぱ', 'ぴ', 'ぷ', 'ぺ', 'ぽ', 'ま', 'み', 'む', 'め', 'も',
        ]) =>
        {
            text.push('m');
        }
        "m?" => text.push('n'),
        way => text.push_str(way),
    }
    text
}

/// How a syllable is written: in the ways of Hepburn and Kunrei, with spaces between them.
fn syllable(kana: &str) -> Option<&'static str> {
    let found = SYLLABLES.split(['\n', ' ']).filter_map(|entry| entry.split_once('='));
    found.into_iter().find(|(known, _)| *known == kana).map(|(_, ways)| ways).map(|ways| match ways {
        "u" => "u u?",
        "o" => "o o?",
        "n" => "n m?",
        "ー" => "- _",
        "shi" => "shi si",
        "chi" => "chi ti",
        "tsu" => "tsu tu",
        "fu" => "fu hu",
        "ji" => "ji zi",
        "sha" => "sha sya",
        "shu" => "shu syu",
        "sho" => "sho syo",
        "cha" => "cha tya",
        "chu" => "chu tyu",
        "cho" => "cho tyo",
        "ja" => "ja zya jya",
        "ju" => "ju zyu jyu",
        "jo" => "jo zyo jyo",
        other => other,
    })
}

const SYLLABLES: &str = "\
あ=a い=i う=u え=e お=o か=ka き=ki く=ku け=ke こ=ko さ=sa し=shi す=su せ=se そ=so た=ta ち=chi つ=tsu て=te と=to
な=na に=ni ぬ=nu ね=ne の=no は=ha ひ=hi ふ=fu へ=he ほ=ho ま=ma み=mi む=mu め=me も=mo や=ya ゆ=yu よ=yo
ら=ra り=ri る=ru れ=re ろ=ro わ=wa を=wo ん=n が=ga ぎ=gi ぐ=gu げ=ge ご=go ざ=za じ=ji ず=zu ぜ=ze ぞ=zo
だ=da ぢ=ji づ=zu で=de ど=do ば=ba び=bi ぶ=bu べ=be ぼ=bo ぱ=pa ぴ=pi ぷ=pu ぺ=pe ぽ=po っ=* ー=ー
きゃ=kya きゅ=kyu きょ=kyo しゃ=sha しゅ=shu しょ=sho ちゃ=cha ちゅ=chu ちょ=cho にゃ=nya にゅ=nyu にょ=nyo
ひゃ=hya ひゅ=hyu ひょ=hyo みゃ=mya みゅ=myu みょ=myo りゃ=rya りゅ=ryu りょ=ryo ぎゃ=gya ぎゅ=gyu ぎょ=gyo
じゃ=ja じゅ=ju じょ=jo びゃ=bya びゅ=byu びょ=byo ぴゃ=pya ぴゅ=pyu ぴょ=pyo";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::search::terms::{INDEX_VERSION, runs};

    fn tokens_of(text: &str) -> Vec<Token> {
        runs(text).iter().flat_map(|run| tokens(run)).collect()
    }

    #[test]
    fn the_dictionary_is_folded_and_has_each_spelling_once() {
        let mut seen = BTreeSet::new();
        for line in lines(DICTIONARY) {
            for spelling in line.split(' ') {
                assert_eq!(
                    runs(spelling),
                    [spelling.chars().collect::<Vec<_>>()],
                    "`{spelling}` of `{line}` is not folded"
                );
                assert!(spelling.chars().count() <= 10, "`{spelling}` is long");
                assert!(seen.insert(spelling), "`{spelling}` is there twice");
            }
        }
        assert!(seen.len() > 500, "{}", seen.len());
    }

    /// What is indexed depends on the dictionary: without a new version, no process indexes anew what others have indexed.
    #[test]
    fn a_changed_dictionary_needs_a_new_version_of_the_index() {
        let hash = DICTIONARY
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        assert_eq!(
            (INDEX_VERSION, hash),
            (2, 2_115_711_347_859_858_109),
            "raise INDEX_VERSION, and note the hash of the new dictionary here"
        );
    }

    #[test]
    fn a_word_is_the_same_however_it_is_written() {
        let alike = |texts: &[&str]| {
            for text in texts {
                assert_eq!(tokens_of(text), tokens_of(texts[0]), "{text} and {}", texts[0]);
            }
        };
        alike(&["玉子焼き", "卵焼き", "たまご焼き", "タマゴ焼", "ﾀﾏｺﾞやき"]);
        alike(&["鮭", "さけ", "サケ", "しゃけ", "sake"]);
        alike(&["生姜", "しょうが", "ショウガ", "しょーが", "shouga", "shoga", "syouga", "SYOGA"]);
        alike(&["人参", "にんじん", "ninjin", "ninzin"]);
        alike(&["味噌汁", "みそ汁", "みそしる"]);
        alike(&["天ぷら", "tenpura", "tempura"]);
        alike(&["納豆", "nattou", "natto"]);
        alike(&["抹茶", "抹茶"]);
        alike(&["牛乳", "gyuunyuu", "gyunyu"]);
        alike(&["ラーメン", "拉麺", "raamen", "ramen"]);
        assert_ne!(tokens_of("しょうが"), tokens_of("しょうゆ"));
        assert_ne!(tokens_of("豚"), tokens_of("牛"));
    }

    #[test]
    fn the_longest_word_counts_and_hides_those_within() {
        assert_eq!(tokens_of("玉ねぎ"), [Token::Word("たまねぎ")]);
        assert_eq!(tokens_of("長ねぎ"), [Token::Letter('長'), Token::Word("ねぎ")]);
        assert_eq!(tokens_of("すいか"), [Token::Word("すいか")]);
        assert_eq!(tokens_of("paprika").len(), "paprika".len());
        assert_eq!(tokens_of("ika2")[0], Token::Letter('i'));
        let run: Vec<char> = "すいかika".chars().collect();
        assert_eq!(words_within(&run).collect::<Vec<_>>(), ["すいか", "いか", "いか"]);
    }
}
