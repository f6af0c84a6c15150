//! Limits of DynamoDB, which apply to all engines.

use crate::{
    codes,
    design::{Design, Entity, Table},
    diagnostic::Diagnostic,
    language::Languages,
    template::{Part, Template},
};

/// The maximum size of an item in bytes.
pub(crate) const MAX_ITEM: usize = 400 * 1024;
/// The maximum sizes of a partition key and of a sort key in bytes.
const MAX_PARTITION: usize = 2048;
const MAX_SORT: usize = 1024;
const MAX_INDEXES: usize = 20;

pub(super) fn check(design: &Design, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    for (at, table) in design.tables.iter().enumerate() {
        too_many_indexes(table, diagnostics);
        table_name(design, at, diagnostics);
    }
    for entity in &design.entities {
        let table = design.table_of(entity);
        for (attributes, key) in table.keys_of(entity) {
            key_length(&attributes.partition, &key.partition, MAX_PARTITION, languages, diagnostics);
            key_length(&attributes.sort, &key.sort, MAX_SORT, languages, diagnostics);
        }
        item_size(design, entity, languages, diagnostics);
    }
}

fn too_many_indexes(table: &Table, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(index) = table.indexes.get(MAX_INDEXES) {
        let message =
            format!("`{}` has {} indexes, but a table can have at most {MAX_INDEXES}", table.id, table.indexes.len());
        let help = "let entities share an index (each with its own templates), or split the table";
        codes::TOO_MANY_INDEXES.report(diagnostics, &index.span, message).help(help);
    }
}

fn table_name(design: &Design, at: usize, diagnostics: &mut Vec<Diagnostic>) {
    let table = &design.tables[at];
    let name = table.physical_name(&design.name);
    // The name of the design is checked elsewhere.
    let sample = table.physical_name("base");
    let good = (3..=255).contains(&sample.len())
        && sample.chars().all(|each| each.is_ascii_alphanumeric() || "_.-".contains(each));
    if !good {
        codes::TABLE_NAME
            .report(diagnostics, &table.name_span, format!("`{name}` is not a valid table name"))
            .help("3 to 255 letters, digits, `_`, `-` and `.`; `{base}` is the only placeholder");
    }
    if let Some(other) = design.tables[..at].iter().find(|other| other.physical_name(&design.name) == name) {
        let message = format!("`{}` and `{}` would be the same table `{name}`", other.id, table.id);
        codes::TABLE_NAME
            .report(diagnostics, &table.name_span, message)
            .also(&other.name_span, "the other table")
            .help("give one of them another name");
    }
}

/// The maximum length of a key in bytes.
fn longest(template: &Template, languages: &mut Languages) -> usize {
    template.parts.iter().fold(0, |sum: usize, part| {
        sum.saturating_add(match part {
            Part::Literal(literal) => literal.len(),
            Part::Slot(slot) => {
                let plain = slot.text_syntax.max_bytes(slot.pad);
                // An escaped ASCII character takes three bytes, any other character at most four.
                let wide = slot.terminator().map_or(4, |stop| 4.max(3 * stop.len_utf8()));
                let characters = slot.text_syntax.max_chars.saturating_mul(wide);
                if languages.may_need_escaping(slot) {
                    plain.saturating_mul(wide.max(3)).min(characters.max(plain))
                } else {
                    plain
                }
            }
        })
    })
}

fn key_length(
    attribute: &str,
    template: &Template,
    limit: usize,
    languages: &mut Languages,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let longest = longest(template, languages);
    if longest > limit {
        let message = format!("`{attribute}` can have {longest} bytes, but the limit is {limit}");
        let help = "give the fields in it a `max` (a character counts up to four bytes) or a bounded `pattern`";
        codes::KEY_TOO_LONG.report(diagnostics, &template.span, message).help(help);
    }
}

/// The maximum size of an item in bytes, as the stores count them.
pub(crate) fn worst_case(design: &Design, entity: &Entity) -> usize {
    worst_case_with(design, entity, &mut Languages::default())
}

fn worst_case_with(design: &Design, entity: &Entity, languages: &mut Languages) -> usize {
    let table = design.table_of(entity);
    let mut sum = entity.max_bytes();
    let mut counted: Vec<&str> = entity.fields.iter().map(|field| field.name.as_str()).collect();
    for (attribute, template) in table.templates_of(entity) {
        if !counted.contains(&attribute) {
            counted.push(attribute);
            sum = sum.saturating_add(attribute.len() + longest(template, languages));
        }
    }
    // Version, expiry, discriminator and schema version.
    sum.saturating_add(200)
}

fn item_size(design: &Design, entity: &Entity, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    let size = worst_case_with(design, entity, languages);
    if size > MAX_ITEM {
        let largest = entity.fields.iter().max_by_key(|field| field.max_bytes());
        let kilobytes = size / 1024;
        let message = format!("`{}` can have {kilobytes} KB, but the limit of an item is 400 KB", entity.name);
        let diagnostic = codes::ITEM_TOO_LARGE.report(diagnostics, &entity.span, message);
        if let Some(field) = largest {
            diagnostic.also(&field.span, format!("up to {} KB of it", field.max_bytes() / 1024));
        }
        diagnostic.help("lower `max` of its texts and lists, or keep long content in object storage");
    }
}
