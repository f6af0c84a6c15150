//! The tables of a design as a store should have them.

use nagaya_design::{Design, KeyAttributes};
use nagaya_store::{KeySchema, TableSpec};

/// The tables of a design for a base name, in the order of the design.
pub fn table_specs(design: &Design, base: &str) -> Vec<TableSpec> {
    let schema = |key: &KeyAttributes| KeySchema::strings(&key.partition, &key.sort);
    let spec = |table: &nagaya_design::Table| {
        let spec = TableSpec::new(table.physical_name(base), schema(&table.key));
        let spec = table.indexes.iter().fold(spec, |spec, index| spec.with_index(&index.name, schema(&index.key)));
        TableSpec { ttl: table.ttl.clone(), ..spec }
    };
    design.tables.iter().map(spec).collect()
}
