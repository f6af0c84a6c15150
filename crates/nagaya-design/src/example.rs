//! Example values of fields, and example items as the store holds them.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

use crate::{
    check::MAX_ITEM,
    design::{Design, Entity, SCHEMA_ATTRIBUTE},
    field::{DefaultValue, Field, FieldType},
    text_syntax::{self, StringFormat},
};

/// The time of all examples in seconds since 1970: 2026-01-31T09:30:00Z.
const EXAMPLE_TIME: i64 = 1_769_851_800;
pub(crate) const EXAMPLE_ULID: &str = "01KG9S5Q60T4N2Y8ZC3M7VXR1E";
const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
const DAY_MILLIS: i64 = 86_400_000;
/// How many more times than necessary an unbounded repetition of a pattern occurs in an example at most.
const EXTRA_REPETITIONS: u32 = 8;

impl Design {
    /// An item of an entity as the store holds it: fields, derived attributes, version, schema version and expiry.
    pub fn example(&self, entity: &Entity) -> Map<String, Value> {
        let table = self.table_of(entity);
        let mut fields = example_fields(&entity.fields);
        let mut item = Map::new();
        for (attribute, value) in self.derived_attributes(entity, &fields) {
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
            item.insert(ttl.clone(), (EXAMPLE_TIME + i64::try_from(seconds).unwrap_or(0)).into());
        }
        item
    }
}

fn example_fields(fields: &[Field]) -> Map<String, Value> {
    fields.iter().map(|field| (field.name.clone(), field.example())).collect()
}

impl Field {
    /// Whether it accepts a value.
    pub fn accepts(&self, value: &Value) -> bool {
        let mut errors = Vec::new();
        self.check(value, &self.name, &mut errors);
        errors.is_empty()
    }

    /// A value that it accepts.
    pub fn example(&self) -> Value {
        if let Some(DefaultValue::Constant(value)) = &self.default
            && *value != json!([])
            && *value != json!({})
        {
            return value.clone();
        }
        let (min, max) = self.range;
        let number = min.unwrap_or_else(|| max.map_or(1.0, |max| max.min(1.0)));
        match &self.field_type {
            FieldType::String => self.example_text().into(),
            FieldType::Number => json!(number),
            FieldType::Integer => (number as i64).into(),
            FieldType::Boolean => true.into(),
            FieldType::Timestamp(_) | FieldType::Date => self.timestamp_value(EXAMPLE_TIME * 1000).unwrap_or_default(),
            FieldType::Ulid => format!("{}{EXAMPLE_ULID}", self.prefix()).into(),
            FieldType::Uuid => format!("{}{UUID}", self.prefix()).into(),
            FieldType::List(Some(element)) => {
                vec![element.example(); self.min_elements.clamp(1, 100).min(self.max_size)].into()
            }
            FieldType::List(None) => vec![Value::from("…"); self.min_elements.min(100)].into(),
            FieldType::Map(fields) => example_fields(fields).into(),
            FieldType::Any => json!({}),
        }
    }

    /// The time of all examples, as its values are written.
    pub(crate) fn example_time(&self) -> String {
        self.timestamp_value(EXAMPLE_TIME * 1000).and_then(|time| Some(time.as_str()?.to_owned())).unwrap_or_default()
    }

    /// One of many values that it accepts: different numbers give different values; `None` when it has fewer values.
    ///
    /// Times are counted in days from `first_millis` (milliseconds since 1970). Booleans, choices, lists and maps repeat.
    pub fn nth_example(&self, n: usize, first_millis: i64) -> Option<Value> {
        let number = i64::try_from(n).ok()?;
        let value = match &self.field_type {
            FieldType::String => match self.choices() {
                [] => self.nth_text(n)?.into(),
                choices => choices[n % choices.len()].as_str().into(),
            },
            FieldType::Ulid => {
                let millis = u64::try_from(first_millis).ok()?;
                format!("{}{}", self.prefix(), text_syntax::ulid(u128::from(millis) << 80 | n as u128)).into()
            }
            FieldType::Uuid => format!("{}00000000-0000-4000-8000-{n:012x}", self.prefix()).into(),
            FieldType::Integer => self.example().as_i64()?.checked_add(number)?.into(),
            FieldType::Boolean => n.is_multiple_of(2).into(),
            FieldType::Timestamp(_) | FieldType::Date => self.timestamp_value(first_millis + number * DAY_MILLIS)?,
            _ => self.example(),
        };
        self.accepts(&value).then_some(value)
    }

    /// A text that its pattern matches; `None` if it has no pattern.
    ///
    /// `choose` picks one of several ways to continue the text: it gets their number and returns a position.
    pub fn matching_text(&self, choose: &mut dyn FnMut(usize) -> usize) -> Option<String> {
        matching(self.pattern()?, choose)
    }

