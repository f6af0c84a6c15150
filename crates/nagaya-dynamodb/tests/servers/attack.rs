//! The attack suite of the walls, on DynamoDB Local.

use std::path::Path;

use nagaya_attack::{self as attack, Engine, Options};
use nagaya_design::{Design, check};
use nagaya_dynamodb::Dynamodb;
use nagaya_store::{Clock, StoreFuture};
use nagaya_tenancy::{List, Nagaya, Principal};
use serde_json::json;

use crate::test_server::{Server, seed};

/// Each attack is several calls in both environments, so a run makes only a sample of them.
fn options() -> Options {
    Options { seed: seed(), steps: 40, one_in: 12 }
}

struct OnServer;

impl Engine for OnServer {
    type Store = Dynamodb;

    fn open(&self, clock: Clock) -> StoreFuture<'_, Dynamodb> {
        Box::pin(async { Ok(Server::DynamodbLocal.open(clock).await) })
    }
}

/// A design of the repository's systems: `aiagent/single`.
fn design(name: &str) -> Design {
    let (system, file) = name.split_once('/').expect("system/design");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../systems/{system}/design/{file}.toml"));
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design has no errors")
}

/// Proves the DynamoDB part of N3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_crosses_the_walls_of_aiagent() {
    attack::run_with(&design("aiagent/single"), &OnServer, options()).await.assert();
}

/// Proves the DynamoDB part of N3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_crosses_the_walls_of_kondate() {
    attack::run_with(&design("kondate/kondate"), &OnServer, options()).await.assert();
}

/// The tenant's handle on the server of the compose file.
///
/// Proves A16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_works_on_dynamodb_local_as_on_the_embedded_store() -> Result<(), Box<dyn std::error::Error>> {
    let compose = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../compose.yaml"))?;
    assert!(compose.contains("amazon/dynamodb-local:3.3.0"), "the version that tests run on");

    let server = Server::DynamodbLocal.open(Clock::system()).await;
    let memory = nagaya_embedded::EmbeddedStore::in_memory(nagaya_embedded::Options::default())?;
    let mut answers = Vec::new();
    for nagaya in [Nagaya::open(design("aiagent/single"), server), Nagaya::open(design("aiagent/single"), memory)] {
        nagaya.ensure_tables().await?;
        let t1 = nagaya.tenant(&Principal::new("t1", "u1"))?;
        let t2 = nagaya.tenant(&Principal::new("t2", "u1"))?;
        let fields = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
        let user = json!({ "userId": "u1", "email": "a@example.com", "name": "A" });
        let mut seen = Vec::new();
        let made = t1.create("user", fields(user.clone())).await?;
        seen.push(format!("{:?} {:?}", made.version(), made.text("role")));
        let mut codes = vec![
            t1.create("user", fields(user)).await.map(drop),
            t2.get("user", &["u1"]).await.map(drop),
            t1.update("user", &["u1"], fields(json!({ "role": "admin" })), Some(1)).await.map(drop),
            t1.update("user", &["u1"], fields(json!({ "role": "viewer" })), Some(1)).await.map(drop),
            t1.list(&List::by("all_users")).await.map(drop),
        ];
        let page = t1.list(&List::by("users")).await?;
        seen.extend(page.records.iter().map(|record| format!("{:?} {:?}", record.id(), record.text("role"))));
        codes.push(t1.delete("user", &["u1"], Some(2)).await);
        codes.push(t1.get("user", &["u1"]).await.map(drop));
        seen.extend(codes.into_iter().map(|answer| answer.err().map_or("fine", |error| error.code()).to_owned()));
        answers.push(seen);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0][2..], ["taken", "not_found", "fine", "version_conflict", "walled", "fine", "not_found"]);
    Ok(())
}
