//! The attack suite on the whole product: its commands, and what it adds to the routes of the design.

use nagaya_testing::HttpGateway;

use crate::harness::{design, system};

/// Proves N3 for the routes of the product.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_the_product() {
    HttpGateway::new(|_| system()).attack(&design()).await;
}
