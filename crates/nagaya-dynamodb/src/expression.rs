//! Conditions and updates as DynamoDB expressions, with a placeholder for every name and value.
//!
//! Names and values never stand in the expression itself, so reserved words, dots and quotes need no escaping. DynamoDB
//! rejects some comparisons that the port defines as false, such as `<` on booleans or `BETWEEN` with swapped bounds. Those
//! are evaluated here and not sent.

use nagaya_store::{
    AssignedValue, ComparisonOp, Condition, KeySchema, KeyValue, Operand, Path, PathSegment, SortCondition, Update,
    UpdateAction, Value,
};

/// How many values one `IN` takes.
const MAX_IN_VALUES: usize = 100;

/// A condition as an expression with names and values written out, for people to read.
pub fn describe(condition: &Condition) -> String {
    match constant(condition) {
        Some(holds) => holds.to_string(),
        None => {
            let mut placeholders = Placeholders::default();
            let text = placeholders.render(condition).text;
            placeholders.written_out(&text)
        }
    }
}

/// The names and values that the expressions of one request refer to.
#[derive(Debug, Default)]
pub struct Placeholders {
    names: Vec<String>,
    values: Vec<Value>,
}

impl Placeholders {
    /// The condition as an expression; `None` when it always holds.
    ///
    /// A condition that never holds is sent too, as one on a key attribute: the response then contains the stored item.
    pub fn condition(&mut self, condition: &Condition, schema: &KeySchema) -> Option<String> {
        match constant(condition) {
            Some(true) => None,
            Some(false) => {
                let name = self.name(&schema.partition.0);
                Some(format!("attribute_exists({name}) AND attribute_not_exists({name})"))
            }
            None => Some(self.render(condition).text),
        }
    }

    /// An expression that always holds, for requests that need a condition.
    pub fn always(&mut self, schema: &KeySchema) -> String {
        let name = self.name(&schema.partition.0);
        format!("attribute_exists({name}) OR attribute_not_exists({name})")
    }

    /// The filter as an expression; `None` when the caller has to apply it: DynamoDB accepts no filter on key attributes.
    pub fn filter(&mut self, filter: &Condition, schema: &KeySchema) -> Option<String> {
        let sent = constant(filter).is_none() && !names_key(filter, schema);
        sent.then(|| self.render(filter).text)
    }

    /// The key condition of a query.
    pub fn key_condition(&mut self, schema: &KeySchema, partition: KeyValue, sort: SortCondition) -> String {
        let equal = format!("{} = {}", self.name(&schema.partition.0), self.value(partition));
        let name = match &sort {
            SortCondition::Any => return equal,
            _ => self.name(&schema.sort.0),
        };
        let range = match sort {
            SortCondition::Any => return equal,
            SortCondition::Equal(value) => format!("{name} = {}", self.value(value)),
            SortCondition::BeginsWith(start) => format!("begins_with({name}, {})", self.value(start)),
            SortCondition::Between(least, most) => {
                format!("{name} BETWEEN {} AND {}", self.value(least), self.value(most))
            }
            SortCondition::Less(value) => format!("{name} < {}", self.value(value)),
            SortCondition::LessOrEqual(value) => format!("{name} <= {}", self.value(value)),
            SortCondition::Greater(value) => format!("{name} > {}", self.value(value)),
            SortCondition::GreaterOrEqual(value) => format!("{name} >= {}", self.value(value)),
        };
        format!("{equal} AND {range}")
    }

    /// The update as an expression; `None` when it changes nothing.
    pub fn update(&mut self, update: &Update) -> Option<String> {
        let mut clauses: [(&str, Vec<String>); 4] = ["SET", "REMOVE", "ADD", "DELETE"].map(|verb| (verb, Vec::new()));
        for change in update.changes() {
            let path = self.path(change.path());
            let (at, text) = match change {
                UpdateAction::Set(_, assign) => (0, format!("{path} = {}", self.assign(assign))),
                UpdateAction::Remove(_) => (1, path),
                UpdateAction::Add(_, value) => (2, format!("{path} {}", self.value(value.clone()))),
                UpdateAction::Delete(_, value) => (3, format!("{path} {}", self.value(value.clone()))),
            };
            clauses[at].1.push(text);
        }
        let clauses: Vec<String> = clauses
            .iter()
            .filter(|(_, changes)| !changes.is_empty())
            .map(|(verb, changes)| format!("{verb} {}", changes.join(", ")))
            .collect();
        (!clauses.is_empty()).then(|| clauses.join(" "))
    }

