//! JSON bodies in which no object has a member twice.
//!
//! JSON allows repeated members, and parsers disagree on which one counts: a proxy that checks the first and a server that
//! uses the last would see two different requests.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json, map::Entry};

/// Reads a JSON text; refuses one with a repeated member.
pub(crate) fn parse(bytes: &[u8]) -> Result<Json, serde_json::Error> {
    serde_json::from_slice(bytes).map(|UniqueMembers(value)| value)
}

struct UniqueMembers(Json);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(UniqueMembers)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueMembers(element)) = elements.next_element()? {
            list.push(element);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            match object.entry(name) {
                Entry::Occupied(member) => return Err(A::Error::custom(format!("`{}` is given twice", member.key()))),
                Entry::Vacant(member) => {
                    let UniqueMembers(value) = members.next_value()?;
                    member.insert(value);
                }
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_by_serde_json() {
        let text = r#"{ "a": [1, -2, 3.5, 1e300, true, null, "x\u00e9", {}, []], "b": { "a": { "a": 18446744073709551615 } } }"#;
        assert_eq!(parse(text.as_bytes()).expect("JSON"), serde_json::from_str::<Json>(text).expect("JSON"));
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        for wrong in ["", "{", "{\"a\"}", "[1,]", "nul", "1 2", deep.as_str()] {
            let expected = serde_json::from_str::<Json>(wrong).expect_err("no JSON").to_string();
            assert_eq!(parse(wrong.as_bytes()).expect_err("no JSON").to_string(), expected);
        }
    }

    #[test]
    fn a_repeated_member_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"b":{"a":1,"a":2}}"#,
            r#"[{"a":[{"a":1,"c":0,"a":null}]}]"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            let error = parse(text.as_bytes()).expect_err("a repeated member");
            assert!(error.is_data() && error.to_string().starts_with("`a` is given twice"), "{error}");
        }
    }
}
