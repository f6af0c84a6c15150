//! HTTP paths: each says one thing, and its parameters exist.

use std::collections::HashMap;

use crate::{
    codes,
    design::{Access, Design, Entity},
    diagnostic::{Diagnostic, Span, list},
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
        take(shape(&entity.path), &who, span, &mut taken, problems);
        if !entity.id_fields().is_empty() {
            let item = shape(&entity.path) + &"/{}".repeat(entity.id_fields().len());
            take(item, &who, span, &mut taken, problems);
        }
    }
    for access in &design.accesses {
        let entity = &design.entities[access.entity];
        if let (Some(path), Some(span)) = (&access.path, &access.path_span)
            && well_formed(path, span, problems)
        {
            parameters(access, path, span, problems);
            // The collection of an entity is listed by one of its own access patterns.
            if shape(path) == shape(&entity.path) {
                take(
                    format!("list {}", shape(path)),
                    &format!("access pattern `{}`", access.name),
                    span,
                    &mut taken,
                    problems,
                );
            } else if !is_lookup(access, entity) {
                take(shape(path), &format!("access pattern `{}`", access.name), span, &mut taken, problems);
            }
        }
    }
}

/// An access pattern that finds the one item of an entity's own path, through an index.
fn is_lookup(access: &Access, entity: &Entity) -> bool {
    let path = access.path.as_deref().unwrap_or_default();
    access.returns == crate::design::Returns::One
        && shape(path) == shape(&entity.path) + &"/{}".repeat(entity.id_fields().len())
}

fn take(
    route: String,
    who: &str,
    span: &Span,
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
            .help("give one of them another `path`"),
        );
        return;
    }
    taken.insert(route, (who.to_owned(), span.clone()));
}

/// The path with its parameters' names left out.
fn shape(path: &str) -> String {
    let segment = |segment: &str| if segment.starts_with('{') { "{}".to_owned() } else { segment.to_owned() };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
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
        crate::design::Bound::Prefix(field) => known.push(field),
        crate::design::Bound::Range(_) => known.extend(["from", "to"]),
        crate::design::Bound::Open | crate::design::Bound::Full => {}
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
