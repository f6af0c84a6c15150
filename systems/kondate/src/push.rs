//! Devices for push messages. A device is identified by the hash of its token; the token is never returned.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{Error, ErrorKind, List, Record, Tenant};
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::product::{MAX_CHANGES, find, item_schema, retry_lost_races, unless_lost_race};

const DEVICE: &str = "push_token";
/// The most devices of a user. Apps get new tokens without deleting the old ones, so a further device replaces the one that
/// registered longest ago.
const MAX_DEVICES: usize = 20;

request_body! {
    /// The body that registers a device.
    struct Registration of DEVICE {
        platform: String = "platform",
        token: String = "token",
        device_name: Option<String> = "deviceName",
    }
}

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    vec![
        CustomRoute::new(Method::POST, "/push-tokens", REGISTER_SUMMARY, register)
            .requires_permission(DEVICE, Verb::Create)
            .body(Registration::schema(design))
            .answers(201, Some(item_schema("PushToken")))
            .also_answers(200, "It was registered already."),
    ]
}

const REGISTER_SUMMARY: &str = "Registers a device for push messages: 201, or 200 if it was registered already. With more than twenty \
                        devices, the one that registered longest ago is removed.";

/// Registers a device: 201, or 200 if it was registered already.
async fn register(call: Arc<Call>) -> Result<Answer, Problem> {
    let registration: Registration = call.parse_body()?;
    let (platform, token) = (registration.platform.as_str(), registration.token.as_str());
    let hash = format!("{:x}", Sha256::digest(token));
    let tenant = call.tenant()?;

    let registered = retry_lost_races(|| async {
        let known = find(&tenant, DEVICE, &[platform, &hash]).await?;
        let registered = match &known {
            Some(device) => tenant.update(DEVICE, &[platform, &hash], call.body.clone(), device).await,
            None => add(&tenant, call.body.clone(), &hash).await,
        };
        Ok(unless_lost_race(registered)?.map(|device| match known {
            Some(_) => Answer::record(device),
            None => Answer::created(device, &call.location(&format!("/push-tokens/{platform}/{hash}"))),
        }))
    });
    registered.await
}

/// Adds a device, and deletes the oldest ones beyond the limit.
async fn add(tenant: &Tenant, mut device: Map<String, Json>, hash: &str) -> Result<Record, Error> {
    device.insert("tokenHash".to_owned(), hash.into());
    // A user who has more, of before there was a limit, loses some with each registration until there are no more than allowed.
    let mut others = tenant.list(&List::by("push_tokens").limit(MAX_CHANGES)).await?.records;
    others.sort_by(|one, other| other.text("updatedAt").cmp(&one.text("updatedAt")));
    let set = others.iter().skip(MAX_DEVICES - 1).fold(tenant.change_set().create(DEVICE, device), |set, oldest| {
        let id = oldest.id();
        let id: Vec<_> = id.iter().map(String::as_str).collect();
        set.delete(DEVICE, &id, oldest)
    });
    let added = set.commit().await?.into_iter().next().flatten();
    added.ok_or_else(|| ErrorKind::NotFound { entity: DEVICE.to_owned() }.into())
}
