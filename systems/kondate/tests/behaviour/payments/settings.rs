//! The plans that can be subscribed to are settings: callers choose one by its name, and nothing else of it.

use std::sync::Arc;

use nagaya_kondate::{PaymentProvider, SubscriptionPlans};
use nagaya_server::{Claims, document};
use nagaya_testing::{ManualClock, TestServer, memory_store, text};
use serde_json::{Value as Json, json};

use super::{
    add_method,
    fake_provider::{FakeProvider, InjectedFailure},
};
use crate::harness::{design, kondate_server, system_with_plans};

fn plans(plans: &Json) -> SubscriptionPlans {
    SubscriptionPlans::from_json(&plans.to_string()).expect("plans")
}

fn monthly(price: u64) -> Json {
    json!([{ "name": "monthly", "price": price, "periodDays": 30 }, { "name": "yearly", "price": 9_000, "periodDays": 365 }])
}

/// A server with these plans, and its provider; after `before`, on the same data.
fn server_with(offered: &Json, before: Option<(TestServer, Arc<FakeProvider>)>) -> (TestServer, Arc<FakeProvider>) {
    let (store, clock, provider) = match before {
        Some((server, provider)) => (Arc::clone(&server.store), server.clock.clone(), provider),
        None => {
            let clock = ManualClock::default();
            (memory_store(&clock), clock, Arc::new(FakeProvider::default()))
        }
    };
    let payments: Arc<dyn PaymentProvider> = Arc::<FakeProvider>::clone(&provider);
    let system = system_with_plans(design(), payments, plans(offered));
    (TestServer::builder(system).store(store, &clock).start(), provider)
}

/// Proves the part of K13 that plans come from settings.
#[test]
fn a_caller_chooses_one_of_the_offered_plans() {
    let (server, provider) = server_with(&monthly(480), None);
    let offered = json!([
        { "name": "monthly", "price": 480, "currency": "JPY", "periodDays": 30, "trial": false },
        { "name": "yearly", "price": 9_000, "currency": "JPY", "periodDays": 365, "trial": false },
    ]);
    let mio = server.client_of_user("u_01", "u_01");
    for client in [&mio, &server.anonymous_client()] {
        assert_eq!(client.get("/v1/subscription/plans").expect_data(200), offered);
    }

    add_method(&mio, "tok_visa");
    for other in ["premium", "free", "monthly ", "MONTHLY"] {
        let answer = mio.post("/v1/subscription", &json!({ "plan": other }));
        assert_eq!(answer.expect_problem(422, "invalid"), ["/plan"]);
        let detail = text(&answer.body["errors"][0], "detail");
        assert!(detail.contains("monthly, yearly"), "{detail}");
    }
    // Nothing of a plan can be given.
    for (field, value) in
        [("price", json!(1)), ("amount", json!(1)), ("periodDays", json!(9_999)), ("trial", json!(true))]
    {
        let mut body = json!({ "plan": "monthly" });
        body[field] = value;
        assert_eq!(mio.post("/v1/subscription", &body).expect_problem(422, "invalid"), [format!("/{field}")]);
    }
    assert!(provider.state().subscribed_plans.is_empty());
    mio.get("/v1/subscription").expect_problem(404, "not_found");

    // The price is that of the settings.
    let started = mio.post("/v1/subscription", &json!({ "plan": "yearly" })).expect_data(201);
    assert_eq!(
        (&started["plan"], &started["price"], &started["currency"]),
        (&json!("yearly"), &json!(9_000), &json!("JPY"))
    );
    let subscribed = provider.state().subscribed_plans.clone();
    let subscribed: Vec<_> = subscribed.iter().map(|plan| (plan.name.as_str(), plan.price, plan.period_days)).collect();
    assert_eq!(subscribed, [("yearly", 9_000, 365)]);
}

/// Proves the part of K13 that nobody pays a price that changed after the request.
#[test]
fn a_pending_start_keeps_its_price() {
    let (server, provider) = server_with(&monthly(480), None);
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_visa");
    provider.inject("subscribe", InjectedFailure::RequestLost);
    let body = json!({ "plan": "monthly" });
    mio.post("/v1/subscription", &body).expect_problem(503, "payments_unavailable");

    let (server, provider) = server_with(&monthly(980), Some((server, provider)));
    let mio = server.client_of_user("u_01", "u_01");
    mio.post("/v1/subscription", &body).expect_problem(409, "subscribed");
    assert_eq!(mio.get("/v1/subscription").expect_data(200)["price"], 480);
    assert_eq!(provider.state().subscribed_plans[0].price, 480);
}

#[test]
fn without_plans_nothing_can_be_subscribed_to() {
    let (server, provider) = server_with(&json!([]), None);
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_visa");
    assert_eq!(mio.get("/v1/subscription/plans").expect_data(200), json!([]));
    let answer = mio.post("/v1/subscription", &json!({ "plan": "premium" }));
    assert_eq!(answer.expect_problem(422, "invalid"), ["/plan"]);
    assert!(provider.state().subscribed_plans.is_empty());
}

#[test]
fn the_openapi_document_names_the_offered_plans() {
    let payments: Arc<dyn PaymentProvider> = Arc::new(FakeProvider::default());
    let document = document(&system_with_plans(design(), payments, plans(&monthly(480))), "", 0);
    let body = &document["paths"]["/v1/subscription"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["properties"]["plan"]["enum"], json!(["monthly", "yearly"]));
}

/// A list of no values would be no valid schema.
#[test]
fn without_plans_the_openapi_document_names_none() {
    let payments: Arc<dyn PaymentProvider> = Arc::new(FakeProvider::default());
    let document = document(&system_with_plans(design(), payments, plans(&json!([]))), "", 0);
    let body = &document["paths"]["/v1/subscription"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!((&body["properties"]["plan"]["type"], body["properties"]["plan"].get("enum")), (&json!("string"), None));
}

/// Proves that operators of this system have a claim of their own: a `sub` alone would make them users.
#[test]
fn an_operator_is_no_user() {
    let server = kondate_server();
    let operator = server.client_of_operator("u_op");
    operator.get("/v1/recipes").expect_problem(403, "forbidden");
    assert!(server.client_of_user("u_op", "u_op").get("/v1/recipes").list().is_empty());
    // Operator roles in the token of a user count for nothing.
    let claims = Claims { operator_roles: Vec::new(), ..Claims::from_design(&design()) };
    let token = server.token_with(&claims, Some("u_op"), "u_op", &["operator"]);
    assert!(server.anonymous_client().with_token(&token).get("/v1/recipes").list().is_empty());
}
