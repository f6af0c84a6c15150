//! The probes.

use std::time::Duration;

use axum::{body::Body, http::Method};
use nagaya_server::Limits;

use crate::{clock::Stopped, house::House};

#[tokio::test]
async fn a_server_is_ready_when_its_store_answers() {
    let house = House::open_empty(Limits::default(), |_| ()).await;
    let mut client = house.anonymous().await;
    let clock = Stopped::now();
    assert_eq!(client.get("/healthz").await.text, r#"{"status":"ok"}"#, "it lives without a store");
    let got = client.get("/readyz").await;
    assert_eq!(got.problem(), (503, "not_ready".to_owned()));
    assert!(got.text.contains("`desk`"), "{got:?}");

    house.nagaya.ensure().await.expect("the tables are made");
    clock.pass(Duration::from_secs(2)).await;
    let got = client.get("/readyz").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, r#"{"status":"ready"}"#));
    assert_eq!(got.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn what_is_served_now_is_what_has_to_answer() {
    let house = House::open(Limits::default()).await;
    let mut client = house.anonymous().await;
    let clock = Stopped::now();
    assert_eq!(client.get("/readyz").await.status, 200);
    // The system is replaced by one whose store has no tables.
    let empty = House::open_empty(Limits::default(), |_| ()).await;
    let design = house.nagaya.design().clone();
    house.mounted.serve(nagaya_server::System::plain(design), empty.nagaya.clone());
    clock.pass(Duration::from_secs(2)).await;
    assert_eq!(client.get("/readyz").await.problem(), (503, "not_ready".to_owned()));
}

#[tokio::test]
async fn probes_can_be_asked_for_their_head_alone_and_for_nothing_else() {
    let house = House::open(Limits::default()).await;
    let mut client = house.anonymous().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        let got = client.send(Method::HEAD, path, &[], Body::empty()).await;
        assert_eq!((got.status.as_u16(), got.text.as_str()), (200, ""), "{path}");
        let got = client.send(Method::DELETE, path, &[], Body::empty()).await;
        assert_eq!(got.status, 404, "{path}");
    }
}
