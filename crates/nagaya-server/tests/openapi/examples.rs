//! Examples fit their schemas, and the server accepts them.

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_tenancy::{ErrorKind, Nagaya, Principal};
use serde_json::Value as Json;

use super::{NOW, fits, of, operations, resolved, systems};

#[test]
fn every_example_fits_its_schema() {
    for system in systems() {
        let document = of(&system);
        for (method, path, operation) in operations(&document) {
            let mut described: Vec<&Json> = contents(&operation["requestBody"]);
            for answer in operation["responses"].as_object().expect("answers").values() {
                described.extend(contents(resolved(&document, answer)));
            }
            let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
            described.extend(parameters.iter().map(|parameter| resolved(&document, parameter)));
            for described in described.into_iter().filter(|described| !described["example"].is_null()) {
                let fitting = fits(&document, &described["schema"], &described["example"]);
                assert_eq!(fitting, Ok(()), "{} {method} {path}", system.name);
            }
        }
    }
}

/// The media types of a body.
fn contents(body: &Json) -> Vec<&Json> {
    body["content"].as_object().map(|content| content.values().collect()).unwrap_or_default()
}

/// The example of each new item can be created, once the items that it refers to exist.
#[tokio::test]
async fn every_example_of_a_new_item_is_accepted() {
    for system in systems() {
        let document = of(&system);
        let nagaya = Nagaya::open(system.design.clone(), EmbeddedStore::in_memory(Options::default()).expect("memory"));
        nagaya.ensure_tables().await.expect("the tables are created");
        let tenant = if system.name == "management" { "tenant_demo" } else { "demo" };
        let principal = Principal::new(tenant, "me");
        let (tenant, operator) =
            (nagaya.tenant(&principal).expect("a tenant"), nagaya.operator("a test of it", &principal));
        for (method, path, operation) in operations(&document).into_iter().filter(|(method, ..)| *method == "post") {
            let entity = operation["tags"][0].as_str().expect("a tag");
            let example = &operation["requestBody"]["content"]["application/json"]["example"];
            let mut fields = example.as_object().expect("an object").clone();
            // The examples have a fixed date, and the store has the current one.
            for value in fields.values_mut().filter(|value| value.as_i64().is_some_and(|value| value > NOW)) {
                *value = 9_999_999_999_i64.into();
            }
            let made = match operation["x-nagaya-reach"].as_str() {
                Some("operator") => operator.create(entity, fields).await,
                _ => tenant.create(entity, fields).await,
            };
            match made {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::NoReference { .. }) => {}
                Err(error) => panic!("{} {method} {path}: {error}", system.name),
            }
        }
    }
}
