//! Example items: what an entity looks like in the store.

use serde_json::{Map, Value, json};

use crate::{
    check::MAX_ITEM,
    design::{Design, Entity, SCHEMA_ATTRIBUTE},
    field::{Default, Field, Type},
    form::{Format, Precision},
    language::Languages,
};

/// The instant that examples happen at: 2026-01-31T09:30:00Z.
const EPOCH: i64 = 1_769_851_800;
const ULID: &str = "01KG9S5Q60T4N2Y8ZC3M7VXR1E";
const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

impl Design {
    /// An item of an entity as the store holds it: fields, key and index attributes, what the design manages.
    pub fn example(&self, entity: &Entity) -> Map<String, Value> {
        let table = self.table_of(entity);
        let mut fields = example_fields(&entity.fields);
        let mut item = Map::new();
        for (attribute, value) in self.derived(entity, &fields) {
            if let Ok(Some(value)) = value {
                item.insert(attribute, value.into());
            }
        }
        if let (Some(name), Some(value)) = (&table.discriminator, &entity.discriminator) {
            item.insert(name.clone(), value.as_str().into());
        }
        item.append(&mut fields);
        if let Some(version) = &entity.version {
            item.insert(version.clone(), 1.into());
        }
        if let Some(schema) = entity.schema {
            item.insert(SCHEMA_ATTRIBUTE.to_owned(), schema.to_string().into());
        }
        if let (Some(ttl), Some(seconds)) = (&table.ttl, entity.ttl_after) {
            item.insert(ttl.clone(), (EPOCH + i64::try_from(seconds).unwrap_or(0)).into());
        }
        item
    }
}

fn example_fields(fields: &[Field]) -> Map<String, Value> {
    fields.iter().map(|field| (field.name.clone(), field.example())).collect()
}

impl Field {
    /// A value that it accepts.
    pub fn example(&self) -> Value {
        if let Some(Default::Constant(value)) = &self.default
            && *value != json!([])
            && *value != json!({})
        {
            return value.clone();
        }
        let (min, max) = self.range;
        let number = min.unwrap_or_else(|| max.map_or(1.0, |max| max.min(1.0)));
        match &self.kind {
            Type::String => self.example_text().into(),
            Type::Number => json!(number),
            Type::Integer => (number as i64).into(),
            Type::Boolean => true.into(),
            Type::Timestamp(Precision::Millis) => "2026-01-31T09:30:00.000Z".into(),
            Type::Timestamp(Precision::Micros) => "2026-01-31T09:30:00.000000Z".into(),
            Type::Timestamp(Precision::Epoch) => EPOCH.into(),
            Type::Timestamp(_) => "2026-01-31T09:30:00Z".into(),
            Type::Date => "2026-01-31".into(),
            Type::Ulid => format!("{}{ULID}", self.prefix()).into(),
            Type::Uuid => format!("{}{UUID}", self.prefix()).into(),
            Type::List(Some(element)) => vec![element.example(); self.least.clamp(1, 100).min(self.size)].into(),
            Type::List(None) => vec![Value::from("…"); self.least.min(100)].into(),
            Type::Map(fields) => example_fields(fields).into(),
            Type::Any => json!({}),
        }
    }

    fn example_text(&self) -> String {
        if let Some(choice) = self.one_of().first() {
            return choice.clone();
        }
        let Some(form) = &self.form else { return String::new() };
        let words = words(&self.name);
        let plain = match form.format {
            Some(Format::Email) => "hanako@example.com".to_owned(),
            Some(Format::Uri) => format!("https://example.com/{}", words.replace(' ', "-")),
            Some(Format::Hostname) => "example.com".to_owned(),
            Some(Format::Ip) => "192.0.2.1".to_owned(),
            Some(Format::Slug) => words.replace(' ', "-"),
            None => match self.name.strip_suffix("Id") {
                Some(stem) => format!("{}{stem}-1", form.prefix),
                None => format!("{}{words}", form.prefix),
            },
        };
        let mut readable = [plain.clone(), form.prefix.clone() + ULID, plain.replace(' ', "-")].into_iter();
        if let Some(text) = readable.find(|text| form.accepts(text)) {
            return text;
        }
        // To find the shortest takes an automaton, and most fields do without.
        let shortest = form.expression(None).and_then(|expression| Languages::default().shortest(&expression));
        let longest: String = plain.chars().take(form.max_chars).collect();
        let padded = plain.clone() + &"x".repeat(form.min_chars.min(MAX_ITEM));
        let mut tries = shortest.into_iter().chain([longest, padded]);
        tries.find(|text| form.accepts(text)).unwrap_or(plain)
    }
}

/// `inputSummary` → `input summary`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for each in name.chars() {
        if each.is_uppercase() {
            words.push(' ');
        }
        words.extend(each.to_lowercase());
    }
    words.replace('_', " ")
}
