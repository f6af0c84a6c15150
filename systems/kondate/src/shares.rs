//! Share links: an id that cannot be guessed, by which everybody reads one recipe or set for as long as the link is there.

use std::sync::Arc;

use axum::http::{Method, StatusCode, header};
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, OwnRoute, Problem, Reach, Shape};
use nagaya_tenancy::Record;
use serde_json::{Map, Value as Json, json};

use crate::{
    catalog::{Kind, author, shown},
    product::{fields, item},
};

/// What is shared.
const TARGET: Shape = Shape {
    entity: "share",
    fields: &[("targetType", "targetType"), ("targetId", "targetId")],
    required: &["targetType", "targetId"],
};

pub(crate) fn routes(design: &Design) -> Vec<OwnRoute> {
    vec![
        OwnRoute::new(Method::POST, "/shares", "Makes a link to a recipe or set of one's own.", share)
            .needs("share", Verb::Create)
            .takes(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
            .body(TARGET.schema(design))
            .answers(201, Some(item("Share"))),
        OwnRoute::new(Method::GET, "/shares/{shareId}", "What a link leads to, for everybody who has it.", follow)
            .reach(Reach::Public)
            .answers(200, Some(schema(design))),
    ]
}

/// Makes a link to something of the caller's.
async fn share(call: Arc<Call>) -> Result<Answer, Problem> {
    TARGET.check(call.design(), &call.body)?;
    let tenant = call.tenant()?;
    // The target is the caller's own.
    let text = |name: &str| call.body.get(name).and_then(Json::as_str).unwrap_or_default();
    let kind = Kind::called(text("targetType")).ok_or_else(Problem::not_found)?;
    let target = tenant.get(kind.names().own, &[text("targetId")]).await?;
    // Who shares has a name.
    let author = author(&tenant).await?;

    let mut given = call.body.clone();
    given.insert("authorName".to_owned(), author.into());
    given.insert("sourceUrl".to_owned(), target.json("sourceUrl").unwrap_or_default());
    let mut set = tenant.set().create("share", given);
    if let Some(key) = call.idempotency_key()? {
        // Maps are sorted, and everything in them can be written.
        set = set.once(key, &serde_json::to_vec(&("share", &call.body)).unwrap_or_default());
    }
    let made = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::not_found)?;
    let place = call.location(&format!("/shares/{}", made.text("shareId").unwrap_or_default()));
    let mut answer = Answer::record(made);
    answer.status = StatusCode::CREATED;
    answer.set(header::LOCATION, &place);
    Ok(answer)
}

/// What a link leads to, as it is now. A link that was never there, one that is gone, and one whose target is gone are the
/// same to whoever asks.
async fn follow(call: Arc<Call>) -> Result<Answer, Problem> {
    let id = call.parameter("shareId").unwrap_or_default();
    let share = call.visitor().get("share", &[id]).await?;
    // The target is read where the owner's own items lie, so a link leads to nothing that was not its owner's to share.
    let text = |name: &str| share.text(name).unwrap_or_default();
    let kind = Kind::called(text("targetType")).ok_or_else(Problem::not_found)?;
    let owner = call.on_behalf_of(text(OWNER))?;
    let target = owner.get(kind.names().own, &[text("targetId")]).await?;

    let mut link = share.to_json();
    link.remove(OWNER);
    link.insert("target".to_owned(), Json::Object(public(call.design(), kind, &target)));
    Ok(Answer::data(Json::Object(link)))
}

/// Whose link it is: nobody's business but the owner's.
const OWNER: &str = "ownerUserId";

/// What others see of a target: what they would see of it in the catalog.
fn public(design: &Design, kind: Kind, target: &Record) -> Map<String, Json> {
    let field = |name: &String| Some((name.clone(), target.json(name)?));
    shown(design, kind.names().own, kind.names().catalog).filter_map(|shown| field(&shown.name)).collect()
}

/// The JSON Schema of a link and what it leads to.
fn schema(design: &Design) -> Json {
    let target = |kind: Kind| {
        let fields = shown(design, kind.names().own, kind.names().catalog);
        let properties: Map<_, _> = fields.map(|field| (field.name.clone(), field.json_schema())).collect();
        json!({ "type": "object", "properties": properties, "required": ["title"], "additionalProperties": false })
    };
    let link = design.entity("share").map_or(&[][..], |share| &share.fields).iter();
    let mut properties: Map<_, _> =
        link.filter(|field| field.name != OWNER).map(|field| (field.name.clone(), field.json_schema())).collect();
    properties.extend(fields(json!({ "target": { "anyOf": Kind::ALL.map(target) } })));
    json!({
        "type": "object",
        "properties": properties,
        "required": ["shareId", "targetType", "targetId", "authorName", "createdAt", "target"],
        "additionalProperties": false,
    })
}
