//! Conversions between values of designs (JSON) and values of stores.

use nagaya_design::{ComparisonOp, Condition, ConditionValue, Field, FieldValues, Scalar, Term};
use nagaya_store::{Item, Number, Operand, Path, Value};
use serde_json::{Map, Value as Json};

/// A whole number of an item.
pub(crate) fn integer_in(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_number()?.try_into().ok()
}

/// A JSON value as stores have it.
pub(crate) fn to_store(value: Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Boolean(truth),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Number(number.into()),
            None => match number.to_string().parse() {
                Ok(number) => Value::Number(number),
                // Stores cannot keep all numbers of JSON: one too close to zero becomes zero, one too large becomes text.
                Err(_) if number.as_f64().is_some_and(|number| number.abs() < 1.0) => Value::Number(0.into()),
                Err(_) => number.to_string().into(),
            },
        },
        Json::String(text) => text.into(),
        Json::Array(values) => Value::List(values.into_iter().map(to_store).collect()),
        Json::Object(values) => Value::Map(values.into_iter().map(|(name, value)| (name, to_store(value))).collect()),
    }
}

/// A stored value as JSON. Binary values become text and sets become lists.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(truth) => (*truth).into(),
        Value::Number(number) => number_to_json(*number),
        Value::String(text) => text.as_str().into(),
        Value::Binary(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        Value::List(values) => values.iter().map(to_json).collect(),
        Value::Map(values) => Json::Object(values.iter().map(|(name, value)| (name.clone(), to_json(value))).collect()),
        Value::StringSet(texts) => texts.iter().map(String::as_str).collect(),
        Value::NumberSet(numbers) => numbers.iter().copied().map(number_to_json).collect(),
        Value::BinarySet(all) => all.iter().map(|bytes| to_json(&Value::Binary(bytes.clone()))).collect(),
    }
}

/// The same of an owned value: names and texts are moved where possible.
pub(crate) fn into_json(value: Value) -> Json {
    match value {
        Value::String(text) => Json::String(text.into()),
        Value::List(values) => values.into_iter().map(into_json).collect(),
        Value::Map(values) => Json::Object(values.into_iter().map(|(name, value)| (name, into_json(value))).collect()),
        other => to_json(&other),
    }
}

/// A value that can be part of an id, as text.
pub(crate) fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn number_to_json(number: Number) -> Json {
    match i64::try_from(number) {
        Ok(number) => number.into(),
        Err(_) => serde_json::from_str(&number.to_string()).unwrap_or_else(|_| number.to_string().into()),
    }
}

/// The fields of an item, for templates.
pub(crate) struct ItemFields<'i>(pub(crate) &'i Item);

impl FieldValues for ItemFields<'_> {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        match lookup(self.0, path)? {
            Value::String(text) => Some(Scalar::Text(text)),
            Value::Boolean(truth) => Some(Scalar::Boolean(*truth)),
            Value::Number(number) => i64::try_from(*number).ok().map(Scalar::Integer),
            _ => None,
        }
    }
}

/// Whether a field accepts a value.
pub(crate) fn is_valid(field: &Field, value: &Json) -> bool {
    let mut problems = Vec::new();
    field.check(value, &field.name, &mut problems);
    problems.is_empty()
}

/// The value at a dotted path.
pub(crate) fn lookup<'i>(item: &'i Item, path: &str) -> Option<&'i Value> {
    let Some((first, rest)) = path.split_once('.') else { return item.get(path) };
    rest.split('.').try_fold(item.get(first)?, |value, step| match value {
        Value::Map(values) => values.get(step),
        _ => None,
    })
}

/// The value at a dotted path of JSON.
pub(crate) fn json_at<'m>(fields: &'m Map<String, Json>, path: &str) -> Option<&'m Json> {
    match path.split_once('.') {
        None => fields.get(path),
        Some((first, rest)) => json_at(fields.get(first)?.as_object()?, rest),
    }
}

