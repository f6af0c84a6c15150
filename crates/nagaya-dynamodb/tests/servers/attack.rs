//! The attack suite of the walls, on the server that is most like the service.

use std::path::Path;

use nagaya_design::{Design, check};
use nagaya_dynamodb::Dynamodb;
use nagaya_store::{Answer, Clock};
use nagaya_tenancy::attack::{self, Engine, Options};

use crate::place::{Server, seed};

/// Each attack is several calls in both worlds, so that a run makes some of them, and another run others.
fn options() -> Options {
    Options { seed: seed(), steps: 40, one_in: 12 }
}

struct OnServer;

impl Engine for OnServer {
    type Store = Dynamodb;

    fn open(&self, clock: Clock) -> Answer<'_, Dynamodb> {
        Box::pin(async { Ok(Server::DynamodbLocal.open(clock).await) })
    }
}

/// A design of the repository's systems: `aiagent/single`.
fn design(name: &str) -> Design {
    let (system, file) = name.split_once('/').expect("system/design");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../systems/{system}/design/{file}.toml"));
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
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
