//! The households of kondate: a book full of recipes, menus made of them, what was cooked when, a full fridge, and neighbours
//! who save each other's best dishes.
//!
//! A household is made up as a whole, so that everything in it refers to something that is there, and is then written in the
//! sets in which the product writes it.

mod book;
mod days;
mod desk;
mod dishes;
mod larder;
mod menus;
mod neighbours;

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use futures_util::future::LocalBoxFuture;
use jiff::{Timestamp, tz::TimeZone};
use nagaya_tenancy::{Ids, Keeper, Set, Tenant};
use serde_json::{Map, Value as Json};

pub(crate) use self::neighbours::Neighbours;
use self::{book::Book, desk::Cook};
use super::{
    item::DAY,
    luck::Luck,
    stamp,
    story::{Happenings, PATIENCE, PAUSE, Story, Told, Whose},
};

/// Recipes of a household.
const RECIPES: usize = 200;
const HOUR: i64 = 3_600_000;
const SECOND: i64 = 1_000;
/// After how many hours of a day by the clock of the store it is noon and evening in Japan.
const NOON: i64 = 3;
const EVENING: i64 = 10;
/// The entity whose items go by themselves after a while: they live from now on, whatever moment they tell of.
const FADING: &str = "fridge_deleted_item";

/// What a household has and does by itself.
pub(crate) struct Household;

impl Story for Household {
    fn entities(&self) -> &'static [&'static str] {
        &[
            "profile",
            "category",
            "recipe",
            "set",
            "catalog_recipe",
            "creator_recipe",
            "catalog_set",
            "creator_set",
            "plan",
            "cooklog",
            "fridge_item",
            "fridge_deleted_item",
            "shopping_item",
            "payment_method",
            "subscription",
            "notification_settings",
            "notification",
            "push_token",
        ]
    }

    fn follow(&self) -> &'static [&'static str] {
        &["search_term", "catalog_term"]
    }

    fn usual(&self) -> usize {
        RECIPES
    }

    fn mark(&self, whose: &Whose<'_>) -> (&'static str, Vec<String>) {
        ("recipe", vec![book::recipe_id(whose, 0)])
    }

    fn tell<'s>(&'s self, tenant: &'s Tenant, whose: Whose<'s>) -> Happenings<'s> {
        let (book, cook) = (Book::of(whose), Cook::of(&whose));
        let days = days::days(&whose, &book, &cook);
        let mut all = desk::desk(&whose, &cook);
        all.extend(larder::larder(&whose, &book, &cook, &days));
        all.extend(book.written(&cook));
        all.extend(days.written(&whose));
        happenings(tenant, whose, all)
    }
}

/// What happens when all of this is written, as far as there are to be so many items of each.
fn happenings<'s>(tenant: &'s Tenant, whose: Whose<'_>, mut all: Vec<Together>) -> Happenings<'s> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    all.retain(|together| {
        let entity = together.things.first().map_or("", |thing| thing.entity);
        let count = count.entry(entity).or_default();
        *count += 1;
        *count <= whose.items
    });
    Box::new(
        all.into_iter()
            .map(move |together| -> LocalBoxFuture<'s, _> { Box::pin(async move { together.write(tenant).await }) }),
    )
}

/// An item of a household.
#[derive(Debug)]
struct Thing {
    entity: &'static str,
    /// When it came to be, in milliseconds since 1970.
    moment: i64,
    /// What its id is made of where the store layer makes it.
    bits: u128,
    fields: Map<String, Json>,
}

/// What is written in one set.
#[derive(Debug)]
struct Together {
    things: Vec<Thing>,
    /// What the catalog keeps about who has published something: the entity, the note's name and what it says.
    claim: Option<(&'static str, String, Map<String, Json>)>,
}

impl Thing {
    fn new(entity: &'static str, moment: i64, luck: &mut Luck, fields: Json) -> Self {
        let mut fields = if let Json::Object(fields) = fields { fields } else { Map::new() };
        // What is not there is left out.
        fields.retain(|_, value| !value.is_null());
        Thing { entity, moment, bits: luck.bits(), fields }
    }

    fn alone(self) -> Together {
        Together { things: vec![self], claim: None }
    }
}

impl Together {
    fn set(&self, tenant: &Tenant) -> Set {
        let set = self.things.iter().fold(tenant.set(), |set, thing| {
            let stamp = (thing.entity != FADING).then_some((thing.moment, thing.bits));
            stamp::with(stamp, || set.create(thing.entity, thing.fields.clone()))
        });
        match &self.claim {
            Some((entity, name, said)) => set.note(entity, Keeper::House, name, Some(said.clone()), None),
            None => set,
        }
    }

    async fn write(&self, tenant: &Tenant) -> anyhow::Result<Vec<Told>> {
        let told = |made| self.things.iter().map(|thing| Told { entity: thing.entity, made, deleted: false }).collect();
        let mut unsure = false;
        for _ in 0..PATIENCE {
            let Err(error) = self.set(tenant).commit().await else { return Ok(told(true)) };
            match error.code() {
                // A write whose answer was lost has happened now as well.
                "taken" | "overtaken" => return Ok(told(unsure)),
                "unanswered" => unsure = true,
                "contended" | "busy" => {}
                _ => {
                    let entity = self.things.first().map_or("", |thing| thing.entity);
                    return Err(error).with_context(|| format!("an item of `{entity}` cannot be made"));
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("the store is too busy")
    }
}

/// The ULID of a moment.
fn id(moment: i64, bits: u128) -> String {
    Ids::new(move || bits).ulid(moment)
}

/// A moment as it is stored.
fn instant(moment: i64) -> String {
    // Whole seconds are written without a fraction.
    Timestamp::from_second(moment.div_euclid(SECOND)).unwrap_or_default().to_string()
}

/// The day of a moment as it is stored.
fn date(moment: i64) -> String {
    Timestamp::from_millisecond(moment).unwrap_or_default().to_zoned(TimeZone::UTC).date().to_string()
}

/// Some moment of a day's evening, when people have time: evening in Japan is afternoon by the clock of the store.
fn evening(day: i64, luck: &mut Luck) -> i64 {
    start(day) + luck.between(9 * 3_600, 14 * 3_600) * SECOND
}

/// The beginning of a moment's day.
fn start(moment: i64) -> i64 {
    moment - moment.rem_euclid(DAY)
}

/// The evening of some day after a moment, and before the day that everything leads up to.
fn later(moment: i64, until: i64, luck: &mut Luck) -> i64 {
    let days = (until - start(moment)) / DAY;
    evening(start(moment) + luck.between(1, days - 1) * DAY, luck)
}
