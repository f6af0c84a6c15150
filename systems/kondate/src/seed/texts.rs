//! The texts of the sample data, from data files beside this one.

use std::sync::LazyLock;

use serde::Deserialize;

use super::dishes::Ingredient;

/// Lists of short texts.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Texts {
    pub(super) book_categories: Vec<&'static str>,
    pub(super) catalog_categories: Vec<&'static str>,
    pub(super) recipe_memos: Vec<&'static str>,
    pub(super) log_memos: Vec<&'static str>,
    pub(super) bios: Vec<&'static str>,
    pub(super) allergies: Vec<&'static str>,
    pub(super) notifications: Vec<Notification>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Notification {
    pub(super) kind: &'static str,
    pub(super) title: &'static str,
    pub(super) body: &'static str,
}

/// A menu. Its tags and the kinds of its recipes are words with spaces between them.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct MenuText {
    pub(super) title: &'static str,
    pub(super) tags: &'static str,
    pub(super) description: &'static str,
    pub(super) recipes: &'static str,
}

/// What there is to eat and to buy.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Food {
    pub(super) fridge: Vec<FridgeFood>,
    /// Items that are bought independently of the plans.
    pub(super) always: Vec<Ingredient>,
    pub(super) notes: Vec<&'static str>,
    /// The beginnings of names of fish and seafood.
    pub(super) fish: Vec<&'static str>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct FridgeFood {
    pub(super) name: &'static str,
    pub(super) amount: f64,
    pub(super) unit: &'static str,
    pub(super) category: &'static str,
    /// For how many days it keeps.
    pub(super) days: i64,
}

pub(super) static TEXTS: LazyLock<Texts> =
    LazyLock::new(|| serde_json::from_str(include_str!("texts.json")).expect("texts"));
pub(super) static MENUS: LazyLock<Vec<MenuText>> =
    LazyLock::new(|| serde_json::from_str(include_str!("menus.json")).expect("menus"));
pub(super) static FOOD: LazyLock<Food> =
    LazyLock::new(|| serde_json::from_str(include_str!("food.json")).expect("food"));
