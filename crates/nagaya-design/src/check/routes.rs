//! HTTP paths: each says one thing, and its parameters exist.

use std::collections::HashMap;

use crate::{
    codes,
    design::{Access, Bound, Design},
    diagnostic::{Diagnostic, Span, list},
    path::shape,
    template::is_field_name,
};

pub(super) fn check(design: &Design, problems: &mut Vec<Diagnostic>) {
    // A route, without the names of its parameters, and who has it.
    let mut taken: HashMap<String, (String, Span)> = HashMap::new();
    for entity in &design.entities {
        let span = entity.spans.path.as_ref().unwrap_or(&entity.span);
        if !well_formed(&entity.path, span, problems) {
            continue;
        }
        for name in names(&entity.path).filter(|name| entity.field(name).is_none()) {
            problems.push(
                Diagnostic::new(
                    &codes::BAD_PATH,
                    span.clone(),
                    format!("`{{{name}}}` is not a field of `{}`", entity.name),
                )
                .help("name one of its fields, or leave the parameter out"),
            );
        }
        let who = format!("entity `{}`", entity.name);
        take(shape(&entity.path), &who, span, OTHER, &mut taken, problems);
        if !entity.id_fields().is_empty() {
            take(shape(&entity.item_path()), &who, span, OTHER, &mut taken, problems);
        }
    }
    for access in &design.accesses {
        let Some(path) = &access.path else { continue };
        let span = access.path_span.as_ref().unwrap_or(&access.span);
        if !well_formed(path, span, problems) {
            continue;
        }
        parameters(access, path, span, problems);
        // At the paths of its own entity, one pattern lists the collection and one finds an item otherwise than by key.
        let shape = shape(path);
        let route = match (design.lists_collection(access), design.is_lookup(access)) {
            (true, _) => format!("list {shape}"),
            (false, true) => format!("find {shape}"),
            (false, false) => shape,
        };
        let help = if access.path_span.is_some() { OTHER } else { "its path is made of its name: give it a `path`" };
        take(route, &format!("access pattern `{}`", access.name), span, help, &mut taken, problems);
    }
}

const OTHER: &str = "give one of them another `path`";

fn take(
    route: String,
    who: &str,
    span: &Span,
    help: &str,
    taken: &mut HashMap<String, (String, Span)>,
    problems: &mut Vec<Diagnostic>,
) {
    if let Some((other, other_span)) = taken.get(&route) {
        problems.push(
            Diagnostic::new(
                &codes::SAME_ROUTE,
                span.clone(),
                format!("the {who} and the {other} would answer at the same path"),
            )
            .also(other_span.clone(), format!("the {other}"))
            .help(help),
        );
        return;
    }
    taken.insert(route, (who.to_owned(), span.clone()));
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn well_formed(path: &str, span: &Span, problems: &mut Vec<Diagnostic>) -> bool {
    let literal = |segment: &str| {
        !segment.is_empty() && segment.chars().all(|each| each.is_ascii_alphanumeric() || "-_.~:".contains(each))
    };
    let segment = |segment: &str| match segment.strip_prefix('{') {
        Some(name) => name.strip_suffix('}').is_some_and(is_field_name),
        None => literal(segment),
    };
    let good = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment));
    if !good {
        problems.push(Diagnostic::new(&codes::BAD_PATH, span.clone(), format!("`{path}` cannot be a path")).help(
            "write it like `/users` or `/users/{userId}/roles`: a slash first, none last, parameters as whole segments",
        ));
    }
    good
}

fn parameters(access: &Access, path: &str, span: &Span, problems: &mut Vec<Diagnostic>) {
    let mut known: Vec<&str> = access.by.iter().map(String::as_str).collect();
    known.extend(access.filter.iter().flat_map(|filter| filter.parameters()).map(|(name, _)| name));
    match &access.bound {
        Bound::Prefix(field) => known.push(field),
        Bound::Range(_) => known.extend(["from", "to"]),
        Bound::Open | Bound::Full => {}
    }
    for name in names(path).filter(|name| !known.contains(name)) {
        problems.push(
            Diagnostic::new(
                &codes::BAD_PATH,
                span.clone(),
                format!("`{{{name}}}` is not a parameter of `{}`", access.name),
            )
            .help(format!("its parameters are {}", list(&known))),
        );
    }
}
