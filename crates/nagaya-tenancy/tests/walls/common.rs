//! Designs on a store in memory.

use std::path::Path;

use nagaya_design::{Design, check};
use nagaya_embedded::{Embedded, Options};
use nagaya_tenancy::{Nagaya, Principal, Tenant};
use serde_json::{Map, Value};

/// A design of the repository's systems: `aiagent/single`.
pub(crate) fn design(name: &str) -> Design {
    let (system, file) = name.split_once('/').expect("system/design");
    design_at(&format!("../../systems/{system}/design/{file}.toml"))
}

fn design_at(path: &str) -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

/// A design of this crate's tests on a store in memory.
pub(crate) async fn open_file(path: &str) -> Nagaya {
    open(design_at(path)).await
}

/// A design on a store in memory.
pub(crate) async fn open(design: Design) -> Nagaya {
    let nagaya = Nagaya::open(design, Embedded::memory(Options::default()).expect("memory"));
    nagaya.ensure().await.expect("the tables are made");
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
