//! The document of a system, as its extension completes it.

use std::collections::BTreeMap;

use nagaya_design::Design;
use serde_json::{Value as Json, json};

use super::{
    names::{EntityNames, Names},
    schema,
};

/// The OpenAPI document of a system before it is published.
#[derive(Debug)]
pub struct Document {
    json: Json,
    /// The names of schemas, by entity.
    entities: BTreeMap<String, EntityNames>,
}

impl Document {
    pub(super) fn new(json: Json, design: &Design, names: Names) -> Self {
        let entities = design.entities.iter().map(|entity| entity.name.clone()).zip(names.entities).collect();
        Document { json, entities }
    }

    pub(super) fn into_json(self) -> Json {
        self.json
    }

    /// The whole document.
    pub fn json(&mut self) -> &mut Json {
        &mut self.json
    }

    /// The operation with this id.
    pub fn operation(&mut self, id: &str) -> Option<&mut Json> {
        self.operations().find(|operation| operation["operationId"] == id)
    }

    /// Removes a field from the bodies that create and change an entity.
    pub fn remove_from_bodies(&mut self, entity: &str, field: &str) {
        if let Some(name) = self.entities.get(entity).map(|names| names.new.clone()) {
            self.remove_field(&name, field);
        }
        self.remove_from_patch(entity, field);
    }

    /// Removes a field from the body that changes an entity.
    pub fn remove_from_patch(&mut self, entity: &str, field: &str) {
        if let Some(name) = self.entities.get(entity).map(|names| names.patch.clone()) {
            self.remove_field(&name, field);
        }
    }

    /// Narrows the values of a field in the bodies of an entity: the schema is added to the one of the design.
    pub fn narrow_field(&mut self, entity: &str, field: &str, values: &Json) {
        let Some(names) = self.entities.get(entity) else { return };
        for name in [&names.new, &names.patch] {
            let schema = &mut self.json["components"]["schemas"][name]["properties"];
            if let (Some(Json::Object(schema)), Json::Object(values)) = (schema.get_mut(field), values) {
                schema.extend(values.clone());
            }
        }
    }

    fn remove_field(&mut self, name: &str, field: &str) {
        if let Some(Json::Object(schema)) = self.json["components"]["schemas"].get_mut(name) {
            schema::remove_field(schema, field);
        }
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        for operation in self.operations() {
            let Some(content) = operation.pointer_mut("/requestBody/content").and_then(Json::as_object_mut) else {
                continue;
            };
            for kind in content.values_mut().filter(|kind| kind["schema"] == reference) {
                if let Some(Json::Object(example)) = kind.get_mut("example") {
                    example.remove(field);
                }
            }
        }
    }

    fn operations(&mut self) -> impl Iterator<Item = &mut Json> {
        let paths = self.json["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
        paths.filter_map(Json::as_object_mut).flat_map(|methods| methods.values_mut())
    }
}
