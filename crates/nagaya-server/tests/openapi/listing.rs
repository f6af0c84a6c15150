//! The operations of the five systems.

use super::{of, operations, systems};

/// Proves the OpenAPI part of N4: what each system offers, to whom, and with which answers.
#[test]
fn operations_of_the_systems() {
    for system in systems() {
        let document = of(&system);
        let mut lines = Vec::new();
        for (method, path, operation) in operations(&document) {
            let statuses: Vec<_> =
                operation["responses"].as_object().expect("answers").keys().map(String::as_str).collect();
            let field = |name: &str| operation[name].as_str().unwrap_or_default();
            let (name, reach) = (field("operationId"), field("x-nagaya-reach"));
            lines.push(format!("{:6} {path}\n       {name}, {reach}: {}", method.to_uppercase(), statuses.join(" ")));
        }
        insta::assert_snapshot!(system.name.as_str(), lines.join("\n"));
    }
}
