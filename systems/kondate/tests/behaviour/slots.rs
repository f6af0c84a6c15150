//! The slots of the two plans in either case.

use nagaya_testing::{TestServer, text};
use serde_json::json;

use crate::{harness::kondate_server, plans::set};

/// Proves that the slots of K8 are accepted in lower case too.
#[test]
fn slots_have_no_case() {
    slots_are_accepted_in_either_case(&kondate_server());
}

pub(crate) fn slots_are_accepted_in_either_case(server: &TestServer) {
    let mio = server.client_of_user("u_slot", "u_slot");
    let weekdays = set(&mio, "平日", &[("r_01", "生姜焼き")]);
    let made = mio.post("/v1/plans", &json!({ "slot": "current", "items": [] })).expect_data(201);
    assert_eq!(text(&made, "slot"), "CURRENT");
    mio.post("/v1/plans", &json!({ "slot": "Current", "items": [] })).expect_problem(409, "taken");
    for slot in ["current", "Current", "CURRENT"] {
        assert_eq!(mio.get(&format!("/v1/plans/{slot}")).expect_data(200), made, "{slot}");
    }
    let applied = mio.post("/v1/plans/next/apply", &json!({ "setId": weekdays })).expect_data(200);
    assert_eq!(text(&applied, "slot"), "NEXT");
    let items = json!({ "items": [{ "title": "外食" }] });
    assert_eq!(mio.patch("/v1/plans/next", &items).expect_data(200)["slot"], "NEXT");
    mio.put("/v1/plans/next/items/0/cooked").expect_data(200);
    mio.post("/v1/shopping-items/from-plan", &json!({ "slot": "next" })).expect_data(201);
    assert_eq!(mio.get("/v1/plans").list().len(), 2);
    assert_eq!(mio.delete("/v1/plans/next").status, 204);
    mio.get("/v1/plans/NEXT").expect_problem(404, "not_found");
    for none in ["later", "curr", "CURRENT%20"] {
        mio.get(&format!("/v1/plans/{none}")).expect_problem(404, "not_found");
    }
}
