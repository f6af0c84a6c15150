//! Bodies of a system's own routes: which fields they have.

use nagaya_design::{Design, Field, Problem as Unfit};
use nagaya_tenancy::{Error, ErrorKind};
use serde_json::{Map, Value as Json, json};

use crate::Problem;

/// The fields of a body: each one's name in it, and the field of an entity that it is a value of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The entity.
    pub entity: &'static str,
    /// What each field is called in the body and in the entity.
    pub fields: &'static [(&'static str, &'static str)],
    /// Those that cannot be left out, as the body calls them.
    pub required: &'static [&'static str],
}

impl Shape {
    /// Refuses a body that lacks fields, has others, or has values that its fields do not take; says all of it at once.
    pub fn check(&self, design: &Design, body: &Map<String, Json>) -> Result<(), Problem> {
        let known = |name: &str| self.fields.iter().any(|(each, _)| *each == name);
        let unfit = |path: &str, message: &str| Unfit { path: path.to_owned(), message: message.to_owned() };
        let mut problems: Vec<_> =
            body.keys().filter(|name| !known(name)).map(|name| unfit(name, "is not a field")).collect();
        for (name, field) in self.named(design) {
            match body.get(name) {
                Some(value) => field.check(value, name, &mut problems),
                None if self.required.contains(&name) => problems.push(unfit(name, "is missing")),
                None => {}
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(problems)).into()) }
    }

    /// The JSON Schema of the body.
    pub fn schema(&self, design: &Design) -> Json {
        let given = |(name, field): (&str, &Field)| {
            let mut schema = field.json_schema();
            // What derived routes do not take, this one does.
            if let Some(schema) = schema.as_object_mut() {
                schema.remove("readOnly");
            }
            (name.to_owned(), schema)
        };
        let properties: Map<_, _> = self.named(design).map(given).collect();
        json!({ "type": "object", "properties": properties, "required": self.required, "additionalProperties": false })
    }

    fn named<'d>(&self, design: &'d Design) -> impl Iterator<Item = (&'static str, &'d Field)> {
        let entity = design.entity(self.entity);
        self.fields.iter().filter_map(move |(name, of)| Some((*name, entity?.field(of)?)))
    }
}
