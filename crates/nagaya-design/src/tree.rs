//! A design file as a tree: TOML with the place of every piece, in the order of the file.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    codes,
    diagnostic::{Diagnostic, Span},
};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
    Flag(bool),
    /// A TOML date or time, as written. The language has none; it is kept to say so.
    Datetime,
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table, with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

/// A text and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) span: Span,
}

impl Text {
    /// Where `range` of the text stands in the source; the whole of it when the file writes it with escapes.
    pub(crate) fn piece(&self, source: &str, range: Span) -> Span {
        let written = source.get(self.span.clone()).unwrap_or_default();
        let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
        let plain = written.get(quotes..written.len().saturating_sub(quotes)) == Some(&self.value);
        if plain {
            let start = self.span.start + quotes;
            start + range.start..start + range.end
        } else {
            self.span.clone()
        }
    }
}

/// Reads TOML. What cannot be read is reported and left out.
pub(crate) fn parse(source: &str, problems: &mut Vec<Diagnostic>) -> Node {
    let (root, errors) = DeTable::parse_recoverable(source);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        problems.push(
            Diagnostic::new(&codes::SYNTAX, span, format!("this is not TOML: {}", error.message()))
                .help("mend it to see what there is to say about the rest of the file"),
        );
    }
    table(root.get_ref(), root.span(), problems)
}

fn table(table: &DeTable<'_>, span: Span, problems: &mut Vec<Diagnostic>) -> Node {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry { key: key.get_ref().to_string(), key_span: key.span(), node: node(value, problems) })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Node { span, value: Value::Table(entries) }
}

fn node(spanned: &Spanned<DeValue<'_>>, problems: &mut Vec<Diagnostic>) -> Node {
    let span = spanned.span();
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Whole(number),
            Err(_) => {
                let message = format!("the number {} is too large", number.as_str());
                problems
                    .push(Diagnostic::new(&codes::SYNTAX, span.clone(), message).help("whole numbers have 64 bits"));
                Value::Whole(0)
            }
        },
        DeValue::Float(number) => Value::Real(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(item, problems)).collect()),
        DeValue::Table(inner) => return table(inner, span, problems),
    };
    Node { span, value }
}

impl Node {
    /// What kind of value it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a text",
            Value::Whole(_) => "a whole number",
            Value::Real(_) => "a number with decimals",
            Value::Flag(_) => "true or false",
            Value::Datetime => "a TOML date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The entries below `key`, when it is a table.
    pub(crate) fn section(&self, key: &str) -> &[Entry] {
        self.get(key).map_or(&[], Node::entries)
    }

    pub(crate) fn as_text(&self) -> Option<Text> {
        match &self.value {
            Value::Text(text) => Some(Text { value: text.clone(), span: self.span.clone() }),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<Text> {
        self.get(key).and_then(Node::as_text)
    }

    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.text(key).map(|text| text.value)
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<Text> {
        self.get(key).map_or(&[][..], Node::items).iter().filter_map(Node::as_text).collect()
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(crate) fn whole(&self, key: &str) -> Option<i64> {
        match self.get(key)?.value {
            Value::Whole(number) => Some(number),
            _ => None,
        }
    }

    /// The two texts of a pair such as `["PK", "SK"]`.
    pub(crate) fn pair(&self) -> Option<[Text; 2]> {
        match self.items() {
            [first, second] => Some([first.as_text()?, second.as_text()?]),
            _ => None,
        }
    }

    /// The value as JSON, for defaults and constants.
    pub(crate) fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) => text.as_str().into(),
            Value::Whole(number) => (*number).into(),
            Value::Real(number) => (*number).into(),
            Value::Flag(flag) => (*flag).into(),
            Value::Datetime => serde_json::Value::Null,
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Table(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.node.json())).collect(),
        }
    }
}
