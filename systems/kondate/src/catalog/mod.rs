//! The public catalog: publishing, withdrawing, saving, and how often something was saved.
//!
//! A recipe and a set are published in the same way: as two copies, a complete one in the catalog and a short one on the
//! creator's page, which has the saved count too. The creator's own item has the time of publication, which is part of the
//! keys of the copies; all three are written in one transaction.

pub(crate) mod counts;
mod publish;
mod save;

use axum::http::Method;
use nagaya_design::{Design, Field, Verb};
use nagaya_server::{CustomRoute, Problem};
use nagaya_tenancy::Tenant;

use crate::product::{found, item};

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
    called: &'static str,
    /// The access pattern that finds the complete copy by its id.
    pub(crate) by_id: &'static str,
    /// The copy and the saved item in the OpenAPI document.
    schemas: [&'static str; 2],
    /// Where a user's own ones are.
    path: &'static str,
}

static RECIPE: Names = Names {
    own: "recipe",
    catalog: "catalog_recipe",
    creator: "creator_recipe",
    saved: "saved_recipe",
    id: "recipeId",
    called: "RECIPE",
    by_id: "catalog_recipe_by_id",
    schemas: ["CatalogRecipe", "SavedRecipe"],
    path: "/recipes",
};

static SET: Names = Names {
    own: "set",
    catalog: "catalog_set",
    creator: "creator_set",
    saved: "saved_set",
    id: "setId",
    called: "SET",
    by_id: "catalog_set_by_id",
    schemas: ["CatalogSet", "SavedSet"],
    path: "/sets",
};

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Recipe, Kind::Set];

    /// The kind with this name in links, terms and GSI1.
    pub(crate) fn called(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.names().called == name)
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
    let Names { own, saved, id, path, schemas: [copy, saved_schema], .. } = kind.names();
    let at = |rest: &str| format!("{path}/{{{id}}}{rest}");
    let saving = format!("/catalog{path}/{{{id}}}/save");
    vec![
        CustomRoute::new(Method::POST, &at("/publish"), &format!("Publishes a {own}, or its changes."), move |call| {
            publish::publish(kind, call)
        })
        .requires(own, Verb::Update)
        .body(publish::schema(design))
        .answers(200, Some(item(copy))),
        CustomRoute::new(Method::POST, &at("/withdraw"), &format!("Takes a {own} out of the catalog."), move |call| {
            publish::withdraw(kind, call)
        })
        .requires(own, Verb::Update)
        .answers(204, None),
        CustomRoute::new(
            Method::DELETE,
            &at(""),
            &format!("Deletes a {own}; one that is published leaves the catalog with it."),
            move |call| publish::delete(kind, call),
        )
        .requires(own, Verb::Delete)
        .answers(204, None),
        CustomRoute::new(Method::PUT, &saving, &format!("Saves a {own} of the catalog."), move |call| {
            save::save(kind, call)
        })
        .requires(saved, Verb::Create)
        .answers(200, Some(item(saved_schema))),
        CustomRoute::new(Method::DELETE, &saving, &format!("Saves a {own} of the catalog no longer."), move |call| {
            save::unsave(kind, call)
        })
        .requires(saved, Verb::Delete)
        .answers(204, None),
    ]
}

/// The fields of an own item that are copied: those that the copy has too.
pub(crate) fn shown<'d>(design: &'d Design, own: &str, copy: &str) -> impl Iterator<Item = &'d Field> + use<'d> {
    let both = design.entity(own).zip(design.entity(copy)).into_iter();
    both.flat_map(|(own, copy)| {
        // A copy has its own key and times.
        let copied = |name: &str| own.field(name).is_some() && !own.is_key_field(name) && !TIMES.contains(&name);
        copy.fields.iter().filter(move |field| copied(&field.name))
    })
}

const TIMES: [&str; 2] = ["createdAt", "updatedAt"];

/// The display name of the caller.
pub(crate) async fn author(tenant: &Tenant) -> Result<String, Problem> {
    let detail = "What others see bears its author's name: make a profile first (`POST /profile`).";
    let profile = found(tenant.get("profile", &[]).await)?.ok_or_else(|| Problem::conflict("no_profile", detail))?;
    Ok(profile.text("displayName").unwrap_or_default().to_owned())
}
