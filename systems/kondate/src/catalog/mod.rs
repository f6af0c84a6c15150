//! The public catalog: publishing, withdrawing, saving, copying, and how often something was saved.
//!
//! A recipe and a set are published in the same way: as two copies, a complete one in the catalog and a short one on the
//! creator's page, which has the saved count too. The creator's own item has the time of publication, which is part of the
//! keys of the copies; all three are written in one transaction. What costs something is read in full by those who paid.

pub(crate) mod completed;
mod copy;
pub(crate) mod counts;
mod items;
mod popular;
pub(crate) mod preview;
pub(crate) mod price;
mod publish;
mod save;

use axum::http::Method;
use nagaya_design::{Design, Field, Verb};
use nagaya_server::{CustomRoute, Problem};
use nagaya_tenancy::Tenant;
use serde_json::json;

pub(crate) use self::items::{CatalogItem, PAYMENT_REQUIRED_DESCRIPTION, find_copy, find_items, usable_item};
use crate::product::item_schema;

/// The kind of a published item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Recipe,
    Set,
}

/// The names of a kind in the design.
#[derive(Debug)]
pub(crate) struct Names {
    /// The user's own item.
    pub(crate) own: &'static str,
    /// Its copies.
    pub(crate) catalog: &'static str,
    pub(crate) creator: &'static str,
    /// The record that a user has saved it.
    pub(crate) saved: &'static str,
    pub(crate) id: &'static str,
    /// Its name in links, terms and GSI1.
    link_name: &'static str,
    /// The access pattern that finds the complete copy by its id.
    pub(crate) by_id: &'static str,
    /// The list of the short copies by their saved counts.
    popular: &'static str,
    /// The list of the short copies of a creator, and its path.
    of_creator: (&'static str, &'static str),
    /// The own item, the copy and the saved item in the OpenAPI document.
    own_schema: &'static str,
    catalog_schema: &'static str,
    saved_schema: &'static str,
    /// The path of the user's own items.
    path: &'static str,
    /// The fields of the complete copy that a preview has too. All others are withheld.
    shown: &'static [&'static str],
    /// The withheld lists whose length a preview tells, and the fields that tell it.
    counted: &'static [(&'static str, &'static str)],
}

static RECIPE: Names = Names {
    own: "recipe",
    catalog: "catalog_recipe",
    creator: "creator_recipe",
    saved: "saved_recipe",
    id: "recipeId",
    link_name: "RECIPE",
    by_id: "catalog_recipe_by_id",
    popular: "catalog_recipes_popular",
    of_creator: ("creator_recipes", "/creator-recipes"),
    own_schema: "Recipe",
    catalog_schema: "CatalogRecipe",
    saved_schema: "SavedRecipe",
    path: "/recipes",
    shown: &[
        "creatorId",
        "creatorName",
        "recipeId",
        "title",
        "description",
        "tags",
        "imageUrl",
        "servings",
        "cookMinutes",
        "price",
        "createdAt",
        "updatedAt",
        "version",
    ],
    counted: &[("ingredients", "ingredientCount"), ("steps", "stepCount")],
};

static SET: Names = Names {
    own: "set",
    catalog: "catalog_set",
    creator: "creator_set",
    saved: "saved_set",
    id: "setId",
    link_name: "SET",
    by_id: "catalog_set_by_id",
    popular: "catalog_sets_popular",
    of_creator: ("creator_sets", "/creator-sets"),
    own_schema: "Set",
    catalog_schema: "CatalogSet",
    saved_schema: "SavedSet",
    path: "/sets",
    shown: &[
        "creatorId",
        "creatorName",
        "setId",
        "title",
        "description",
        "tags",
        "imageUrl",
        "price",
        "createdAt",
        "updatedAt",
        "version",
    ],
    counted: &[("items", "itemCount")],
};

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Recipe, Kind::Set];

    /// The kind with this name in links, terms and GSI1.
    pub(crate) fn from_link_name(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.names().link_name == name)
    }

    pub(crate) fn names(self) -> &'static Names {
        match self {
            Kind::Recipe => &RECIPE,
            Kind::Set => &SET,
        }
    }
}

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    Kind::ALL.into_iter().flat_map(|kind| routes_of(kind, design)).collect()
}

fn routes_of(kind: Kind, design: &Design) -> Vec<CustomRoute> {
    let Names { own, saved, id, path, own_schema, catalog_schema, saved_schema, .. } = kind.names();
    let at = |rest: &str| format!("{path}/{{{id}}}{rest}");
    let saving = format!("/catalog{path}/{{{id}}}/save");
    let copying = CustomRoute::new(
        Method::POST,
        &format!("/catalog{path}/{{{id}}}/copy"),
        &format!("Copies a {own} of the catalog into one's own book. Copies cannot be published."),
        move |call| copy::copy(kind, call),
    )
    .requires_permission(own, Verb::Create)
    .parameter(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
    .answers(201, Some(item_schema(own_schema)))
    .also_answers(402, PAYMENT_REQUIRED_DESCRIPTION);
    let mut routes = vec![
        copying,
        CustomRoute::new(Method::POST, &at("/publish"), &format!("Publishes a {own}, or its changes."), move |call| {
            publish::publish(kind, call)
        })
        .requires_permission(own, Verb::Update)
        .body(publish::schema(design))
        .answers(200, Some(item_schema(catalog_schema))),
        CustomRoute::new(
            Method::POST,
            &at("/withdraw"),
            &format!("Withdraws a {own} from the catalog."),
            move |call| publish::withdraw(kind, call),
        )
        .requires_permission(own, Verb::Update)
        .answers(204, None),
        CustomRoute::new(
            Method::DELETE,
            &at(""),
            &format!("Deletes a {own}, and withdraws it from the catalog if it is published."),
            move |call| publish::delete(kind, call),
        )
        .requires_permission(own, Verb::Delete)
        .answers(204, None),
        CustomRoute::new(Method::PUT, &saving, &format!("Saves a {own} of the catalog."), move |call| {
            save::save(kind, call)
        })
        .requires_permission(saved, Verb::Create)
        .answers(200, Some(item_schema(saved_schema))),
        CustomRoute::new(
            Method::DELETE,
            &saving,
            &format!("Removes a {own} of the catalog from the saved ones."),
            move |call| save::unsave(kind, call),
        )
        .requires_permission(saved, Verb::Delete)
        .answers(204, None),
    ];
    routes.extend(popular::routes(kind));
    routes
}

/// The fields of an own item that are copied: those that the copy has too.
pub(crate) fn copied_fields<'d>(
    design: &'d Design,
    own: &str,
    copy: &str,
) -> impl Iterator<Item = &'d Field> + use<'d> {
    let both = design.entity(own).zip(design.entity(copy)).into_iter();
    both.flat_map(|(own, copy)| {
        // A copy has its own key and times.
        let copied = |name: &str| own.field(name).is_some() && !own.is_key_field(name) && !TIME_FIELDS.contains(&name);
        copy.fields.iter().filter(move |field| copied(&field.name))
    })
}

const TIME_FIELDS: [&str; 2] = ["createdAt", "updatedAt"];

/// The display name of the caller.
pub(crate) async fn author(tenant: &Tenant) -> Result<String, Problem> {
    match tenant.get("profile", &[]).await {
        Ok(profile) => Ok(profile.text("displayName").unwrap_or_default().to_owned()),
        Err(error) if error.is_not_found() => {
            let detail =
                "Published and shared items show the name of their author: create a profile first (`POST /profile`).";
            Err(Problem::conflict("no_profile", detail))
        }
        Err(error) => Err(error.into()),
    }
}
