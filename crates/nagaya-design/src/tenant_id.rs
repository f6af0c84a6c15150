//! What can be the id of a tenant.

use serde_json::{Value, json};

use crate::{design::Design, field::Field};

/// Segments that clients and proxies resolve, so no path can contain them.
const DOT_SEGMENTS: [&str; 2] = [".", ".."];

/// The keywords of a field's schema that say nothing about its values.
const ANNOTATIONS: [&str; 4] = ["default", "description", "readOnly", "writeOnly"];

impl Design {
    /// Whether a text can be the id of a tenant: the tenant's field of some entity accepts it, it is not the tenant of the
    /// system itself, and a path can contain it.
    pub fn accepts_tenant_id(&self, id: &str) -> bool {
        !id.is_empty() && !self.reserved_tenant_ids().any(|reserved| reserved == id) && self.has_tenant_id_syntax(id)
    }

    /// The JSON Schema (2020-12) of the ids that [`Design::accepts_tenant_id`] accepts.
    pub fn tenant_id_schema(&self) -> Value {
        let mut schemas: Vec<Value> = Vec::new();
        for field in self.tenant_fields() {
            let mut schema = field.json_schema();
            if let Some(schema) = schema.as_object_mut() {
                schema.retain(|keyword, _| !ANNOTATIONS.contains(&keyword.as_str()));
            }
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        let mut schema = match schemas.as_mut_slice() {
            [] => json!({}),
            [only] => only.take(),
            several => json!({ "anyOf": several }),
        };
        schema["type"] = "string".into();
        if schema["minLength"].is_null() {
            schema["minLength"] = 1.into();
        }
        let reserved: Vec<_> = self.reserved_tenant_ids().filter(|id| self.has_tenant_id_syntax(id)).collect();
        if !reserved.is_empty() {
            schema["not"] = json!({ "enum": reserved });
        }
        schema
    }

    fn has_tenant_id_syntax(&self, id: &str) -> bool {
        let id = Value::from(id);
        let mut fields = self.tenant_fields().peekable();
        fields.peek().is_none() || fields.any(|field| field.accepts(&id))
    }

    /// The fields whose values are ids of tenants, one of each entity that is kept apart by them.
    fn tenant_fields(&self) -> impl Iterator<Item = &Field> {
        self.entities.iter().filter_map(|entity| entity.field(entity.implied_tenant(entity.wall)?))
    }

    fn reserved_tenant_ids(&self) -> impl Iterator<Item = &str> {
        DOT_SEGMENTS.into_iter().chain(self.tenant.system.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    /// A design with an entity for each declaration of the tenant's field.
    fn design(system: &str, fields: &[&str]) -> Design {
        let entities = fields.iter().enumerate().map(|(nth, field)| {
            format!(
                r#"
                [entity.thing{nth}]
                table = "app"
                key   = {{ PK = "TENANT#{{tenantId}}", SK = "THING{nth}#{{thingId}}" }}

                [entity.thing{nth}.fields]
                tenantId = {field}
                thingId  = {{ type = "ulid", default = "new" }}
                "#
            )
        });
        let source = format!(
            r#"
            name    = "tenants"
            version = "1.0"

            [tenant]
            field = "tenantId"
            {system}

            [table.app]
            key = ["PK", "SK"]
            {}
            "#,
            entities.collect::<String>()
        );
        let checked = check(&source, &[]);
        checked.design.unwrap_or_else(|| panic!("a design: {:?}", checked.diagnostics))
    }

    #[test]
    fn an_id_of_a_tenant_is_what_the_field_of_the_tenant_accepts() {
        let design =
            design(r#"system = "system""#, &[r#"{ type = "string", max = 4 }"#, r#"{ type = "string", max = 8 }"#]);
        for (id, accepted) in
            [("t", true), ("12345678", true), ("123456789", false), ("", false), ("..", false), ("system", false)]
        {
            assert_eq!(design.accepts_tenant_id(id), accepted, "{id}");
        }
    }

    #[test]
    fn the_schema_of_tenant_ids_says_what_is_accepted() {
        let long = r#"{ type = "string", max = 8, description = "Whose it is." }"#;
        assert_eq!(
            design(r#"system = "system""#, &[long, long]).tenant_id_schema(),
            json!({ "type": "string", "minLength": 1, "maxLength": 8, "not": { "enum": [".", "..", "system"] } }),
        );
        // What the pattern excludes need not be excluded once more.
        let coded = r#"{ type = "string", pattern = "[a-z]{2,4}", max = 4 }"#;
        assert_eq!(
            design(r#"system = "system""#, &[coded]).tenant_id_schema(),
            json!({ "type": "string", "minLength": 1, "maxLength": 4, "pattern": "^(?:[a-z]{2,4})$" }),
        );
        assert_eq!(
            design("", &[long, coded]).tenant_id_schema(),
            json!({
                "type": "string",
                "minLength": 1,
                "anyOf": [
                    { "type": "string", "maxLength": 8 },
                    { "type": "string", "maxLength": 4, "pattern": "^(?:[a-z]{2,4})$" },
                ],
                "not": { "enum": [".", ".."] },
            }),
        );
    }
}