/// Whether a text is a path segment that clients and proxies resolve, so that no path can contain it.
pub(crate) fn is_dot_segment(text: &str) -> bool {
    matches!(text, "." | "..")
}

/// Puts a value at a dotted path, and creates the maps on the way.
pub(crate) fn put_json(fields: &mut Map<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => drop(fields.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = fields.entry(first).or_insert_with(|| Json::Object(Map::new()));
            if !inner.is_object() {
                *inner = Json::Object(Map::new());
            }
            if let Json::Object(inner) = inner {
                put_json(inner, rest, value);
            }
        }
    }
}

/// The path of a field in an item.
pub(crate) fn path(dotted: &str) -> Path {
    let mut steps = dotted.split('.');
    let first = Path::attribute(steps.next().unwrap_or_default());
    steps.fold(first, Path::entry)
}

/// A condition of a design as stores evaluate it. A comparison with a missing parameter is false.
pub(crate) fn condition(of: &Condition) -> nagaya_store::Condition {
    use nagaya_store::Condition as Store;
    let all = |inner: &[Condition]| inner.iter().map(condition).collect();
    match of {
        Condition::Compare { field, operator, value: ConditionValue { value: Term::Constant(value), .. } } => {
            let compared =
                Store::Compare(Operand::Value(path(&field.path)), comparison(*operator), to_store(value.clone()));
            match operator {
                // For stores an absent value is unequal to every other; for designs the comparison does not hold.
                ComparisonOp::NotEqual => has_value_condition(&field.path).and(compared),
                _ => compared,
            }
        }
        Condition::Compare { .. } => Store::Or(Vec::new()),
        Condition::In { field, values } => {
            let values = values.iter().filter_map(|literal| match &literal.value {
                Term::Constant(value) => Some(to_store(value.clone())),
                Term::Parameter(_) => None,
            });
            Store::In(Operand::Value(path(&field.path)), values.collect())
        }
        Condition::Exists(field) => has_value_condition(&field.path),
        Condition::Absent(field) => Store::Not(Box::new(has_value_condition(&field.path))),
        Condition::And(inner) => Store::And(all(inner)),
        Condition::Or(inner) => Store::Or(all(inner)),
        Condition::Not(inner) => Store::Not(Box::new(condition(inner))),
    }
}

/// The field has a value other than null.
fn has_value_condition(field: &str) -> nagaya_store::Condition {
    use nagaya_store::Condition as Store;
    let null = Store::equal(path(field), Value::Null);
    Store::exists(path(field)).and(Store::Not(Box::new(null)))
}

fn comparison(operator: ComparisonOp) -> nagaya_store::ComparisonOp {
    match operator {
        ComparisonOp::Equal => nagaya_store::ComparisonOp::Equal,
        ComparisonOp::NotEqual => nagaya_store::ComparisonOp::NotEqual,
        ComparisonOp::Less => nagaya_store::ComparisonOp::Less,
        ComparisonOp::LessOrEqual => nagaya_store::ComparisonOp::LessOrEqual,
        ComparisonOp::Greater => nagaya_store::ComparisonOp::Greater,
        ComparisonOp::GreaterOrEqual => nagaya_store::ComparisonOp::GreaterOrEqual,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_becomes_the_same_json_whether_it_is_copied_or_not() {
        let nested = json!({ "a": null, "b": [true, 1, "text", { "c": 1.5 }], "d": {} });
        let value = to_store(nested.clone());
        assert_eq!(to_json(&value), nested);
        assert_eq!(into_json(value), nested);
    }

    #[test]
    fn numbers_that_stores_cannot_keep_become_zero_or_text() {
        assert_eq!(to_json(&to_store(json!(3.0))), json!(3));
        assert_eq!(to_json(&to_store(json!(1.5e-219))), json!(0));
        assert_eq!(to_json(&to_store(json!(-1.5e-219))), json!(0));
        assert_eq!(to_json(&to_store(json!(1.5e200))), json!("1.5e+200"));
    }
}
