//! Request bodies of custom routes as structs, whose fields take the values of entity fields.

use nagaya_design::{Design, Field, FieldError};
use nagaya_tenancy::read_fields;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json, json};

use crate::{Call, Problem};

/// A request body: a struct that [`request_body!`](crate::request_body) declares. The design checks the values of its
/// fields and gives their JSON Schemas.
pub trait RequestBody: DeserializeOwned + Serialize {
    /// The entity whose fields give the types of the values.
    const ENTITY: &'static str;
    /// The fields.
    const FIELDS: &'static [BodyField];

    /// The fields that were given.
    fn fields(&self) -> Map<String, Json> {
        match serde_json::to_value(self) {
            Ok(Json::Object(fields)) => fields,
            _ => Map::new(),
        }
    }

    /// The JSON Schema of the body.
    fn schema(design: &Design) -> Json {
        schema(design, Self::ENTITY, Self::FIELDS)
    }
}

/// A field of a request body.
#[derive(Debug, Clone, Copy)]
pub struct BodyField {
    /// Its name in the body.
    pub name: &'static str,
    /// The field of the entity that gives the type of its value, unless the value is the id of a tenant.
    pub entity_field: &'static str,
    /// Whether it cannot be left out.
    pub required: bool,
    /// The most elements of a field that is a list of such values.
    pub max_items: Option<usize>,
}

impl Call {
    /// The body as a struct. Refuses a body that lacks fields, has unknown ones, or has values that the design does not
    /// allow; the problem lists all of them.
    pub fn parse_body<B: RequestBody>(&self) -> Result<B, Problem> {
        self.parse_fields(&self.body)
    }

    /// The same for a body that the handler has changed, such as to bring a value into the form of the design.
    pub fn parse_fields<B: RequestBody>(&self, body: &Map<String, Json>) -> Result<B, Problem> {
        self.check_fields(body, B::ENTITY, B::FIELDS)?;
        // The design has checked the values, so this fails only if the struct does not fit the design.
        read_fields(body).map_err(|error| Problem::internal().with_cause(error.to_string()))
    }

    /// Checks the fields of a body. Where `null` is allowed, it means the same as a field that is left out.
    fn check_fields(
        &self,
        given: &Map<String, Json>,
        entity: &str,
        fields: &'static [BodyField],
    ) -> Result<(), Problem> {
        let error = |path: &str, message: &str| FieldError { path: path.to_owned(), message: message.to_owned() };
        let is_unknown = |name: &&String| !fields.iter().any(|field| field.name == name.as_str());
        let mut errors: Vec<_> = given.keys().filter(is_unknown).map(|name| error(name, "is not a field")).collect();
        for (body, values) in values_of_fields(self.design(), entity, fields) {
            match (given.get(body.name), body.max_items) {
                (Some(value), None) => values.check(value, body.name, &mut errors),
                (Some(Json::Array(list)), Some(max)) => check_list(body.name, list, max, &values, &mut errors),
                (Some(_), Some(_)) => errors.push(error(body.name, "is not a list")),
                (None, _) if body.required => errors.push(error(body.name, "is missing")),
                (None, _) => {}
            }
        }
        Problem::check_fields(errors)
    }
}

fn check_list(name: &str, list: &[Json], max: usize, values: &Values<'_>, errors: &mut Vec<FieldError>) {
    if !(1..=max).contains(&list.len()) {
        let message = format!("has {} elements, allowed are 1 to {max}", list.len());
        errors.push(FieldError { path: name.to_owned(), message });
    }
    for (at, value) in list.iter().take(max).enumerate() {
        values.check(value, &format!("{name}[{at}]"), errors);
    }
}