    /// `ExpressionAttributeNames`: each placeholder with its name.
    pub fn names(&self) -> impl Iterator<Item = (String, String)> {
        self.names.iter().enumerate().map(|(at, name)| (format!("#{at}"), name.clone()))
    }

    /// `ExpressionAttributeValues`: each placeholder with its value.
    pub fn into_values(self) -> impl Iterator<Item = (String, Value)> {
        self.values.into_iter().enumerate().map(|(at, value)| (format!(":{at}"), value))
    }

    /// An expression with names and values in place of the placeholders.
    fn written_out(&self, expression: &str) -> String {
        let mut text = String::new();
        let mut rest = expression;
        while let Some(start) = rest.find(['#', ':']) {
            let (before, placeholder) = rest.split_at(start);
            let digits = placeholder[1..].find(|c: char| !c.is_ascii_digit()).map_or(placeholder.len(), |end| end + 1);
            let at: usize = placeholder[1..digits].parse().unwrap_or_default();
            text.push_str(before);
            match placeholder.starts_with('#') {
                true => text.push_str(&self.names[at]),
                false => text.push_str(&literal(&self.values[at])),
            }
            rest = &placeholder[digits..];
        }
        text + rest
    }

    fn assign(&mut self, assign: &AssignedValue) -> String {
        match assign {
            AssignedValue::Value(value) => self.value(value.clone()),
            AssignedValue::Copy(path) => self.path(path),
            AssignedValue::Plus(path, by) => format!("{} + {}", self.path(path), self.value(*by)),
            AssignedValue::Minus(path, by) => format!("{} - {}", self.path(path), self.value(*by)),
            AssignedValue::IfAbsent(path, value) => {
                format!("if_not_exists({}, {})", self.path(path), self.value(value.clone()))
            }
            AssignedValue::Append(path, values) => {
                format!("list_append({}, {})", self.path(path), self.value(Value::List(values.clone())))
            }
        }
    }

    /// The expression of a condition that is not constant.
    fn render(&mut self, condition: &Condition) -> Rendered {
        match condition {
            Condition::Exists(path) => Rendered::atom(format!("attribute_exists({})", self.path(path))),
            Condition::Absent(path) => Rendered::atom(format!("attribute_not_exists({})", self.path(path))),
            Condition::Compare(operand, comparison, value) => {
                let sign = match comparison {
                    ComparisonOp::Equal => "=",
                    ComparisonOp::NotEqual => "<>",
                    ComparisonOp::Less => "<",
                    ComparisonOp::LessOrEqual => "<=",
                    ComparisonOp::Greater => ">",
                    ComparisonOp::GreaterOrEqual => ">=",
                };
                Rendered::atom(format!("{} {sign} {}", self.operand(operand), self.value(value.clone())))
            }
            Condition::Between(operand, least, most) => {
                let (least, most) = (self.value(least.clone()), self.value(most.clone()));
                Rendered::atom(format!("{} BETWEEN {least} AND {most}", self.operand(operand)))
            }
            Condition::In(operand, values) => {
                let operand = self.operand(operand);
                let parts = values.chunks(MAX_IN_VALUES).map(|values| {
                    let values: Vec<String> = values.iter().map(|value| self.value(value.clone())).collect();
                    Rendered::atom(format!("{operand} IN ({})", values.join(", ")))
                });
                Rendered::joined(parts.collect(), Precedence::Or)
            }
            Condition::BeginsWith(path, start) => {
                Rendered::atom(format!("begins_with({}, {})", self.path(path), self.value(start.clone())))
            }
            Condition::Contains(path, part) => {
                Rendered::atom(format!("contains({}, {})", self.path(path), self.value(part.clone())))
            }
            Condition::And(all) => self.join(all, Precedence::And),
            Condition::Or(any) => self.join(any, Precedence::Or),
            Condition::Not(inner) => {
                let text = self.render(inner).text;
                Rendered { text: format!("NOT ({text})"), precedence: Precedence::Atom }
            }
        }
    }

