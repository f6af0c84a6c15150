//! Share links: everybody who knows the unguessable id reads one recipe or set, until the link is deleted. Of an item that is
//! sold in the catalog, a link shows the preview to those who have not paid.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, RequestBody as _, RequiredCaller, request_body};
use nagaya_tenancy::{Record, Tenant};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::{
    catalog::{
        Kind, author, copied_fields,
        preview::{self, PricedItem},
        price::{PRICE_FIELD, last_price_of, price_of},
    },
    product::{find, item_schema, object_fields, object_from_fields},
};

request_body! {
    /// The body that creates a link.
    struct NewShare of "share" {
        target_type: String = "targetType",
        target_id: String = "targetId",
    }
}

/// A stored link.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Share {
    owner_user_id: String,
    target_type: String,
    target_id: String,
}

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    vec![
        CustomRoute::new(Method::POST, "/shares", "Creates a link to a recipe or set of one's own.", share)
            .requires_permission("share", Verb::Create)
            .parameter(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
            .body(NewShare::schema(design))
            .answers(201, Some(item_schema("Share"))),
        CustomRoute::new(Method::GET, "/shares/{shareId}", READ, read_target)
            .caller(RequiredCaller::Public)
            .answers(200, Some(schema(design))),
    ]
}

const READ: &str = "What a link leads to, for everybody who has it.";

/// Creates a link to a recipe or set of the caller.
async fn share(call: Arc<Call>) -> Result<Answer, Problem> {
    let new: NewShare = call.parse_body()?;
    let tenant = call.tenant()?;
    // The target is the caller's own.
    let kind = Kind::from_link_name(&new.target_type).ok_or_else(Problem::not_found)?;
    let target = tenant.get(kind.names().own, &[&new.target_id]).await?;
    // The caller has a profile with a name.
    let author = author(&tenant).await?;

    let mut fields = new.fields();
    fields.insert("authorName".to_owned(), author.into());
    fields.extend(target.json("sourceUrl").map(|url| ("sourceUrl".to_owned(), url)));
    let set = call.idempotent(tenant.change_set().create("share", fields), ("share", &call.body))?;
    let made = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::not_found)?;
    let location = call.location(&format!("/shares/{}", made.id().concat()));
    Ok(Answer::created(made, &location))
}

/// The current target of a link. A link that never existed, a deleted one, and one whose target is deleted all give 404.
async fn read_target(call: Arc<Call>) -> Result<Answer, Problem> {
    let record = call.visitor().get("share", &call.path_parameters(["shareId"])).await?;
    let share: Share = record.deserialize()?;
    // The target is read behind the owner's wall, so a link can only lead to an item of its owner.
    let kind = Kind::from_link_name(&share.target_type).ok_or_else(Problem::not_found)?;
    let owner = call.on_behalf_of(&share.owner_user_id)?;
    let target = owner.get(kind.names().own, &[&share.target_id]).await?;

    let mut link = record.to_json();
    link.remove(OWNER_FIELD);
    let mut shown = public(call.design(), kind, &target);
    if let Some(price) = withheld_price(&call, kind, &owner, &target).await? {
        // As in the catalog.
        let fields = preview::shown_fields(kind);
        shown.retain(|name, _| fields.contains(name));
        shown.append(&mut preview::preview_fields(kind, &target));
        shown.insert(PRICE_FIELD.to_owned(), price.into());
        link.remove("sourceUrl");
    }
    link.insert("target".to_owned(), Json::Object(shown));
    Ok(Answer::data(Json::Object(link)))
}

/// The price that the target has or last had in the catalog, if the caller has not paid it.
async fn withheld_price(call: &Call, kind: Kind, owner: &Tenant, target: &Record) -> Result<Option<u64>, Problem> {
    let names = kind.names();
    let Some(id) = target.text(names.id) else { return Ok(None) };
    let copy = match target.text("publishedAt") {
        Some(at) => find(owner, names.catalog, &[at, id]).await?,
        None => None,
    };
    // Withdrawing an item does not make it free: its links go on showing the preview.
    let price = copy.map_or_else(|| last_price_of(target), |copy| price_of(&copy));
    let Some(price) = price else { return Ok(None) };
    let item = PricedItem { kind, id: id.to_owned(), creator: owner.principal().tenant.to_string() };
    let is_withheld = !preview::withheld_items(call, vec![item]).await?.is_empty();
    Ok(Some(price).filter(|_| is_withheld))
}

/// The owner of a link, which others must not see.
const OWNER_FIELD: &str = "ownerUserId";

/// The fields of a target that others see: those of the catalog.
fn public(design: &Design, kind: Kind, target: &Record) -> Map<String, Json> {
    let field = |name: &String| Some((name.clone(), target.json(name)?));
    object_from_fields(
        copied_fields(design, kind.names().own, kind.names().catalog).filter_map(|shown| field(&shown.name)),
    )
}

/// The JSON Schema of a link and its target.
fn schema(design: &Design) -> Json {
    let target = |kind: Kind| {
        let fields = copied_fields(design, kind.names().own, kind.names().catalog);
        let mut properties = object_from_fields(fields.map(|field| (field.name.clone(), field.json_schema())));
        properties.append(&mut preview::preview_schemas(kind));
        let price = design.entity(kind.names().catalog).and_then(|copy| copy.field(PRICE_FIELD));
        properties.extend(price.map(|price| (PRICE_FIELD.to_owned(), price.json_schema())));
        json!({ "type": "object", "properties": properties, "required": ["title"], "additionalProperties": false })
    };
    let link = design.entity("share").map_or(&[][..], |share| &share.fields).iter();
    let link = link.filter(|field| field.name != OWNER_FIELD);
    let mut properties = object_from_fields(link.map(|field| (field.name.clone(), field.json_schema())));
    properties.extend(object_fields(json!({ "target": { "anyOf": Kind::ALL.map(target) } })));
    json!({
        "type": "object",
        "properties": properties,
        "required": ["shareId", "targetType", "targetId", "authorName", "createdAt", "target"],
        "additionalProperties": false,
    })
}
