//! Key attributes: each has one meaning, and an item is only in the indexes that its entity declares.

use crate::{
    codes,
    design::{Design, Entity, KeyAttributes, SCHEMA_ATTRIBUTE, Table},
    diagnostic::{Diagnostic, Span},
    field::Field,
    text_syntax::{ScalarType, TimestampPrecision},
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for entity in &design.entities {
        let table = design.table_of(entity);
        attributes_are_derived(table, entity, diagnostics);
        managed_attributes(table, entity, diagnostics);
        undeclared_indexes(table, entity, diagnostics);
    }
}

/// A key attribute may also be a field only if the template is exactly that field. Keys that share an attribute have the
/// same template for it.
fn attributes_are_derived(table: &Table, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let templates: Vec<_> = table.templates_of(entity).collect();
    for (at, (attribute, template)) in templates.iter().enumerate() {
        if let Some(field) = entity.field(attribute)
            && (template.as_str() != format!("{{{attribute}}}") || !is_stored_as_text(field))
        {
            let message = format!("`{attribute}` would be both a derived attribute and a field");
            let help = if is_stored_as_text(field) {
                format!("rename the field, or derive the attribute from it alone: `{attribute} = \"{{{attribute}}}\"`")
            } else {
                "key attributes are strings: derive it under another name, padded if it is a number".to_owned()
            };
            codes::ATTRIBUTE_IS_FIELD
                .report(diagnostics, &template.span, message)
                .also(&field.span, "the field")
                .help(help);
        }
        if table.discriminator.as_deref() == Some(*attribute)
            && Some(template.as_str()) != entity.discriminator.as_deref()
        {
            let message = format!("`{attribute}` is the discriminator, so it cannot be `{template}` here");
            codes::ATTRIBUTE_IS_FIELD.report(diagnostics, &template.span, message).help(format!(
                "write `{attribute} = \"{}\"`, the entity's discriminator",
                entity.discriminator.as_deref().unwrap_or_default()
            ));
        }
        let earlier =
            templates[..at].iter().find(|(name, other)| name == attribute && other.as_str() != template.as_str());
        if let Some((_, other)) = earlier {
            let message = format!("`{attribute}` cannot be `{template}` and `{other}` at once");
            codes::KEY_ATTRIBUTES
                .report(diagnostics, &template.span, message)
                .also(&other.span, "the other template")
                .help("an attribute that several keys share needs the same template in each");
        }
    }
}

const EXPIRY: &str = "the expiry";

fn managed_attributes(table: &Table, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let mut managed: Vec<(&str, &str)> = Vec::new();
    managed.extend(entity.version.as_deref().map(|name| (name, "the optimistic version")));
    managed.extend(table.discriminator.as_deref().map(|name| (name, "the discriminator")));
    managed.extend(entity.schema.map(|_| (SCHEMA_ATTRIBUTE, "the schema version")));
    managed.extend(table.ttl.as_deref().map(|name| (name, EXPIRY)));
    for (name, what) in &managed {
        // Without `ttl_after` the application sets the expiry, so it is a field.
        let free = *what == EXPIRY && entity.ttl_after.is_none();
        if let Some(field) = entity.fields.iter().find(|field| field.name == *name && !free) {
            codes::MANAGED_ATTRIBUTE
                .report(diagnostics, &field.span, format!("`{name}` is {what}, which the design manages"))
                .help("remove the field: the attribute exists without it");
        }
    }
    for (at, (name, what)) in managed.iter().enumerate() {
        let clash = managed[..at].iter().find(|(other, _)| other == name).map(|(_, other)| *other);
        let key = table.templates_of(entity).any(|(attribute, _)| attribute == *name && *what != "the discriminator");
        let clash = clash.or(key.then_some("a key attribute"));
        if let Some(clash) = clash {
            let span: Span = entity.spans.version.clone().unwrap_or_else(|| entity.span.clone());
            let message = format!("`{name}` cannot be {clash} and {what} at once");
            codes::MANAGED_ATTRIBUTE.report(diagnostics, &span, message).help("give one of them another name");
        }
    }
}

