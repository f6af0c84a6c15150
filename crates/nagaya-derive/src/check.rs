//! Checks that a struct can hold the items of an entity.

use nagaya_design::{Entity, Field, FieldType, TimestampPrecision};
use proc_macro2::Span;
use syn::{Attribute, Error, FieldsNamed, GenericArgument, PathArguments, Type as RustType};

use crate::attributes::SerdeAttributes;

/// Reports every difference between a struct and an entity at the field where it is.
pub(crate) fn check(entity: &Entity, attributes: &[Attribute], fields: &FieldsNamed, span: Span) -> Result<(), Error> {
    let all = SerdeAttributes::parse(attributes)?;
    let mut errors: Vec<Error> = Vec::new();
    let mut held = Vec::new();
    for field in &fields.named {
        let serde = SerdeAttributes::parse(&field.attrs)?;
        if serde.skip {
            continue;
        }
        if serde.flatten {
            errors.push(Error::new_spanned(field, "a flattened field cannot be checked against the design"));
            continue;
        }
        let name = serde.name(&all, field);
        let (kind, may_be_absent) = match inner_of("Option", &field.ty) {
            Some(inner) => (inner, true),
            None => (&field.ty, serde.default),
        };
        match entity.fields.iter().find(|each| each.name == name) {
            Some(known) => {
                errors.extend(
                    type_mismatch(known, kind, may_be_absent)
                        .map(|message| Error::new_spanned(field, format!("`{name}` of `{}` {message}", entity.name))),
                );
            }
            None if entity.version.as_ref() == Some(&name) => {}
            None => {
                let names: Vec<_> = entity.fields.iter().map(|field| field.name.as_str()).collect();
                let message = format!("`{}` has no field `{name}`; it has {}", entity.name, names.join(", "));
                errors.push(Error::new_spanned(field, message));
            }
        }
        held.push(name);
    }
    let tenant = entity.tenant.as_deref();
    for field in &entity.fields {
        let has_to_be_given = !field.optional && field.default.is_none() && Some(field.name.as_str()) != tenant;
        if has_to_be_given && !held.contains(&field.name) {
            errors.push(Error::new(span, format!("`{}` needs its field `{}`", entity.name, field.name)));
        }
    }
    match errors.into_iter().reduce(|mut all, next| {
        all.combine(next);
        all
    }) {
        Some(errors) => Err(errors),
        None => Ok(()),
    }
}

/// Why a Rust type cannot hold a field.
fn type_mismatch(field: &Field, kind: &RustType, may_be_absent: bool) -> Option<String> {
    if field.secret && !may_be_absent {
        return Some("is secret and never read back: make it an `Option`".to_owned());
    }
    if field.optional && !may_be_absent {
        return Some("may be absent: make it an `Option`".to_owned());
    }
    let name = last_segment(kind)?;
    let wanted: &[&str] = match &field.field_type {
        FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch) => {
            &["i64", "u64", "i32", "u32", "i16", "u16", "u8", "i8"]
        }
        FieldType::Number => &["f64", "f32", "i64", "u64", "i32", "u32", "Number"],
        FieldType::Boolean => &["bool"],
        FieldType::List(_) => &["Vec", "BTreeSet", "HashSet", "VecDeque", "Value"],
        FieldType::Map(_) => &["BTreeMap", "HashMap", "Map", "Value"],
        FieldType::Any => return None,
        FieldType::String | FieldType::Timestamp(_) | FieldType::Date | FieldType::Ulid | FieldType::Uuid => {
            &["String"]
        }
    };
    // An unknown type may have its own serde implementation.
    let known = [
        "i64", "u64", "i32", "u32", "i16", "u16", "u8", "i8", "f64", "f32", "bool", "Vec", "BTreeSet", "HashSet",
        "VecDeque", "BTreeMap", "HashMap", "String",
    ];
    let fits = wanted.contains(&name.as_str()) || !known.contains(&name.as_str());
    (!fits).then(|| format!("is {}, which a `{name}` cannot hold; use `{}`", a(field.field_type.name()), wanted[0]))
}

fn a(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {word}")
}

fn last_segment(kind: &RustType) -> Option<String> {
    match kind {
        RustType::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// The `T` of an `Option<T>`.
fn inner_of<'t>(wrapper: &str, kind: &'t RustType) -> Option<&'t RustType> {
    let RustType::Path(path) = kind else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == wrapper)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}
