//! HTTP paths: each has one meaning, and its parameters exist.

use std::collections::HashMap;

use crate::{
    codes,
    design::{AccessPattern, Design, Entity, SortBound},
    diagnostic::{Diagnostic, Span, list},
    field::{Field, FieldType},
    path::{server_path, without_parameter_names},
    template::is_field_name,
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    // Each route, without the names of its parameters, with its owner.
    let mut taken: HashMap<String, (String, Span)> = HashMap::new();
    for entity in &design.entities {
        let span = entity.spans.path.as_ref().unwrap_or(&entity.span);
        if !well_formed(&entity.path, span, diagnostics) {
            continue;
        }
        for name in names(&entity.path).filter(|name| entity.field(name).is_none()) {
            codes::BAD_PATH
                .report(diagnostics, span, format!("`{{{name}}}` is not a field of `{}`", entity.name))
                .help("name one of its fields, or leave the parameter out");
        }
        let who = format!("entity `{}`", entity.name);
        reserved(design, &entity.path, &who, span, diagnostics);
        take(without_parameter_names(&entity.path), &who, span, OTHER, &mut taken, diagnostics);
        if !entity.id_fields().is_empty() {
            take(without_parameter_names(&entity.item_path()), &who, span, OTHER, &mut taken, diagnostics);
        }
    }
    for access in &design.access_patterns {
        let Some(path) = &access.path else { continue };
        let span = access.path_span.as_ref().unwrap_or(&access.span);
        if !well_formed(path, span, diagnostics) {
            continue;
        }
        parameters(access, path, span, diagnostics);
        reserved(design, path, &format!("access pattern `{}`", access.name), span, diagnostics);
        // At the paths of its own entity one pattern may list the collection, and one may replace reading by key.
        let pattern = without_parameter_names(path);
        let route = match (design.lists_collection(access), design.is_lookup(access)) {
            (true, _) => format!("list {pattern}"),
            (false, true) => format!("find {pattern}"),
            (false, false) => pattern,
        };
        let help = if access.path_span.is_some() { OTHER } else { "its path comes from its name: give it a `path`" };
        take(route, &format!("access pattern `{}`", access.name), span, help, &mut taken, diagnostics);
    }
    for entity in &design.entities {
        hidden_items(design, entity, diagnostics);
    }
}

/// Reports a path that the server answers itself.
fn reserved(design: &Design, path: &str, who: &str, span: &Span, diagnostics: &mut Vec<Diagnostic>) {
    let Some(own) = server_path::find(&format!("{}{path}", design.http_prefix)) else { return };
    codes::RESERVED_PATH
        .report(diagnostics, span, format!("the {who} has the path `{own}`, which the server uses itself"))
        .help("give it another `path`, or give all paths a prefix, such as `[http]` with `prefix = \"/v1\"`");
}

/// Reports the paths with a literal where items of an entity have their id: a server prefers the literal, so an item with
/// this id cannot be reached.
fn hidden_items(design: &Design, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let items = entity.item_path();
    let others = design.entities.iter().filter(|other| other.name != entity.name).flat_map(|other| {
        let span = other.spans.path.as_ref().unwrap_or(&other.span);
        [other.path.clone(), other.item_path()].map(|path| (format!("entity `{}`", other.name), path, span))
    });
    let patterns = design.access_patterns.iter().filter_map(|access| {
        let span = access.path_span.as_ref().unwrap_or(&access.span);
        Some((format!("access pattern `{}`", access.name), access.path.clone()?, span))
    });
    for (who, path, span) in others.chain(patterns) {
        let Some(literal) = hiding_literal(entity, &items, &path) else { continue };
        codes::HIDDEN_ITEM
            .report(diagnostics, span, format!("the path of the {who} hides items of `{}`", entity.name))
            .here(format!("such as the item with `{literal}` in its id, at `{items}`"))
            .also(entity.spans.path.as_ref().unwrap_or(&entity.span), format!("the items of `{}`", entity.name))
            .help("give one of them another `path`, or narrow the field of the id with `pattern`");
    }
}

/// The literal of a path that the id of an item can have at the same place, if the whole path can be that of an item.
fn hiding_literal<'p>(entity: &Entity, items: &str, path: &'p str) -> Option<&'p str> {
    let parameter = |segment: &str| segment.starts_with('{');
    let mut found = None;
    if items.split('/').count() != path.split('/').count() {
        return None;
    }
    for (item, other) in items.split('/').zip(path.split('/')) {
        match (parameter(item), parameter(other)) {
            (false, false) if item != other => return None,
            // Here the item has the literal, which the server prefers.
            (false, true) if found.is_none() => return None,
            (true, false) => {
                let field = item.strip_prefix('{').and_then(|name| entity.field(name.strip_suffix('}')?))?;
                if !can_be(field, other) {
                    return None;
                }
                found = Some(other);
            }
            _ => {}
        }
    }
    found
}

/// Whether the text in a path can be a value of a field.
fn can_be(field: &Field, text: &str) -> bool {
    match field.field_type {
        FieldType::Integer => text.parse::<i64>().is_ok_and(|number| field.accepts(&number.into())),
        _ => field.accepts(&text.into()),
    }
}

const OTHER: &str = "give one of them another `path`";

fn take(
    route: String,
    who: &str,
    span: &Span,
    help: &str,
    taken: &mut HashMap<String, (String, Span)>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let Some((other, other_span)) = taken.get(&route) {
        let message = format!("the {who} and the {other} have the same path");
        codes::SAME_ROUTE.report(diagnostics, span, message).also(other_span, format!("the {other}")).help(help);
        return;
    }
    taken.insert(route, (who.to_owned(), span.clone()));
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn well_formed(path: &str, span: &Span, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let literal = |segment: &str| {
        !segment.is_empty() && segment.chars().all(|each| each.is_ascii_alphanumeric() || "-_.~:".contains(each))
    };
    let segment = |segment: &str| match segment.strip_prefix('{') {
        Some(name) => name.strip_suffix('}').is_some_and(is_field_name),
        None => literal(segment),
    };
    let good = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment));
    if !good {
        codes::BAD_PATH.report(diagnostics, span, format!("`{path}` is not a valid path")).help(
            "write it like `/users` or `/users/{userId}/roles`: a slash first, none last, parameters as whole \
             segments",
        );
    }
    good
}

fn parameters(access: &AccessPattern, path: &str, span: &Span, diagnostics: &mut Vec<Diagnostic>) {
    let mut known: Vec<&str> = access.by.iter().map(String::as_str).collect();
    known.extend(access.filter.iter().flat_map(|filter| filter.parameters()).map(|(name, _)| name));
    match &access.bound {
        SortBound::Prefix(field) => known.push(field),
        SortBound::Range(_) => known.extend(["from", "to"]),
        SortBound::Open | SortBound::Full => {}
    }
    for name in names(path).filter(|name| !known.contains(name)) {
        let message = format!("`{{{name}}}` is not a parameter of `{}`", access.name);
        codes::BAD_PATH.report(diagnostics, span, message).help(format!("its parameters are {}", list(&known)));
    }
}