    fn join(&mut self, conditions: &[Condition], precedence: Precedence) -> Rendered {
        // A constant part that decided the result would make the whole condition constant.
        let parts = conditions.iter().filter(|condition| constant(condition).is_none());
        let parts: Vec<&Condition> = parts.collect();
        Rendered::joined(parts.into_iter().map(|condition| self.render(condition)).collect(), precedence)
    }

    fn operand(&mut self, operand: &Operand) -> String {
        match operand {
            Operand::Value(path) => self.path(path),
            Operand::Size(path) => format!("size({})", self.path(path)),
        }
    }

    fn path(&mut self, path: &Path) -> String {
        let mut text = String::new();
        for step in path.segments() {
            match step {
                PathSegment::Attribute(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(&self.name(name));
                }
                PathSegment::Index(at) => text.push_str(&format!("[{at}]")),
            }
        }
        text
    }

    fn name(&mut self, name: &str) -> String {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("#{at}")
    }

    fn value(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!(":{}", self.values.len() - 1)
    }
}

/// A value as people write it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        other => format!("{other:?}"),
    }
}

/// An expression with its precedence. DynamoDB rejects redundant parentheses.
struct Rendered {
    text: String,
    precedence: Precedence,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Or,
    And,
    Atom,
}

impl Rendered {
    fn atom(text: String) -> Self {
        Rendered { text, precedence: Precedence::Atom }
    }

    fn joined(mut parts: Vec<Rendered>, precedence: Precedence) -> Self {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let word = if precedence == Precedence::And { " AND " } else { " OR " };
        let texts = parts.into_iter().map(|part| match part.precedence < precedence {
            true => format!("({})", part.text),
            false => part.text,
        });
        Rendered { text: texts.collect::<Vec<_>>().join(word), precedence }
    }
}

/// Whether a condition holds, if the result is the same for all items.
fn constant(condition: &Condition) -> Option<bool> {
    match condition {
        Condition::And(all) => {
            let parts: Vec<_> = all.iter().map(constant).collect();
            if parts.contains(&Some(false)) {
                return Some(false);
            }
            parts.iter().all(|part| *part == Some(true)).then_some(true)
        }
        Condition::Or(any) => {
            let parts: Vec<_> = any.iter().map(constant).collect();
            if parts.contains(&Some(true)) {
                return Some(true);
            }
            parts.iter().all(|part| *part == Some(false)).then_some(false)
        }
        Condition::Not(inner) => constant(inner).map(|holds| !holds),
        Condition::In(_, values) if values.is_empty() => Some(false),
        Condition::Compare(operand, comparison, value) => match comparison {
            ComparisonOp::NotEqual => None,
            ComparisonOp::Equal => (is_size(operand) && !is_number(value)).then_some(false),
            _ => (!has_order(value) || (is_size(operand) && !is_number(value))).then_some(false),
        },
        Condition::Between(operand, least, most) => {
            let ordered = match (least, most) {
                (Value::Number(least), Value::Number(most)) => least <= most,
                (Value::String(least), Value::String(most)) => !is_size(operand) && least <= most,
                (Value::Binary(least), Value::Binary(most)) => !is_size(operand) && least <= most,
                _ => false,
            };
            (!ordered).then_some(false)
        }
        Condition::BeginsWith(_, start) => (!matches!(start, Value::String(_) | Value::Binary(_))).then_some(false),
        Condition::Exists(_) | Condition::Absent(_) | Condition::In(..) | Condition::Contains(..) => None,
    }
}

