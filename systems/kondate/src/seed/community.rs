//! What users have of each other: saved and bought recipes, and share links.

use nagaya_seed::{DAY_MILLIS, SeedContext, SeedSteps, Seeder};
use nagaya_tenancy::{RecordOwner, Tenant};
use serde_json::json;

use super::{
    MAX_RECIPES, SeedItem, SeedRecord, WriteGroup,
    account::{PERIOD_DAYS, PERIOD_PRICE_YEN, SeedUser},
    book,
    book::{Offer, RecipeBook},
    evening, id, instant, random_later_evening, steps,
};
use crate::payments::{bought_record_fields, bought_record_name};

/// How many other users a user knows, at most.
const MAX_CONTACTS_PER_USER: usize = 5;

/// Writes what users have of each other, after all have published.
pub(crate) struct CommunitySeeder;

impl Seeder for CommunitySeeder {
    fn entities(&self) -> &'static [&'static str] {
        &["saved_recipe", "saved_set", "purchase", "share"]
    }

    fn default_items(&self) -> Option<usize> {
        Some(MAX_RECIPES)
    }

    fn marker(&self, context: &SeedContext<'_>) -> (&'static str, Vec<String>) {
        ("recipe", vec![book::recipe_id(context, 0)])
    }

    fn steps<'s>(&'s self, tenant: &'s Tenant, context: SeedContext<'s>) -> SeedSteps<'s> {
        let user = SeedUser::from_context(&context);
        let mut all = build_paid_periods(&context, &user);
        let others =
            (1..context.tenants.len()).take(MAX_CONTACTS_PER_USER).map(|n| (context.index + n) % context.tenants.len());
        for other in others.map(|index| SeedContext { index, ..context }) {
            all.extend(build_saved_items(&context, &user, &other));
        }
        all.extend(build_shares(&context, &user));
        steps(tenant, context, all)
    }
}

/// What a user has saved, and bought before, of another user.
fn build_saved_items(context: &SeedContext<'_>, user: &SeedUser, other: &SeedContext<'_>) -> Vec<WriteGroup> {
    let book = RecipeBook::build(*other);
    let recipes =
        book.recipes.iter().map(|each| (["saved_recipe", "recipeId", "RECIPE"], &each.id, each.dish.title, each.offer));
    let menus = book.menus.iter().map(|each| (["saved_set", "setId", "SET"], &each.id, each.title, each.offer));
    let offers = recipes.chain(menus).filter_map(|(kind, id, title, offer)| Some((kind, id, title, offer?)));
    let mut all = Vec::new();
    let mut before = "";
    for (n, ([saved, name, target], thing, title, Offer { moment, price })) in offers.enumerate() {
        let mut rng = context.rng_for_item(&format!("{saved} {}", other.tenant()), n);
        // Every user saves something.
        let first = std::mem::replace(&mut before, saved) != saved;
        if !first && !rng.chance(55) {
            continue;
        }
        let at = if (context.until - moment) < 2 * DAY_MILLIS {
            moment + 1_000
        } else {
            random_later_evening(moment, context.until, &mut rng)
        };
        if price > 0 {
            let (purchased_at, purchase_id) = (instant(at), id(at, rng.bits()));
            let fields = json!({
                "purchasedAt": purchased_at,
                "purchaseId": purchase_id,
                "targetType": target,
                "targetId": thing,
                "title": title,
                "amount": price,
                "paymentMethodId": user.card,
            });
            let items = vec![SeedItem::new("purchase", at, &mut rng, fields)];
            let record = SeedRecord {
                entity: "purchase",
                owner: RecordOwner::Tenant,
                name: bought_record_name(target, thing),
                fields: bought_record_fields(&json!(purchased_at), &purchase_id),
            };
            all.push(WriteGroup { items, record: Some(record) });
        }
        let fields = json!({
            name: thing,
            "creatorId": other.tenant(),
            "catalogCreatedAt": instant(moment),
            "title": title,
        });
        all.push(SeedItem::new(saved, at, &mut rng, fields).alone());
    }
    all
}

/// The payments for the subscription so far.
fn build_paid_periods(context: &SeedContext<'_>, user: &SeedUser) -> Vec<WriteGroup> {
    let mut rng = context.rng_for_item("purchase", 0);
    let starts =
        (0..).map(|n| user.subscribed_at + n * PERIOD_DAYS * DAY_MILLIS).take_while(|start| *start < context.until);
    let paid = starts.map(|start| {
        let fields = json!({
            "purchasedAt": instant(start),
            "purchaseId": id(start, rng.bits()),
            "targetType": "SUBSCRIPTION",
            "title": "プレミアムプラン 30日",
            "amount": PERIOD_PRICE_YEN,
            "paymentMethodId": user.card,
        });
        SeedItem::new("purchase", start, &mut rng, fields).alone()
    });
    paid.collect()
}

/// Share links to two recipes and a menu.
fn build_shares(context: &SeedContext<'_>, user: &SeedUser) -> Vec<WriteGroup> {
    let book = RecipeBook::build(*context);
    // A recipe of another site has a link already.
    let recipes = book.recipes.iter().filter(|recipe| !recipe.imported).take(2).map(|recipe| ("RECIPE", &recipe.id));
    let menus = book.menus.iter().take(1).map(|menu| ("SET", &menu.id));
    let links = recipes.chain(menus).enumerate().map(|(n, (target, thing))| {
        let mut rng = context.rng_for_item("share", n);
        let moment = evening(context.until - rng.between(1, 25) * DAY_MILLIS, &mut rng);
        let fields = json!({ "targetType": target, "targetId": thing, "authorName": user.name });
        SeedItem::new("share", moment, &mut rng, fields).alone()
    });
    links.collect()
}
