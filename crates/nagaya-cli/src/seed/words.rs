//! The words that made-up data is made of.

use std::sync::LazyLock;

use serde::Deserialize;

macro_rules! words {
    ($($list:ident: $item:ty),+ $(,)?) => {
        /// Lists of words, as they are in the data file.
        #[derive(Deserialize)]
        #[serde(bound(deserialize = "'de: 'static"))]
        pub(super) struct Words {
            $(pub(super) $list: Vec<$item>),+
        }
    };
}

words! {
    companies: &'static str,
    verbs: &'static str,
    objects: &'static str,
    at_home: &'static str,
    sentences_en: &'static str,
    sentences_ja: &'static str,
    at_table: &'static str,
    instructions: &'static str,
    errors: &'static str,
    dishes: &'static str,
    foods: Food,
    steps: &'static str,
    meals: &'static str,
    allergens: &'static str,
    tags: &'static str,
    food_tags: &'static str,
    categories: &'static str,
    agents: &'static str,
    models: &'static str,
    folders: &'static str,
    files: (&'static str, &'static str),
    channels: &'static str,
    services: &'static str,
    jobs: &'static str,
    keys: &'static str,
    roles: &'static str,
    scopes: &'static str,
    endpoints: &'static str,
    sources: &'static str,
    log_lines: &'static str,
    actions: &'static str,
    user_agents: &'static str,
    devices: &'static str,
    cities: &'static str,
    schedules: &'static str,
    brands: &'static str,
    kinds: &'static str,
}

/// A name of a food, its unit and its category.
type Food = (&'static str, &'static str, &'static str);

pub(super) static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).expect("lists of words"));
