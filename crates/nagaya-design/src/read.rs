//! Holds a design file to the grammar: unknown and missing keys, wrong types, values that are no choice.

use crate::{
    codes,
    diagnostic::{Diagnostic, Span, closest, did_you_mean, list},
    grammar::{self, Shape, Table},
    tree::{self, Entry, Node, Value},
};

/// The tree of a design file, with every departure from the grammar reported.
pub(crate) fn read(source: &str, problems: &mut Vec<Diagnostic>) -> Node {
    let root = tree::parse(source, problems);
    // After a syntax error whole sections may be missing; to complain of each would bury the cause.
    let whole = problems.is_empty();
    if root.entries().is_empty() && whole {
        problems.push(
            Diagnostic::new(&codes::MISSING_KEY, 0..0, "there is no design in this file")
                .help("start with `name` and `version`, then `[tenant]`, `[table.…]` and `[entity.…]`"),
        );
        return root;
    }
    Reader { problems, whole }.table(&root, &grammar::DESIGN, 0..0);
    root
}

struct Reader<'a> {
    problems: &'a mut Vec<Diagnostic>,
    whole: bool,
}

impl Reader<'_> {
    fn shape(&mut self, node: &Node, shape: &'static Shape, at: Span) {
        match (shape, &node.value) {
            (Shape::Any, Value::List(items)) => {
                items.iter().for_each(|item| self.shape(item, &Shape::Any, item.span.clone()));
            }
            (Shape::Any, Value::Table(entries)) => {
                entries.iter().for_each(|entry| self.shape(&entry.node, &Shape::Any, entry.key_span.clone()));
            }
            (Shape::Any, _) if !matches!(node.value, Value::Datetime) => {}
            (Shape::Text, Value::Text(_)) | (Shape::Flag, Value::Flag(_)) | (Shape::Whole, Value::Whole(_)) => {}
            (Shape::OneOf(choices), Value::Text(text)) => {
                if !choices.contains(&text.as_str()) {
                    self.problems.push(
                        Diagnostic::new(
                            &codes::NOT_A_CHOICE,
                            node.span.clone(),
                            format!("`{text}` is not one of the choices"),
                        )
                        .help(match closest(text, choices.iter().copied()) {
                            Some(near) => format!("did you mean `{near}`? The choices are {}", list(choices)),
                            None => format!("the choices are {}", list(choices)),
                        }),
                    );
                }
            }
            (Shape::Pair, Value::List(items)) if items.len() == 2 => {
                items.iter().for_each(|item| self.shape(item, &Shape::Text, at.clone()));
            }
            (Shape::ListOf(inner), Value::List(items)) => {
                items.iter().for_each(|item| self.shape(item, inner, item.span.clone()));
            }
            (Shape::Table(inner), Value::Table(_)) => self.table(node, inner, at),
            (Shape::Named(inner), Value::Table(entries)) => {
                for Entry { key_span, node, .. } in entries {
                    self.shape(node, inner, key_span.clone());
                }
            }
            (Shape::Either(shapes), _) => match shapes.iter().find(|shape| fits(shape, &node.value)) {
                Some(shape) => self.shape(node, shape, at),
                None => self.wrong_type(node, shape),
            },
            _ => self.wrong_type(node, shape),
        }
    }

    fn wrong_type(&mut self, node: &Node, shape: &Shape) {
        let found = match (shape, &node.value) {
            (Shape::Pair, Value::List(items)) => format!("a list of {}", items.len()),
            _ => node.kind().to_owned(),
        };
        let message = format!("this should be {}, not {found}", wanted(shape));
        let help = match (shape, &node.value) {
            (Shape::Pair, _) => "name the partition attribute and the sort attribute: `[\"PK\", \"SK\"]`".to_owned(),
            (Shape::Text | Shape::OneOf(_), Value::Whole(_) | Value::Real(_) | Value::Flag(_)) => {
                "put it in quotes".to_owned()
            }
            (Shape::ListOf(_), Value::Text(_)) => "put it in brackets: `[…]`".to_owned(),
            (_, Value::Datetime) => "dates and times are written as texts, in quotes".to_owned(),
            _ => format!("write {} here", wanted(shape)),
        };
        self.problems.push(Diagnostic::new(&codes::WRONG_TYPE, node.span.clone(), message).help(help));
    }

    fn table(&mut self, node: &Node, table: &'static Table, at: Span) {
        for entry in node.entries() {
            match table.keys.iter().find(|key| key.name == entry.key) {
                Some(key) => self.shape(&entry.node, &key.shape, entry.key_span.clone()),
                None => match table.rest {
                    Some(rest) => self.shape(&entry.node, rest, entry.key_span.clone()),
                    None => self.unknown_key(entry, table),
                },
            }
        }
        for key in table.keys.iter().filter(|key| key.required && self.whole) {
            if node.get(key.name).is_none() {
                self.problems.push(
                    Diagnostic::new(
                        &codes::MISSING_KEY,
                        at.clone(),
                        format!("{} needs the key `{}`", table.called, key.name),
                    )
                    .help(format!("add `{}`: {}", key.name, key.doc)),
                );
            }
        }
    }

    fn unknown_key(&mut self, entry: &Entry, table: &'static Table) {
        let known = table.keys.iter().map(|key| key.name);
        self.problems.push(
            Diagnostic::new(
                &codes::UNKNOWN_KEY,
                entry.key_span.clone(),
                format!("{} has no key `{}`", table.called, entry.key),
            )
            .help(did_you_mean(&entry.key, known)),
        );
    }
}

fn fits(shape: &Shape, value: &Value) -> bool {
    matches!(
        (shape, value),
        (Shape::Text | Shape::OneOf(_), Value::Text(_))
            | (Shape::Flag, Value::Flag(_))
            | (Shape::Whole, Value::Whole(_))
            | (Shape::Pair | Shape::ListOf(_), Value::List(_))
            | (Shape::Table(_) | Shape::Named(_), Value::Table(_))
            | (Shape::Any, _)
    )
}

fn wanted(shape: &Shape) -> String {
    match shape {
        Shape::Text | Shape::OneOf(_) => "a text".to_owned(),
        Shape::Flag => "`true` or `false`".to_owned(),
        Shape::Whole => "a whole number".to_owned(),
        Shape::Any => "a value".to_owned(),
        Shape::Pair => "a list of two texts".to_owned(),
        Shape::ListOf(_) => "a list".to_owned(),
        Shape::Table(table) => format!("{} (a table)", table.called),
        Shape::Named(_) => "a table".to_owned(),
        Shape::Either(shapes) => shapes.iter().map(wanted).collect::<Vec<_>>().join(" or "),
    }
}
