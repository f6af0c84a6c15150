//! Request bodies as structs: [`request_body!`] gives a struct its parser and its JSON Schema.

use axum::http::StatusCode;
use nagaya_server::Problem;
use serde_json::{Map, Value as Json, json};

/// Declares the body of a route. The doc comment of a field is its description in the OpenAPI document.
macro_rules! request_body {
    ($(#[$about:meta])* struct $name:ident { $(#[doc = $description:literal] $field:ident: $type:ty,)+ }) => {
        $(#[$about])*
        pub(super) struct $name {
            $(#[doc = $description] pub(super) $field: $type,)+
        }

        impl $name {
            /// Reads a body. The problem names every field that does not fit.
            pub(super) fn parse(body: &serde_json::Map<String, serde_json::Value>) -> Result<Self, nagaya_server::Problem> {
                use super::body::{check_known, parse_field};

                let mut errors = Vec::new();
                check_known(body, &[$(stringify!($field)),+], &mut errors);
                $(let $field = parse_field::<$type>(body, stringify!($field), &mut errors);)+
                match ($($field,)+) {
                    ($(Some($field),)+) if errors.is_empty() => Ok($name { $($field),+ }),
                    _ => Err(super::body::problem(errors)),
                }
            }

            pub(super) fn schema() -> serde_json::Value {
                super::body::object_schema(&[$((
                    stringify!($field),
                    $description.trim(),
                    <$type as super::body::BodyField>::schema(),
                    <$type as super::body::BodyField>::REQUIRED,
                )),+])
            }
        }
    };
}
pub(super) use request_body;

/// The type of a field of a request body.
pub(super) trait BodyField: Sized {
    /// Whether the field has to be given.
    const REQUIRED: bool = true;

    /// Reads the value; `None`: the field is left out. The error says what the value has to be.
    fn parse(value: Option<&Json>) -> Result<Self, String>;

    fn schema() -> Json;
}

/// A text of 1 to `MAX` characters.
pub(super) struct Text<const MAX: usize>(pub(super) String);

impl<const MAX: usize> BodyField for Text<MAX> {
    fn parse(value: Option<&Json>) -> Result<Self, String> {
        match value {
            None => Err("Is missing.".to_owned()),
            Some(Json::String(text)) if text.is_empty() => Err("Has to be at least 1 character.".to_owned()),
            Some(Json::String(text)) if text.chars().count() > MAX => {
                Err(format!("Has to be at most {MAX} characters."))
            }
            Some(Json::String(text)) => Ok(Text(text.clone())),
            Some(_) => Err("Has to be a text.".to_owned()),
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": MAX })
    }
}

impl BodyField for bool {
    fn parse(value: Option<&Json>) -> Result<Self, String> {
        value.and_then(Json::as_bool).ok_or_else(|| "Has to be true or false.".to_owned())
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
}

/// A field that can be left out.
impl<T: BodyField> BodyField for Option<T> {
    const REQUIRED: bool = false;

    fn parse(value: Option<&Json>) -> Result<Self, String> {
        value.map(|value| T::parse(Some(value))).transpose()
    }

    fn schema() -> Json {
        T::schema()
    }
}

/// A value that can be null.
pub(super) struct Nullable<T>(pub(super) Option<T>);

impl<T: BodyField> BodyField for Nullable<T> {
    fn parse(value: Option<&Json>) -> Result<Self, String> {
        match value {
            Some(Json::Null) => Ok(Nullable(None)),
            value => T::parse(value).map(|value| Nullable(Some(value))),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [T::schema(), { "type": "null" }] })
    }
}

/// A field of a body, and what is wrong with it.
type FieldProblem = (String, String);

pub(super) fn check_known(body: &Map<String, Json>, known: &[&str], errors: &mut Vec<FieldProblem>) {
    for name in body.keys().filter(|name| !known.contains(&name.as_str())) {
        let why = if name == "familyId" { "Comes from the token; leave it out." } else { "Is not a field." };
        errors.push((name.clone(), why.to_owned()));
    }
}

pub(super) fn parse_field<T: BodyField>(
    body: &Map<String, Json>,
    name: &str,
    errors: &mut Vec<FieldProblem>,
) -> Option<T> {
    T::parse(body.get(name)).map_err(|why| errors.push((name.to_owned(), why))).ok()
}

pub(super) fn problem(errors: Vec<FieldProblem>) -> Problem {
    let detail = "The request does not fit the design; `errors` says where.";
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
    errors.into_iter().fold(problem, |problem, (field, why)| problem.with_field(&field, why))
}

/// The JSON Schema of an object, from the names, descriptions and schemas of its fields, and whether they are required.
pub(super) fn object_schema(fields: &[(&str, &str, Json, bool)]) -> Json {
    let properties: Map<_, _> = fields
        .iter()
        .map(|(name, description, schema, _)| {
            let mut schema = schema.clone();
            schema["description"] = (*description).into();
            ((*name).to_owned(), schema)
        })
        .collect();
    let required: Vec<_> = fields.iter().filter(|(.., required)| *required).map(|(name, ..)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}