    fn example_text(&self) -> String {
        if let Some(choice) = self.choices().first() {
            return choice.clone();
        }
        let Some(form) = &self.text_syntax else { return String::new() };
        let words = words(&self.name);
        let plain = match form.format {
            Some(StringFormat::Email) => "hanako@example.com".to_owned(),
            Some(StringFormat::Uri) => {
                let scheme = form.schemes().find(|scheme| *scheme == "https").or(form.schemes().next());
                format!("{}://example.com/{}", scheme.unwrap_or("https"), words.replace(' ', "-"))
            }
            Some(StringFormat::Hostname) => "example.com".to_owned(),
            Some(StringFormat::Ip) => "192.0.2.1".to_owned(),
            Some(StringFormat::Slug) => words.replace(' ', "-"),
            None => match self.name.strip_suffix("Id") {
                Some(stem) => format!("{}{stem}-1", form.prefix),
                None => format!("{}{words}", form.prefix),
            },
        };
        let mut readable = [plain.clone(), form.prefix.clone() + EXAMPLE_ULID, plain.replace(' ', "-")].into_iter();
        if let Some(text) = readable.find(|text| form.accepts(text)) {
            return text;
        }
        let matching = form.expression(None).and_then(|expression| matching(&expression, &mut |_| 0));
        let longest: String = plain.chars().take(form.max_chars).collect();
        let padded = plain.clone() + &"x".repeat(form.min_chars.min(MAX_ITEM));
        let mut rest = matching.into_iter().chain([longest, padded]);
        rest.find(|text| form.accepts(text)).unwrap_or(plain)
    }

    /// The example with a number added, or else with other characters in it.
    fn nth_text(&self, n: usize) -> Option<String> {
        let Value::String(example) = self.example() else { return None };
        if n == 0 {
            return Some(example);
        }
        let is_accepted = |text: &String| self.accepts(&text.as_str().into());
        let numbered = [format!("{example}{n}"), format!("{n}{example}"), format!("h{n}.{example}")];
        if let Some(found) = numbered.into_iter().find(is_accepted) {
            return Some(found);
        }
        // Write the number from the end, one digit per character. The base is how many characters are possible there.
        let mut characters: Vec<char> = example.chars().collect();
        let mut left = n;
        for at in (0..characters.len()).rev() {
            let original = characters[at];
            let mut is_accepted_here = |character: &char| {
                characters[at] = *character;
                is_accepted(&characters.iter().collect())
            };
            let others = plain_characters().filter(|character| *character != original);
            let digits: Vec<char> = std::iter::once(original).chain(others).filter(&mut is_accepted_here).collect();
            characters[at] = digits.get(left % digits.len().max(1)).copied().unwrap_or(original);
            left /= digits.len().max(1);
            if left == 0 {
                return Some(characters.into_iter().collect());
            }
        }
        None
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

/// A text that the whole expression matches.
fn matching(expression: &str, choose: &mut dyn FnMut(usize) -> usize) -> Option<String> {
    let mut text = String::new();
    append_match(&regex_syntax::parse(expression).ok()?, choose, &mut text)?;
    Some(text)
}

fn append_match(expression: &Hir, choose: &mut dyn FnMut(usize) -> usize, text: &mut String) -> Option<()> {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(character(class, choose)?),
        HirKind::Capture(capture) => append_match(&capture.sub, choose, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| append_match(part, choose, text))?,
        HirKind::Alternation(parts) => append_match(parts.get(choose(parts.len()))?, choose, text)?,
        HirKind::Repetition(repetition) => {
            let extra = repetition.max.map_or(EXTRA_REPETITIONS, |max| max - repetition.min).min(EXTRA_REPETITIONS);
            let times = repetition.min as usize + choose(extra as usize + 1);
            (0..times).try_for_each(|_| append_match(&repetition.sub, choose, text))?;
        }
    }
    Some(())
}

/// A character of a class: a letter or digit of ASCII where it has some.
fn character(class: &Class, choose: &mut dyn FnMut(usize) -> usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let is_in_class = |each: &char| ranges.iter().any(|(first, last)| (first..=last).contains(&each));
    let plain: Vec<char> = plain_characters().filter(is_in_class).collect();
    match plain.len() {
        0 => ranges.get(choose(ranges.len())).map(|(first, _)| *first),
        count => plain.get(choose(count)).copied(),
    }
}

/// Letters and digits of ASCII, in the order in which examples prefer them.
fn plain_characters() -> impl Iterator<Item = char> {
    ('a'..='z').chain('0'..='9').chain('A'..='Z')
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn examples_of_patterns_match_them() {
        for pattern in [
            r"\$2[aby]\$12\$[./A-Za-z0-9]{53}",
            "sha256:[0-9a-f]{64}",
            r"(\S+ ){4}\S+",
            "[0-9]{4}-(0[1-9]|1[0-2])",
            "tenant_[a-z0-9]+(-[a-z0-9]+)*",
            "/.*",
        ] {
            let regex = Regex::new(&format!("^(?:{pattern})$")).expect("a pattern");
            for choose in [|_| 0, |count| count - 1, |count| count / 2] as [fn(usize) -> usize; 3] {
                let text = matching(pattern, &mut { choose }).expect("a text");
                assert!(regex.is_match(&text), "{text:?} does not match {pattern}");
            }
        }
        assert_eq!(matching("(", &mut |_| 0), None);
    }
}
