//! Devices that take push messages. A device is known by the hash of its token, and the token is never given back.

use std::sync::Arc;

use axum::http::{Method, StatusCode, header};
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, OwnRoute, Problem, Shape};
use nagaya_tenancy::{Error, ErrorKind, List, Record, Retry, Tenant};
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::product::{all, item, is_lost_race};

const DEVICE: &str = "push_token";
/// Devices of a user. Apps get new tokens now and then and tell nobody about the old ones: with one device more, that which
/// has not been heard of for the longest time goes.
const DEVICES: usize = 20;

/// What a device says.
const SAID: Shape = Shape {
    entity: DEVICE,
    fields: &[("platform", "platform"), ("token", "token"), ("deviceName", "deviceName")],
    required: &["platform", "token"],
};

pub(crate) fn routes(design: &Design) -> Vec<OwnRoute> {
    vec![
        OwnRoute::new(Method::POST, "/push-tokens", REGISTER, register)
            .needs(DEVICE, Verb::Create)
            .body(SAID.schema(design))
            .answers(201, Some(item("PushToken")))
            .also(200, "It was there already."),
    ]
}

const REGISTER: &str = "Registers a device for push messages: 201, or 200 for one that was there. With more than twenty, the \
                        one that registered last the longest time ago goes.";

/// Registers a device: 201 with it, or 200 if it was there.
async fn register(call: Arc<Call>) -> Result<Answer, Problem> {
    SAID.check(call.design(), &call.body)?;
    let said = |field: &str| call.body.get(field).and_then(Json::as_str).unwrap_or_default();
    let (platform, token) = (said("platform"), said("token"));
    let hash = format!("{:x}", Sha256::digest(token));
    let tenant = call.tenant()?;

    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let known = tenant.get_many(&[(DEVICE, &[platform, &hash])]).await?.into_iter().next().flatten();
        let registered = match &known {
            Some(device) => tenant.update(DEVICE, &[platform, &hash], call.body.clone(), device).await,
            None => add(&tenant, call.body.clone(), &hash).await,
        };
        match registered {
            Err(error) if is_lost_race(&error) => {}
            registered => {
                let mut answer = Answer::record(registered?);
                if known.is_none() {
                    answer.status = StatusCode::CREATED;
                    answer.set(header::LOCATION, &call.location(&format!("/push-tokens/{platform}/{hash}")));
                }
                return Ok(answer);
            }
        }
    }
}

/// Adds a device, in the place of others where there are too many.
async fn add(tenant: &Tenant, mut device: Map<String, Json>, hash: &str) -> Result<Record, Error> {
    device.insert("tokenHash".to_owned(), hash.into());
    let mut others = all(tenant, &List::by("push_tokens")).await?;
    others.sort_by(|one, other| other.text("updatedAt").cmp(&one.text("updatedAt")));
    let set = others.iter().skip(DEVICES - 1).fold(tenant.set().create(DEVICE, device), |set, silent| {
        let id = silent.id();
        let id: Vec<_> = id.iter().map(String::as_str).collect();
        set.delete(DEVICE, &id, silent)
    });
    let added = set.commit().await?.into_iter().next().flatten();
    added.ok_or_else(|| ErrorKind::NotFound { entity: DEVICE.to_owned() }.into())
}
