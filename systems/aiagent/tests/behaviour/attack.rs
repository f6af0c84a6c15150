//! The attack suite on the whole product: its policies, its custom routes and what it adds to the routes of the design.

use nagaya_testing::HttpGateway;

use crate::harness::design;

async fn attack(name: &'static str) {
    let gateway = HttpGateway::new(move |nagaya| {
        nagaya_aiagent::system_with("aiagent", nagaya.design().clone(), nagaya.clock(), nagaya.ids())
    });
    gateway.attack(&design(name)).await;
}

/// Proves N3 for the routes of the product.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_the_product_in_one_table() {
    attack("single").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_the_product_in_twelve_tables() {
    attack("multi").await;
}
