//! The words that made-up data is made of.

use std::sync::LazyLock;

use serde::Deserialize;

macro_rules! words {
    ($($list:ident)+) => {
        /// Lists of words, as they are in the data file.
        #[derive(Deserialize)]
        #[serde(bound(deserialize = "'de: 'static"))]
        pub(super) struct Words {
            $(pub(super) $list: Vec<&'static str>,)+
            pub(super) foods: Vec<Food>,
            /// Names of files, each with its content type.
            pub(super) files: Vec<(&'static str, &'static str)>,
        }
    };
}

words! {
    companies verbs objects at_home sentences_en sentences_ja at_table instructions errors dishes steps meals
    allergens tags food_tags categories agents models folders channels services jobs keys roles scopes
    endpoints sources log_lines actions user_agents devices cities schedules brands kinds
}

/// A name of a food, its unit and its category.
type Food = (&'static str, &'static str, &'static str);

pub(super) static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).expect("lists of words"));
