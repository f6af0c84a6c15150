//! Bodies: which fields those of the product's own routes have, and which are not the caller's to set.

use nagaya_design::{Design, Field, Problem as Flaw};
use nagaya_server::Problem;
use nagaya_tenancy::{Error, ErrorKind};
use serde_json::{Map, Value as Json, json};

/// The fields of a body: each one's name in it, and the field of an entity that it is a value of.
pub(crate) struct Shape {
    pub(crate) entity: &'static str,
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

impl Shape {
    /// Refuses a body with other fields. What the values have to be like, whoever writes them finds out.
    pub(crate) fn only(&self, body: &Map<String, Json>) -> Result<(), Problem> {
        let known = |name: &str| self.fields.iter().any(|(each, _)| *each == name);
        refuse(body.keys().filter(|name| !known(name)).map(|name| flaw(name, "is not a field here")).collect())
    }

    /// Refuses a body with other fields, or with values that its fields do not take.
    pub(crate) fn check(&self, design: &Design, body: &Map<String, Json>) -> Result<(), Problem> {
        self.only(body)?;
        let mut flaws = Vec::new();
        for (name, field) in self.named(design) {
            if let Some(value) = body.get(name) {
                field.check(value, name, &mut flaws);
            }
        }
        refuse(flaws)
    }

    /// The JSON Schema of the body; these fields cannot be left out.
    pub(crate) fn schema(&self, design: &Design, required: &[&str]) -> Json {
        let properties: Map<_, _> =
            self.named(design).map(|(name, field)| (name.to_owned(), field.json_schema())).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn named<'d>(&self, design: &'d Design) -> impl Iterator<Item = (&'static str, &'d Field)> {
        let entity = design.entity(self.entity);
        self.fields.iter().filter_map(move |(name, of)| Some((*name, entity?.field(of)?)))
    }
}

/// Refuses a body that sets one of these fields.
pub(crate) fn without(body: &Map<String, Json>, fields: &[&str], why: &str) -> Result<(), Problem> {
    refuse(fields.iter().filter(|field| body.contains_key(**field)).map(|field| flaw(*field, why)).collect())
}

/// What is wrong with a part of a body.
pub(crate) fn flaw(path: impl Into<String>, message: impl Into<String>) -> Flaw {
    Flaw { path: path.into(), message: message.into() }
}

/// Refuses a body that has flaws, in the way of the derived routes.
pub(crate) fn refuse(flaws: Vec<Flaw>) -> Result<(), Problem> {
    if flaws.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(flaws)).into()) }
}
