//! The attack suite on the whole product: its custom routes, and what it adds to the routes of the design.

use std::sync::Arc;

use nagaya_kondate::{LocalPayments, SubscriptionPlans};
use nagaya_testing::HttpGateway;

use crate::harness::design;

fn gateway() -> HttpGateway {
    HttpGateway::new(|nagaya| {
        let (payments, plans) = (Arc::new(LocalPayments::default()), SubscriptionPlans::for_development());
        nagaya_kondate::system("kondate", nagaya.design().clone(), payments, plans)
    })
}

/// Proves N3 for the routes of the product.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_the_product() {
    gateway().attack(&design()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_without_a_token_crosses_the_walls_of_the_product() {
    gateway().without_token().attack(&design()).await;
}
