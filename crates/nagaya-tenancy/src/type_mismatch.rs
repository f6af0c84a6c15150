//! Reading JSON as a type, with errors that name the path and the type of what does not fit, and never a value.
//!
//! The errors of `serde_json` contain the value. Such an error gets into logs and stored records, where personal data must not be.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{
        self, DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Value as Json, map};

/// Why JSON does not fit a type: the path and what is wrong there, without the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The steps from the outermost value, the last one first.
    path: Vec<Cow<'static, str>>,
    why: String,
}

/// A step into a map whose keys are data.
const ANY_KEY: &str = "*";

impl TypeMismatch {
    /// Something else that is wrong. A constant contains no data.
    pub fn because(why: &'static str) -> Self {
        TypeMismatch { path: Vec::new(), why: why.to_owned() }
    }

    /// The same for a value inside a field.
    #[must_use]
    pub fn inside(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.path.push(field.into());
        self
    }
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            let steps: Vec<_> = self.path.iter().rev().map(|step| &**step).collect();
            write!(f, "`{}` ", steps.join("."))?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for TypeMismatch {}

impl de::Error for TypeMismatch {
    /// The text may contain the value, so it is left out.
    fn custom<T: fmt::Display>(_: T) -> Self {
        TypeMismatch::because("has a value that the program refuses")
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        TypeMismatch { path: Vec::new(), why: format!("is {}, expected {expected}", kind(found)) }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        TypeMismatch { path: Vec::new(), why: format!("is {} that is not allowed, expected {expected}", kind(found)) }
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        TypeMismatch { path: Vec::new(), why: format!("has {length} elements, expected {expected}") }
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        TypeMismatch { path: Vec::new(), why: format!("is not known, expected one of `{}`", expected.join("`, `")) }
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        let why = format!("has a field that is not known, expected only `{}`", expected.join("`, `"));
        TypeMismatch { path: Vec::new(), why }
    }

    fn missing_field(field: &'static str) -> Self {
        TypeMismatch::because("is missing").inside(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        TypeMismatch::because("is there twice").inside(field)
    }
}

fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a number",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Bytes(_) => "a byte array",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "an array",
        Unexpected::Map => "an object",
        _ => "a value",
    }
}

/// Fields as a type of the caller.
pub fn read_fields<'de, T: Deserialize<'de>>(fields: &'de Map<String, Json>) -> Result<T, TypeMismatch> {
    T::deserialize(FieldsDeserializer(fields))
}

/// Reads the fields of an object as a type.
#[derive(Debug, Clone, Copy)]
pub struct FieldsDeserializer<'de>(pub &'de Map<String, Json>);

impl<'de> FieldsDeserializer<'de> {
    fn entries(self) -> Entries<'de> {
        Entries { left: self.0.iter(), value: None, is_field: false }
    }
}

