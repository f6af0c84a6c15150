//! A design file as a tree: TOML with the span of every value, in the order of the file.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    codes,
    diagnostic::{Diagnostic, Span},
};

/// A value and its span.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// A TOML date or time. The language has none; it is kept for the error message.
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

/// A text and its span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpannedText {
    pub(crate) value: String,
    pub(crate) span: Span,
}

impl SpannedText {
    /// The span of `range` in the source; the whole span when the text is written with escapes.
    pub(crate) fn span_of(&self, source: &str, range: Span) -> Span {
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

/// Reads TOML. Values that cannot be read are reported and left out.
pub(crate) fn parse(source: &str, diagnostics: &mut Vec<Diagnostic>) -> Node {
    let (root, errors) = DeTable::parse_recoverable(source);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let message = format!("this is not TOML: {}", error.message());
        codes::SYNTAX.report(diagnostics, &span, message).help("fix it to see the problems in the rest of the file");
    }
    table(root.get_ref(), root.span(), diagnostics)
}

fn table(table: &DeTable<'_>, span: Span, diagnostics: &mut Vec<Diagnostic>) -> Node {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            node: node(value, diagnostics),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Node { span, value: Value::Table(entries) }
}

fn node(spanned: &Spanned<DeValue<'_>>, diagnostics: &mut Vec<Diagnostic>) -> Node {
    let span = spanned.span();
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => {
                let message = format!("the number {} is too large", number.as_str());
                codes::SYNTAX.report(diagnostics, &span, message).help("whole numbers have 64 bits");
                Value::Integer(0)
            }
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => Value::List(items.iter().map(|item| node(item, diagnostics)).collect()),
        DeValue::Table(inner) => return table(inner, span, diagnostics),
    };
    Node { span, value }
}

impl Node {
    /// The kind of the value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number with decimals",
            Value::Boolean(_) => "true or false",
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

    pub(crate) fn as_text(&self) -> Option<SpannedText> {
        match &self.value {
            Value::Text(text) => Some(SpannedText { value: text.clone(), span: self.span.clone() }),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<SpannedText> {
        self.get(key).and_then(Node::as_text)
    }

    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.text(key).map(|text| text.value)
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<SpannedText> {
        self.get(key).map_or(&[][..], Node::items).iter().filter_map(Node::as_text).collect()
    }

    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Boolean(flag) => Some(flag),
            _ => None,
        }
    }

    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        match self.get(key)?.value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// The two texts of a pair such as `["PK", "SK"]`.
    pub(crate) fn pair(&self) -> Option<[SpannedText; 2]> {
        match self.items() {
            [first, second] => Some([first.as_text()?, second.as_text()?]),
            _ => None,
        }
    }

    /// The value as JSON, for defaults and constants.
    pub(crate) fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) => text.as_str().into(),
            Value::Integer(number) => (*number).into(),
            Value::Float(number) => (*number).into(),
            Value::Boolean(flag) => (*flag).into(),
            Value::Datetime => serde_json::Value::Null,
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Table(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.node.json())).collect(),
        }
    }
}
