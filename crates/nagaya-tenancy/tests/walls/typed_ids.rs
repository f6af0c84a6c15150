//! Ids and parameters of lists that are numbers, truth values and texts.

use nagaya_tenancy::{List, Tenant};
use serde_json::{Value as Json, json};

use crate::common::{fields, open, tenant};

const DESIGN: &str = r##"
name    = "hotel"
version = "1.0"

[tenant]
field = "hotelId"

[table.app]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]

[entity.room]
table      = "app"
key        = { PK = "HOTEL#{hotelId}", SK = "ROOM#{number:04}#{smoking}" }
index.GSI1 = { GSI1PK = "HOTEL#{hotelId}#FLOOR#{floor}#{smoking}", GSI1SK = "{number:04}" }

[entity.room.fields]
hotelId = { type = "string", min = 1, max = 64 }
number  = { type = "integer", min = 1, max = 9999 }
smoking = { type = "boolean" }
floor   = { type = "integer", min = 10, max = 99 }
rate    = { type = "number", min = 0, max = 1000 }

[entity.guest]
table = "app"
key   = { PK = "HOTEL#{hotelId}", SK = "GUEST#{name}" }

[entity.guest.fields]
hotelId = { type = "string", min = 1, max = 64 }
name    = { type = "string", max = 20 }

[access.rooms_of_floor]
entity = "room"
index  = "GSI1"
by     = ["floor", "smoking"]

[access.cheap_rooms]
entity = "room"
filter = "rate < {most}"

[access.rooms_at]
entity = "room"
filter = "rate = {rate}"
"##;

async fn hotel() -> Tenant {
    let nagaya = open(nagaya_testing::parse_design(DESIGN)).await;
    let hotel = tenant(&nagaya, "ryokan");
    for (number, smoking, floor, rate) in [(7, true, 10, 80.5), (8, false, 10, 90.0), (11, true, 11, 70.0)] {
        let room = json!({ "number": number, "smoking": smoking, "floor": floor, "rate": rate });
        hotel.create("room", fields(room)).await.expect("a room");
    }
    hotel
}

async fn numbers(hotel: &Tenant, list: List) -> Vec<Json> {
    let page = hotel.list(&list).await.expect("a page");
    page.records.iter().filter_map(|room| room.json("number")).collect()
}

#[tokio::test]
async fn an_item_is_found_by_an_id_of_numbers_and_truth_values() {
    let hotel = hotel().await;
    let room = hotel.get("room", &["7", "true"]).await.expect("a room");
    assert_eq!(room.id(), ["7", "true"]);
    for id in [["7", "false"], ["7", "yes"], ["8", "true"], ["seven", "true"], ["", "true"], ["7", ""]] {
        assert_eq!(hotel.get("room", &id).await.expect_err("no room").code(), "not_found", "{id:?}");
    }
    for id in [&["7"][..], &["7", "true", "7"], &[]] {
        assert_eq!(hotel.get("room", id).await.expect_err("no room").code(), "not_found", "{id:?}");
    }
}

/// A client resolves dots in a path, so an item with such an id would have no address.
#[tokio::test]
async fn no_item_has_an_id_that_is_empty_or_made_of_dots() {
    let hotel = hotel().await;
    for name in ["", ".", ".."] {
        let refused = hotel.create("guest", fields(json!({ "name": name }))).await.expect_err("no id");
        assert_eq!(refused.code(), "invalid", "{name:?}");
        assert_eq!(hotel.get("guest", &[name]).await.expect_err("no guest").code(), "not_found", "{name:?}");
        let refused = hotel.delete("guest", &[name], None).await.expect_err("no guest");
        assert_eq!(refused.code(), "not_found", "{name:?}");
    }
    hotel.create("guest", fields(json!({ "name": "..." }))).await.expect("a guest");
    hotel.get("guest", &["..."]).await.expect("the guest");
}

#[tokio::test]
async fn parameters_of_lists_have_the_types_of_their_fields() {
    let hotel = hotel().await;
    let floor = |floor: &str, smoking: &str| List::by("rooms_of_floor").with("floor", floor).with("smoking", smoking);
    assert_eq!(numbers(&hotel, floor("10", "true")).await, [7]);
    assert_eq!(numbers(&hotel, floor("10", "false")).await, [8]);
    assert_eq!(numbers(&hotel, List::by("cheap_rooms").with("most", "80.6")).await, [7, 11]);
    assert_eq!(numbers(&hotel, List::by("rooms_at").with("rate", "90")).await, [8]);
    for (floor_given, smoking, path) in [("9", "true", "floor"), ("ten", "true", "floor"), ("10", "perhaps", "smoking")]
    {
        let refused = hotel.list(&floor(floor_given, smoking)).await.expect_err("no such value");
        assert_eq!(refused.code(), "invalid");
        assert!(refused.to_string().contains(path), "{refused}");
    }
    let refused = hotel.list(&List::by("rooms_at").with("rate", "1001")).await.expect_err("too much");
    assert_eq!(refused.code(), "invalid");
}
