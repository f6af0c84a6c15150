//! Sample data: for each user a book of recipes, menus made of them, a cooking log, a full fridge, and recipes of other users
//! that were saved.
//!
//! The data of a user is made as a whole, so that every reference has its target, and is then written in the same
//! transactions in which the product writes it.

mod account;
mod book;
mod community;
mod dishes;
mod food;
mod plans;
mod texts;

use std::collections::HashMap;

use jiff::{Timestamp, tz::TimeZone};
use nagaya_seed::{
    DAY_MILLIS, Error, MAX_ATTEMPTS, RETRY_PAUSE, Rng, SeedContext, SeedStep, SeedSteps, SeededItem, Seeder, stamp,
};
use nagaya_tenancy::{ChangeSet, IdGenerator, RecordOwner, Tenant};
use serde_json::{Map, Value as Json};

pub(crate) use self::community::CommunitySeeder;
use self::{account::SeedUser, book::RecipeBook};

/// Recipes of a user.
const MAX_RECIPES: usize = 200;
const HOUR_MILLIS: i64 = 3_600_000;
const SECOND_MILLIS: i64 = 1_000;
/// The hours of UTC at which it is noon and evening in Japan.
const NOON_UTC_HOUR: i64 = 3;
const EVENING_UTC_HOUR: i64 = 10;
/// The entity whose items expire. They are stored with the current time, so that they do not expire at once.
const EXPIRING_ENTITY: &str = "fridge_deleted_item";

/// Writes what a user has without other users.
pub(crate) struct UserSeeder;

impl Seeder for UserSeeder {
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

    fn derived_entities(&self) -> &'static [&'static str] {
        &["search_term", "catalog_term"]
    }

    fn default_items(&self) -> Option<usize> {
        Some(MAX_RECIPES)
    }

    fn marker(&self, context: &SeedContext<'_>) -> (&'static str, Vec<String>) {
        ("recipe", vec![book::recipe_id(context, 0)])
    }

    fn steps<'s>(&'s self, tenant: &'s Tenant, context: SeedContext<'s>) -> SeedSteps<'s> {
        let (book, user) = (RecipeBook::build(context), SeedUser::from_context(&context));
        let plans = plans::build_plans(&context, &book, &user);
        let mut all = account::build_account(&context, &user);
        all.extend(food::build_food(&context, &book, &user, &plans));
        all.extend(book.into_write_groups(&user));
        all.extend(plans.into_write_groups(&context));
        steps(tenant, context, all)
    }
}

/// The steps that write these groups, as many of each entity as there are to be.
fn steps<'s>(tenant: &'s Tenant, context: SeedContext<'_>, mut all: Vec<WriteGroup>) -> SeedSteps<'s> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    all.retain(|group| {
        let entity = group.items.first().map_or("", |item| item.entity);
        let count = count.entry(entity).or_default();
        *count += 1;
        *count <= context.items
    });
    Box::new(all.into_iter().map(move |group| -> SeedStep<'s> { Box::pin(async move { group.write(tenant).await }) }))
}

/// An item to be written.
#[derive(Debug)]
struct SeedItem {
    entity: &'static str,
    /// When it was created, in milliseconds since 1970.
    moment: i64,
    /// The bits of its id where the tenancy layer makes it.
    bits: u128,
    fields: Map<String, Json>,
}

/// Items that are written in one transaction.
#[derive(Debug)]
struct WriteGroup {
    items: Vec<SeedItem>,
    record: Option<SeedRecord>,
}

/// What the product records beside the items: who has published something, or what was bought.
#[derive(Debug)]
struct SeedRecord {
    entity: &'static str,
    owner: RecordOwner,
    name: String,
    fields: Map<String, Json>,
}

impl SeedItem {
    fn new(entity: &'static str, moment: i64, rng: &mut Rng, fields: Json) -> Self {
        let mut fields = crate::product::object_fields(fields);
        fields.retain(|_, value| !value.is_null());
        SeedItem { entity, moment, bits: rng.bits(), fields }
    }

    fn alone(self) -> WriteGroup {
        WriteGroup { items: vec![self], record: None }
    }
}

impl WriteGroup {
    fn set(&self, tenant: &Tenant) -> ChangeSet {
        let set = self.items.iter().fold(tenant.change_set(), |set, item| {
            let stamp = (item.entity != EXPIRING_ENTITY).then_some((item.moment, item.bits));
            stamp::with_stamp(stamp, || set.create(item.entity, item.fields.clone()))
        });
        match &self.record {
            Some(SeedRecord { entity, owner, name, fields }) => {
                set.side_record(entity, *owner, name, Some(fields.clone()), None)
            }
            None => set,
        }
    }

    async fn write(&self, tenant: &Tenant) -> Result<Vec<SeededItem>, Error> {
        let results = |created| {
            self.items
                .iter()
                .map(|item| SeededItem { entity: item.entity, was_created: created, deleted: false })
                .collect()
        };
        let mut unsure = false;
        for _ in 0..MAX_ATTEMPTS {
            let Err(error) = self.set(tenant).commit().await else { return Ok(results(true)) };
            match error.code() {
                // The items are there: an earlier run wrote them, or this one, whose response was lost.
                "taken" | "overtaken" => return Ok(results(unsure)),
                "unanswered" => unsure = true,
                "contended" | "busy" => {}
                _ => {
                    let entity = self.items.first().map_or("", |item| item.entity);
                    return Err(format!("an item of `{entity}` cannot be written: {error}").into());
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Err("the store is too busy".into())
    }
}

/// The ULID of a moment.
fn id(moment: i64, bits: u128) -> String {
    IdGenerator::new(move || bits).ulid(moment)
}

/// A moment as it is stored.
fn instant(moment: i64) -> String {
    // Whole seconds are written without a fraction.
    Timestamp::from_second(moment.div_euclid(SECOND_MILLIS)).unwrap_or_default().to_string()
}

/// The day of a moment as it is stored.
fn date(moment: i64) -> String {
    Timestamp::from_millisecond(moment).unwrap_or_default().to_zoned(TimeZone::UTC).date().to_string()
}

/// Some moment of a day's evening in Japan.
fn evening(day: i64, rng: &mut Rng) -> i64 {
    start_of_day(day) + rng.between(9 * 3_600, 14 * 3_600) * SECOND_MILLIS
}

/// The beginning of a moment's day.
fn start_of_day(moment: i64) -> i64 {
    moment - moment.rem_euclid(DAY_MILLIS)
}

/// The evening of some day after a moment and before the last day.
fn random_later_evening(moment: i64, until: i64, rng: &mut Rng) -> i64 {
    let days = (until - start_of_day(moment)) / DAY_MILLIS;
    evening(start_of_day(moment) + rng.between(1, days - 1) * DAY_MILLIS, rng)
}