fn is_size(operand: &Operand) -> bool {
    matches!(operand, Operand::Size(_))
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Number(_))
}

fn has_order(value: &Value) -> bool {
    matches!(value, Value::Number(_) | Value::String(_) | Value::Binary(_))
}

/// Whether a condition names a key attribute.
fn names_key(condition: &Condition, schema: &KeySchema) -> bool {
    match condition {
        Condition::And(all) | Condition::Or(all) => all.iter().any(|condition| names_key(condition, schema)),
        Condition::Not(inner) => names_key(inner, schema),
        Condition::Exists(path)
        | Condition::Absent(path)
        | Condition::BeginsWith(path, _)
        | Condition::Contains(path, _)
        | Condition::Compare(Operand::Value(path) | Operand::Size(path), ..)
        | Condition::Between(Operand::Value(path) | Operand::Size(path), ..)
        | Condition::In(Operand::Value(path) | Operand::Size(path), _) => schema.has_attribute(path.root()),
    }
}

/// An equivalent sort condition that DynamoDB accepts; `None` when no key can match. DynamoDB rejects empty values and
/// empty ranges.
pub fn normalize_sort(sort: SortCondition) -> Option<SortCondition> {
    match sort {
        SortCondition::Equal(value) | SortCondition::Less(value) | SortCondition::LessOrEqual(value)
            if value.is_empty() =>
        {
            None
        }
        SortCondition::BeginsWith(value) | SortCondition::Greater(value) | SortCondition::GreaterOrEqual(value)
            if value.is_empty() =>
        {
            Some(SortCondition::Any)
        }
        SortCondition::Between(least, most) if least > most || most.is_empty() => None,
        SortCondition::Between(least, most) if least.is_empty() => Some(SortCondition::LessOrEqual(most)),
        sort => Some(sort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(condition: Condition, expected: &str) {
        let mut placeholders = Placeholders::default();
        let text = placeholders.condition(&condition, &KeySchema::strings("PK", "SK"));
        assert_eq!(text.as_deref().unwrap_or("always"), expected);
    }

    fn at_least(name: &str, value: impl Into<Value>) -> Condition {
        Condition::Compare(Operand::Value(name.into()), ComparisonOp::GreaterOrEqual, value.into())
    }

    fn not(condition: Condition) -> Condition {
        Condition::Not(Box::new(condition))
    }

    #[test]
    fn names_and_values_are_placeholders() {
        check(Condition::equal("size", "x) OR attribute_exists(a"), "#0 = :0");
        check(
            Condition::exists(Path::attribute("a.b").entry("c[0]").index(3).entry("a.b")),
            "attribute_exists(#0.#1[3].#0)",
        );
        check(Condition::Contains("tags".into(), "x".into()), "contains(#0, :0)");
        check(Condition::Between(Operand::Size("n".into()), 1.into(), 2.into()), "size(#0) BETWEEN :0 AND :1");
    }

    #[test]
    fn a_description_has_names_and_values_in_place() {
        let some = Condition::In(Operand::Value("n".into()), vec![1.into(), Value::Null, true.into()]);
        assert_eq!(
            describe(&Condition::equal(Path::attribute("a").entry("#1"), "it's :0").and(not(some))),
            "a.#1 = 'it''s :0' AND NOT (n IN (1, null, true))"
        );
        assert_eq!(describe(&Condition::Or(Vec::new())), "false");
    }

    #[test]
    fn joins_have_only_the_parentheses_that_they_need() {
        let (one, two, three) = (Condition::exists("a"), Condition::exists("b"), Condition::exists("c"));
        let (a, b, c) = ("attribute_exists(#0)", "attribute_exists(#1)", "attribute_exists(#2)");
        check(one.clone().and(two.clone()).or(three.clone()), &format!("{a} AND {b} OR {c}"));
        check(one.clone().or(two.clone()).and(three.clone()), &format!("({a} OR {b}) AND {c}"));
        check(Condition::And(vec![Condition::Or(vec![one.clone()]), two.clone()]), &format!("{a} AND {b}"));
        check(not(one.clone().or(two)), &format!("NOT ({a} OR {b})"));
        check(not(not(one)), &format!("NOT (NOT ({a}))"));
    }

    #[test]
    fn constant_conditions_are_not_sent() {
        let never = "attribute_exists(#0) AND attribute_not_exists(#0)";
        check(Condition::And(Vec::new()), "always");
        check(Condition::Or(Vec::new()), never);
        check(Condition::In(Operand::Value("a".into()), Vec::new()), never);
        check(at_least("flag", true), never);
        check(not(at_least("flag", true)), "always");
        check(Condition::Between(Operand::Value("n".into()), 3.into(), 1.into()), never);
        check(Condition::Between(Operand::Value("n".into()), 1.into(), "3".into()), never);
        check(Condition::BeginsWith("n".into(), 1.into()), never);
        check(at_least("flag", true).or(at_least("n", 1)), "#0 >= :0");
        check(Condition::And(Vec::new()).and(at_least("n", 1)), "#0 >= :0");
    }

    #[test]
    fn a_long_list_of_values_is_split() {
        let values: Vec<Value> = (0..150).map(Value::from).collect();
        let mut placeholders = Placeholders::default();
        let some = Condition::In(Operand::Value("n".into()), values).and(Condition::exists("a"));
        let text = placeholders.condition(&some, &KeySchema::strings("PK", "SK")).unwrap_or_default();
        assert_eq!(text.matches(" IN (").count(), 2);
        assert!(text.starts_with("(#0 IN (:0, :1,") && text.ends_with(":149)) AND attribute_exists(#1)"), "{text}");
    }

    #[test]
    fn an_update_has_a_clause_for_each_kind_of_change() {
        let update = Update::new()
            .set("a", 1)
            .set("b", AssignedValue::Plus("b".into(), 1.into()))
            .set("c", AssignedValue::IfAbsent("c".into(), 0.into()))
            .set("d", AssignedValue::Append("d".into(), vec![1.into()]))
            .set("e", AssignedValue::Copy(Path::attribute("f").index(0)))
            .remove("g")
            .add("h", 1)
            .delete("i", Value::StringSet(["x".to_owned()].into()));
        let mut placeholders = Placeholders::default();
        assert_eq!(
            placeholders.update(&update).as_deref(),
            Some(
                "SET #0 = :0, #1 = #1 + :1, #2 = if_not_exists(#2, :2), #3 = list_append(#3, :3), #4 = #5[0] \
                 REMOVE #6 ADD #7 :4 DELETE #8 :5"
            )
        );
        assert_eq!(Placeholders::default().update(&Update::new()), None);
    }

    #[test]
    fn a_filter_on_key_attributes_is_not_sent() {
        let schema = KeySchema::strings("PK", "SK");
        let filter = |condition: &Condition| Placeholders::default().filter(condition, &schema);
        assert_eq!(filter(&Condition::exists("a")).as_deref(), Some("attribute_exists(#0)"));
        assert_eq!(filter(&Condition::exists("a").or(not(Condition::equal("SK", "x")))), None);
        assert_eq!(filter(&Condition::Or(Vec::new())), None);
    }

    #[test]
    fn sort_conditions_with_empty_values_are_normalized() {
        let empty = || KeyValue::from("");
        assert_eq!(normalize_sort(SortCondition::Equal(empty())), None);
        assert_eq!(normalize_sort(SortCondition::Less(empty())), None);
        assert_eq!(normalize_sort(SortCondition::BeginsWith(empty())), Some(SortCondition::Any));
        assert_eq!(normalize_sort(SortCondition::Greater(empty())), Some(SortCondition::Any));
        assert_eq!(
            normalize_sort(SortCondition::Between(empty(), "b".into())),
            Some(SortCondition::LessOrEqual("b".into()))
        );
        assert_eq!(normalize_sort(SortCondition::Between("b".into(), "a".into())), None);
    }
}
