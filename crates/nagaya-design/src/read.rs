//! Checks a design file against the grammar: unknown and missing keys, wrong types, values that are not allowed.

use crate::{
    codes,
    diagnostic::{Diagnostic, Span, closest, did_you_mean, list},
    grammar::{self, Table, ValueKind},
    tree::{self, Entry, Node, Value},
};

/// Reads a design file and reports everything that is not in the grammar.
pub(crate) fn read(source: &str, diagnostics: &mut Vec<Diagnostic>) -> Node {
    let root = tree::parse(source, diagnostics);
    // After a syntax error whole sections may be missing. Reporting each of them would hide the cause.
    let whole = diagnostics.is_empty();
    if root.entries().is_empty() && whole {
        codes::MISSING_KEY
            .report(diagnostics, &(0..0), "there is no design in this file")
            .help("start with `name` and `version`, then `[tenant]`, `[table.…]` and `[entity.…]`");
        return root;
    }
    Reader { diagnostics, whole }.table(&root, &grammar::DESIGN, 0..0);
    root
}

struct Reader<'a> {
    diagnostics: &'a mut Vec<Diagnostic>,
    whole: bool,
}

impl Reader<'_> {
    fn kind(&mut self, node: &Node, kind: &'static ValueKind, at: Span) {
        match (kind, &node.value) {
            (ValueKind::Any, Value::List(items)) => {
                items.iter().for_each(|item| self.kind(item, &ValueKind::Any, item.span.clone()));
            }
            (ValueKind::Any, Value::Table(entries)) => {
                entries.iter().for_each(|entry| self.kind(&entry.node, &ValueKind::Any, entry.key_span.clone()));
            }
            (ValueKind::Any, _) if !matches!(node.value, Value::Datetime) => {}
            (ValueKind::Text, Value::Text(_))
            | (ValueKind::Boolean, Value::Boolean(_))
            | (ValueKind::Integer, Value::Integer(_)) => {}
            (ValueKind::OneOf(choices), Value::Text(text)) => {
                if !choices.contains(&text.as_str()) {
                    codes::NOT_A_CHOICE
                        .report(self.diagnostics, &node.span, format!("`{text}` is not one of the choices"))
                        .help(match closest(text, choices.iter().copied()) {
                            Some(near) => format!("did you mean `{near}`? The choices are {}", list(choices)),
                            None => format!("the choices are {}", list(choices)),
                        });
                }
            }
            (ValueKind::Pair, Value::List(items)) if items.len() == 2 => {
                items.iter().for_each(|item| self.kind(item, &ValueKind::Text, at.clone()));
            }
            (ValueKind::ListOf(inner), Value::List(items)) => {
                items.iter().for_each(|item| self.kind(item, inner, item.span.clone()));
            }
            (ValueKind::Table(inner), Value::Table(_)) => self.table(node, inner, at),
            (ValueKind::Named(inner), Value::Table(entries)) => {
                for Entry { key_span, node, .. } in entries {
                    self.kind(node, inner, key_span.clone());
                }
            }
            (ValueKind::Either(shapes), _) => match shapes.iter().find(|kind| fits(kind, &node.value)) {
                Some(kind) => self.kind(node, kind, at),
                None => self.wrong_type(node, kind),
            },
            _ => self.wrong_type(node, kind),
        }
    }

    fn wrong_type(&mut self, node: &Node, kind: &ValueKind) {
        let found = match (kind, &node.value) {
            (ValueKind::Pair, Value::List(items)) => format!("a list of {}", items.len()),
            _ => node.kind().to_owned(),
        };
        let message = format!("this should be {}, not {found}", wanted(kind));
        let help = match (kind, &node.value) {
            (ValueKind::Pair, _) => {
                "name the partition attribute and the sort attribute: `[\"PK\", \"SK\"]`".to_owned()
            }
            (ValueKind::Text | ValueKind::OneOf(_), Value::Integer(_) | Value::Float(_) | Value::Boolean(_)) => {
                "put it in quotes".to_owned()
            }
            (ValueKind::ListOf(_), Value::Text(_)) => "put it in brackets: `[…]`".to_owned(),
            (_, Value::Datetime) => "dates and times are written as texts, in quotes".to_owned(),
            _ => format!("write {} here", wanted(kind)),
        };
        codes::WRONG_TYPE.report(self.diagnostics, &node.span, message).help(help);
    }

    fn table(&mut self, node: &Node, table: &'static Table, at: Span) {
        for entry in node.entries() {
            match table.keys.iter().find(|key| key.name == entry.key) {
                Some(key) => self.kind(&entry.node, &key.kind, entry.key_span.clone()),
                None => match table.rest {
                    Some(rest) => self.kind(&entry.node, rest, entry.key_span.clone()),
                    None => self.unknown_key(entry, table),
                },
            }
        }
        for key in table.keys.iter().filter(|key| key.required && self.whole) {
            if node.get(key.name).is_none() {
                codes::MISSING_KEY
                    .report(self.diagnostics, &at, format!("{} needs the key `{}`", table.noun, key.name))
                    .help(format!("add `{}`: {}", key.name, key.doc));
            }
        }
    }

    fn unknown_key(&mut self, entry: &Entry, table: &'static Table) {
        let known = table.keys.iter().map(|key| key.name);
        let message = format!("{} has no key `{}`", table.noun, entry.key);
        codes::UNKNOWN_KEY.report(self.diagnostics, &entry.key_span, message).help(did_you_mean(&entry.key, known));
    }
}

fn fits(kind: &ValueKind, value: &Value) -> bool {
    matches!(
        (kind, value),
        (ValueKind::Text | ValueKind::OneOf(_), Value::Text(_))
            | (ValueKind::Boolean, Value::Boolean(_))
            | (ValueKind::Integer, Value::Integer(_))
            | (ValueKind::Pair | ValueKind::ListOf(_), Value::List(_))
            | (ValueKind::Table(_) | ValueKind::Named(_), Value::Table(_))
            | (ValueKind::Any, _)
    )
}

fn wanted(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Text | ValueKind::OneOf(_) => "a text".to_owned(),
        ValueKind::Boolean => "`true` or `false`".to_owned(),
        ValueKind::Integer => "a whole number".to_owned(),
        ValueKind::Any => "a value".to_owned(),
        ValueKind::Pair => "a list of two texts".to_owned(),
        ValueKind::ListOf(_) => "a list".to_owned(),
        ValueKind::Table(table) => format!("{} (a table)", table.noun),
        ValueKind::Named(_) => "a table".to_owned(),
        ValueKind::Either(shapes) => shapes.iter().map(wanted).collect::<Vec<_>>().join(" or "),
    }
}
