//! Names of ingredients and goods as they are compared: without the difference of case, width and kana.

use icu_normalizer::ComposingNormalizerBorrowed;

/// A text in lower case, of one width, in hiragana, and with single spaces: texts that differ in these only are the same name.
pub(crate) fn compared_name(name: &str) -> String {
    let plain = compared_unit(name).to_lowercase();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A unit of one width and in hiragana. Its case counts: `T` is a tablespoon and `t` a teaspoon.
pub(crate) fn compared_unit(unit: &str) -> String {
    ComposingNormalizerBorrowed::new_nfkc().normalize(unit).chars().map(hiragana).collect()
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
    use super::*;

    #[test]
    fn names_are_compared_without_case_width_and_kana() {
        let check = |one: &str, other: &str| assert_eq!(compared_name(one), compared_name(other), "{one} {other}");
        check("トマト", "とまと");
        check("ﾄﾏﾄ", "トマト");
        check("ﾊﾞﾀｰ", "バター");
        check("ヴィネガー", "ゔぃねがー");
        check("Ｔｏｍａｔｏ", " tomato ");
        check("オリーブ　オイル", "おりーぶ  おいる");
        assert_ne!(compared_name("バター"), compared_name("バタ"));
        assert_ne!(compared_name("はは"), compared_name("ばば"));
    }

    #[test]
    fn the_case_of_units_counts() {
        assert_eq!(compared_unit("ｶｯﾌﾟ"), compared_unit("カップ"));
        assert_eq!(compared_unit("ｇ"), "g");
        assert_ne!(compared_unit("T"), compared_unit("t"));
    }
}