impl<'de> Deserializer<'de> for FieldsDeserializer<'de> {
    type Error = TypeMismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        visitor.visit_map(self.entries())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        visitor.visit_enum(MapAccessDeserializer::new(self.entries()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Reads a value as a type.
struct ValueDeserializer<'de>(&'de Json);

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = TypeMismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(truth) => visitor.visit_bool(*truth),
            Json::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => visitor.visit_seq(Elements { left: items.iter(), at: 0 }),
            Json::Object(fields) => FieldsDeserializer(fields).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match self.0 {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        match self.0 {
            Json::String(variant) => visitor.visit_enum(StrDeserializer::new(variant)),
            Json::Object(fields) => FieldsDeserializer(fields).deserialize_enum(name, variants, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The entries of an object.
struct Entries<'de> {
    left: map::Iter<'de>,
    value: Option<(&'de String, &'de Json)>,
    /// Whether the key was read as the name of a field. Other keys are data.
    is_field: bool,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = TypeMismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TypeMismatch> {
        self.value = self.left.next();
        self.is_field = false;
        let Some((name, _)) = self.value else { return Ok(None) };
        seed.deserialize(KeyDeserializer { name, is_field: &mut self.is_field }).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, TypeMismatch> {
        let (name, value) = self.value.take().ok_or_else(|| TypeMismatch::because("has a value without a name"))?;
        seed.deserialize(ValueDeserializer(value)).map_err(|error| match self.is_field {
            true => error.inside(name.clone()),
            false => error.inside(ANY_KEY),
        })
    }
}

/// Reads the key of an entry.
struct KeyDeserializer<'de, 'm> {
    name: &'de str,
    is_field: &'m mut bool,
}

/// A number or a boolean as a key.
macro_rules! parse_key {
    ($($method:ident $visit:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
            match self.name.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => visitor.visit_borrowed_str(self.name),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for KeyDeserializer<'de, '_> {
    type Error = TypeMismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        visitor.visit_borrowed_str(self.name)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        *self.is_field = true;
        visitor.visit_borrowed_str(self.name)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        visitor.visit_enum(StrDeserializer::new(self.name))
    }

    parse_key! {
        deserialize_bool visit_bool,
        deserialize_i8 visit_i8,
        deserialize_i16 visit_i16,
        deserialize_i32 visit_i32,
        deserialize_i64 visit_i64,
        deserialize_i128 visit_i128,
        deserialize_u8 visit_u8,
        deserialize_u16 visit_u16,
        deserialize_u32 visit_u32,
        deserialize_u64 visit_u64,
        deserialize_u128 visit_u128,
        deserialize_f32 visit_f32,
        deserialize_f64 visit_f64,
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct ignored_any
    }
}

/// The elements of an array.
struct Elements<'de> {
    left: std::slice::Iter<'de, Json>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = TypeMismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, TypeMismatch> {
        let Some(element) = self.left.next() else { return Ok(None) };
        let at = self.at;
        self.at += 1;
        seed.deserialize(ValueDeserializer(element)).map(Some).map_err(|error| error.inside(at.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Guest {
        name: String,
        age: Option<u8>,
        #[serde(default)]
        visits: Vec<Visit>,
        #[serde(default)]
        calls: BTreeMap<String, f64>,
        #[serde(default)]
        seats: BTreeMap<u8, Option<bool>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Visit {
        Short,
        Long { nights: i32 },
        To(Place),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Place(char);

    fn read(value: Json) -> Result<Guest, String> {
        let Json::Object(fields) = value else { panic!("{value} is no object") };
        read_fields(&fields).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_are_read_as_serde_json_reads_them() {
        for value in [
            json!({ "name": "Ann", "age": 30, "visits": ["Short", { "Long": { "nights": -2 } }, { "To": "x" }] }),
            json!({ "name": "Ann", "age": null, "calls": { "Bob": 1, "Cat": -1.5 }, "seats": { "7": true, "8": null } }),
        ] {
            let expected = serde_json::from_value::<Guest>(value.clone()).map_err(|error| error.to_string());
            assert_eq!(read(value), expected);
        }
        let free = json!({ "a": [1, -1, 0.5, true, null, "x", { "b": {} }] });
        let Json::Object(fields) = &free else { panic!("it is an object") };
        assert_eq!(read_fields::<Json>(fields), Ok(free.clone()));
    }

    /// The value is a name or a telephone number in each of them.
    #[test]
    fn an_error_names_the_path_and_the_type_and_not_the_value() {
        let secret = "Ann 090-1234-5678";
        for (value, why) in [
            (json!({ "name": 9012345678_u64 }), "`name` is an integer, expected a string"),
            (json!({ "name": [secret] }), "`name` is an array, expected a string"),
            (json!({ "name": "", "age": secret }), "`age` is a string, expected u8"),
            (json!({ "name": "", "age": 9012 }), "`age` is an integer that is not allowed, expected u8"),
            (
                json!({ "name": "", "visits": [secret] }),
                "`visits.0` is not known, expected one of `Short`, `Long`, `To`",
            ),
            (
                json!({ "name": "", "visits": ["Short", { "Long": { "nights": secret } }] }),
                "`visits.1.Long.nights` is a string, expected i32",
            ),
            (
                json!({ "name": "", "visits": [{ "To": secret }] }),
                "`visits.0.To` is a string that is not allowed, expected a character",
            ),
            (json!({ "name": "", "calls": { secret: secret } }), "`calls.*` is a string, expected f64"),
            (json!({ "name": "", "seats": { secret: true } }), "`seats` is a string, expected u8"),
            (json!({ "name": "", "seats": { "7": secret } }), "`seats.*` is a string, expected a boolean"),
            (json!({}), "`name` is missing"),
            (
                json!({ secret: 1 }),
                "has a field that is not known, expected only `name`, `age`, `visits`, `calls`, `seats`",
            ),
        ] {
            assert_eq!(read(value), Err(why.to_owned()));
        }
        let own: TypeMismatch = de::Error::custom(secret);
        assert_eq!(own.to_string(), "has a value that the program refuses");
    }
}
