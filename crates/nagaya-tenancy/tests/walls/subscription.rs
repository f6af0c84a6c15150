//! Subscriptions resume where they stopped, and report lost changes.

use std::{cell::Cell, time::Duration};

use nagaya_tenancy::{Delivery, Nagaya, Principal, Subscription, SubscriptionOptions};
use serde_json::json;

use crate::common::{design, fields, open, tenant};

fn subscription(nagaya: &Nagaya, is_stored: bool) -> Subscription {
    let operator = nagaya.operator("a test of it", &Principal::new("", "tester"));
    let subscription = operator.subscribe("test", &["agent"], SubscriptionOptions::default());
    if is_stored { subscription.with_checkpoint(operator, "agent", "position-test".to_owned()) } else { subscription }
}

async fn create(nagaya: &Nagaya, name: &str) {
    tenant(nagaya, "t1").create("agent", fields(json!({ "name": name }))).await.expect("an agent");
}

/// The names of the agents that a page has.
fn names(page: &Delivery) -> Vec<String> {
    let name = |change: &nagaya_tenancy::ItemChange| change.new.as_ref()?.text("name").map(str::to_owned);
    page.changes.iter().filter_map(name).collect()
}

async fn next(subscription: &Subscription) -> (Vec<String>, bool) {
    let page = subscription.next_page().await.expect("a page");
    let next = (names(&page), page.gap);
    subscription.acknowledge(page, !next.0.is_empty()).await.expect("acknowledged");
    next
}

#[tokio::test]
async fn a_stored_position_is_resumed_by_another_subscription() {
    let nagaya = open(design("aiagent/single")).await;
    create(&nagaya, "before").await;
    let first = subscription(&nagaya, true);
    assert_eq!(next(&first).await, (vec![], true), "without a position all items have to be read");
    create(&nagaya, "a").await;
    // A page that is not acknowledged is delivered again.
    assert_eq!(names(&first.next_page().await.expect("a page")), ["a"]);
    assert_eq!(next(&first).await, (vec!["a".to_owned()], false));
    create(&nagaya, "b").await;
    assert_eq!(next(&subscription(&nagaya, true)).await, (vec!["b".to_owned()], false));
}

#[tokio::test]
async fn a_subscription_without_a_checkpoint_starts_now() {
    let nagaya = open(design("aiagent/single")).await;
    create(&nagaya, "before").await;
    let feed = subscription(&nagaya, false);
    assert_eq!(next(&feed).await, (vec![], false));
    create(&nagaya, "a").await;
    assert_eq!(next(&feed).await, (vec!["a".to_owned()], false));
    assert_eq!(next(&feed).await, (vec![], false));
}

#[tokio::test]
async fn a_failed_step_is_repeated_and_a_stop_ends_the_run() {
    let nagaya = open(design("aiagent/single")).await;
    let (subscription, steps) = (subscription(&nagaya, false), Cell::new(0));
    let step = || async {
        steps.set(steps.get() + 1);
        if steps.get() < 4 { Err("no") } else { Ok(0) }
    };
    subscription.run(tokio::time::sleep(Duration::from_millis(700)), step).await;
    assert!(steps.get() > 4, "{} steps", steps.get());
    assert_eq!(subscription.failures(), 0);
    assert!(subscription.status().lag(nagaya.clock().millis()).is_some(), "it has caught up");
    let failed: Result<(), &str> = subscription.catch_up(3, || async { Err("no") }).await;
    assert_eq!((failed, subscription.failures()), (Err("no"), 4));
}
