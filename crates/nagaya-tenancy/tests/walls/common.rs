//! Designs on a store in memory.

use std::path::Path;

use nagaya_design::Design;
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_tenancy::{Nagaya, Principal, Tenant};
use nagaya_testing::parse_design;
pub(crate) use nagaya_testing::system_design as design;
use serde_json::{Map, Value};

/// A design of this crate's tests on a store in memory.
pub(crate) async fn open_file(path: &str) -> Nagaya {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    open(parse_design(&std::fs::read_to_string(path).expect("the design is there"))).await
}

/// A design on a store in memory.
pub(crate) async fn open(design: Design) -> Nagaya {
    let nagaya = Nagaya::open(design, EmbeddedStore::in_memory(Options::default()).expect("memory"));
    nagaya.ensure_tables().await.expect("the tables are made");
    nagaya
}

pub(crate) fn tenant(nagaya: &Nagaya, name: &str) -> Tenant {
    nagaya.tenant(&Principal::new(name, "u-1")).expect("a tenant")
}

/// The fields of a JSON object.
pub(crate) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}