/// The store puts every item with both attributes of an index into the index, regardless of conditions.
fn undeclared_indexes(table: &Table, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let derived: Vec<_> = table.templates_of(entity).collect();
    let carries = |attribute: &str| {
        entity.fields.iter().any(|field| field.name == attribute)
            || derived.iter().any(|(name, _)| *name == attribute)
            || (table.discriminator.as_deref() == Some(attribute))
    };
    let template = |attribute: &str| match derived.iter().find(|(name, _)| *name == attribute) {
        Some((_, template)) => template.as_str().to_owned(),
        None if table.discriminator.as_deref() == Some(attribute) => entity.discriminator.clone().unwrap_or_default(),
        None => format!("{{{attribute}}}"),
    };
    for index in table.indexes.iter().filter(|index| entity.mapping(&index.name).is_none()) {
        let KeyAttributes { partition, sort } = &index.key;
        if carries(partition) && carries(sort) {
            let message =
                format!("`{}` has `{partition}` and `{sort}`, so the store puts it into `{}`", entity.name, index.name);
            codes::UNDECLARED_INDEX.report(diagnostics, &entity.span, message).also(&index.span, "the index").help(
                format!(
                    "declare it: `index.{} = {{ {partition} = \"{}\", {sort} = \"{}\" }}`, or rename a field",
                    index.name,
                    template(partition),
                    template(sort),
                ),
            );
        }
    }
    // An index attribute is a string in every item of the table, whether the item is in the index or not.
    for index in &table.indexes {
        for attribute in [&index.key.partition, &index.key.sort] {
            let field = entity.fields.iter().find(|field| field.name == *attribute && !is_stored_as_text(field));
            let mapped = derived.iter().any(|(name, _)| name == attribute);
            let version = entity.version.as_ref() == Some(attribute) && !mapped;
            if let (Some(span), false) = (field.map(|field| &field.span).or(version.then_some(&entity.span)), mapped) {
                let message = format!(
                    "`{attribute}` is an attribute of the index `{}`, and index attributes are strings",
                    index.name
                );
                let help = "rename one of the two";
                codes::ATTRIBUTE_IS_FIELD.report(diagnostics, span, message).also(&index.span, "the index").help(help);
            }
        }
    }
    for mapping in &entity.indexes {
        let (Some(when), Some(text)) = (&mapping.when, &mapping.when_text) else { continue };
        let KeyAttributes { partition, sort } = &table.indexes[mapping.index].key;
        let own = |attribute: &str| table.key.partition == attribute || table.key.sort == attribute;
        // An attribute of this index alone can be left out; a field is present as long as the item has it.
        let stays = |attribute: &str| own(attribute) || carries_anyway(table, entity, attribute);
        let leaves = [partition, sort].iter().any(|attribute| !stays(attribute) || when.is_presence_of(attribute));
        if !leaves {
            let message = format!(
                "`{partition}` and `{sort}` are fields, so the item stays in `{}` when this becomes false",
                mapping.name
            );
            let help = "give the index an attribute that is not a field";
            codes::UNDECLARED_INDEX.report(diagnostics, &text.span, message).help(help);
        }
    }
}

/// Key attributes are strings.
fn is_stored_as_text(field: &Field) -> bool {
    field.text_syntax.as_ref().is_some_and(|form| {
        !matches!(
            form.scalar_type,
            ScalarType::Integer | ScalarType::Boolean | ScalarType::Timestamp(TimestampPrecision::Epoch)
        )
    })
}

/// Whether an item has an attribute even when an index leaves it out.
fn carries_anyway(table: &Table, entity: &Entity, attribute: &str) -> bool {
    entity.fields.iter().any(|field| field.name == attribute) || table.discriminator.as_deref() == Some(attribute)
}