/// The JSON Schema of a body with these fields.
fn schema(design: &Design, entity: &str, fields: &'static [BodyField]) -> Json {
    let mut properties = Map::new();
    for (body, values) in values_of_fields(design, entity, fields) {
        let mut schema = values.schema();
        if let Some(max) = body.max_items {
            schema = json!({ "type": "array", "minItems": 1, "maxItems": max, "items": schema });
        }
        properties.insert(body.name.to_owned(), schema);
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The values that a field of a body takes.
enum Values<'d> {
    OfField {
        field: &'d Field,
        required: bool,
    },
    /// Ids of tenants, and `null` where the field can be left out.
    TenantIds {
        design: &'d Design,
        required: bool,
    },
}

impl Values<'_> {
    fn check(&self, value: &Json, path: &str, errors: &mut Vec<FieldError>) {
        match self {
            Values::OfField { required: true, .. } if value.is_null() => {
                errors.push(FieldError { path: path.to_owned(), message: "is null".to_owned() });
            }
            Values::OfField { field, .. } => field.check(value, path, errors),
            Values::TenantIds { required: false, .. } if value.is_null() => {}
            Values::TenantIds { design, .. } => {
                if !value.as_str().is_some_and(|id| design.accepts_tenant_id(id)) {
                    errors.push(FieldError { path: path.to_owned(), message: "cannot be a tenant's id".to_owned() });
                }
            }
        }
    }

    fn schema(&self) -> Json {
        match self {
            Values::OfField { field, required } => {
                let mut field = (*field).clone();
                // What the body has to have is not null, also where an item need not have it.
                field.optional &= !required;
                let mut schema = field.json_schema();
                // Derived routes do not accept a read-only field, but this route does.
                if let Some(schema) = schema.as_object_mut() {
                    schema.remove("readOnly");
                }
                schema
            }
            Values::TenantIds { design, required } => {
                let schema = design.tenant_id_schema();
                if *required { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) }
            }
        }
    }
}

/// The fields of a body, each with its values. A field that is called as the field of the tenant has ids of tenants.
fn values_of_fields<'d>(
    design: &'d Design,
    entity: &str,
    fields: &'static [BodyField],
) -> impl Iterator<Item = (&'static BodyField, Values<'d>)> + use<'d> {
    let entity = design.entity(entity);
    fields.iter().filter_map(move |body| {
        let values = if body.name == design.tenant.field {
            Values::TenantIds { design, required: body.required }
        } else {
            let field = entity?.field(body.entity_field)?;
            Values::OfField { field, required: body.required }
        };
        Some((body, values))
    })
}

/// Declares a struct that is a [`RequestBody`](crate::RequestBody).
///
/// Each field has its name in the body, and optionally the entity field that gives its values, if that is called otherwise. A
/// field with the name of the tenant's field takes the id of a tenant, whatever the entity has. A field that is an `Option`
/// can be left out. `max` makes a field a list of at most so many values.
///
/// ```
/// nagaya_server::request_body! {
///     /// The body of an approval.
///     pub struct Approval of "tenant_application" {
///         tenant_id: Option<String> = "tenantId",
///         comment: Option<String> = "comment" as "reviewComment",
///         labels: Vec<String> = "labels" as "label" max 10,
///     }
/// }
/// ```
#[macro_export]
macro_rules! request_body {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident of $entity:tt {
            $($field:ident: $type:ty = $json:literal $(as $source:literal)? $(max $max:expr)?,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Default, ::serde::Deserialize, ::serde::Serialize)]
        #[serde(default)]
        $visibility struct $name {
            $(
                #[serde(rename = $json, skip_serializing_if = "::nagaya_server::BodyValue::is_absent")]
                $visibility $field: $type,
            )*
        }

        impl $crate::RequestBody for $name {
            const ENTITY: &'static str = $entity;
            const FIELDS: &'static [$crate::BodyField] = &[$($crate::BodyField {
                name: $json,
                entity_field: $crate::request_body!(@first $($source)? $json),
                required: <$type as $crate::BodyValue>::REQUIRED,
                max_items: $crate::request_body!(@max $($max)?),
            }),*];
        }
    };
    (@first $first:literal $($rest:literal)?) => { $first };
    (@max) => { None };
    (@max $max:expr) => { Some($max) };
}

/// The type of a field of a request body.
pub trait BodyValue {
    /// Whether the field cannot be left out.
    const REQUIRED: bool = true;

    /// Whether the field was left out.
    fn is_absent(&self) -> bool {
        false
    }
}

impl BodyValue for bool {}
impl BodyValue for f64 {}
impl BodyValue for String {}
impl<T> BodyValue for Vec<T> {}
impl<T> BodyValue for Option<T> {
    const REQUIRED: bool = false;

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
