//! `#[derive(Entity)]`: a Rust type for an entity of a design, checked against the design at compile time.
//!
//! It is used through `nagaya::Entity`, where it is described.

mod attributes;
mod check;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Data, DataStruct, DeriveInput, Error, Fields, parse_macro_input};

use crate::attributes::EntityAttribute;

/// Binds a type to an entity of a design: `#[entity(design = "design/todo.toml", name = "todo")]`.
///
/// The path is relative to the source file, as with `include_str!`. It is a compile error if a field does not exist in the
/// design, has another type, or is optional in the design but not in the struct.
#[proc_macro_derive(Entity, attributes(entity))]
pub fn entity(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<Tokens, Error> {
    let binding = EntityAttribute::parse(input)?;
    let Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "an entity is a struct with named fields"));
    };
    let file = proc_macro::Span::call_site().local_file().unwrap_or_default();
    let path = std::path::absolute(file.with_file_name(&binding.design)).unwrap_or(file);
    let source = std::fs::read_to_string(&path).map_err(|error| {
        Error::new(binding.span, format!("the design `{}` cannot be read: {error}", binding.design))
    })?;
    let Some(design) = nagaya_design::check(&source, &[]).design else {
        let message = format!("the design `{0}` has errors; run `nagaya check {0}`", binding.design);
        return Err(Error::new(binding.span, message));
    };
    let Some(entity) = design.entity(&binding.name) else {
        let names: Vec<_> = design.entities.iter().map(|entity| entity.name.as_str()).collect();
        let message = format!("the design has no entity `{}`; it has {}", binding.name, names.join(", "));
        return Err(Error::new(binding.span, message));
    };
    check::check(entity, &input.attrs, fields, binding.span)?;

    let (name, system, ident) = (&binding.name, &design.name, &input.ident);
    // Recompile when the design changes.
    let path = path.to_string_lossy().into_owned();
    Ok(quote! {
        const _: &[u8] = include_bytes!(#path);

        impl ::nagaya::Entity for #ident {
            const DESIGN_NAME: &'static str = #system;
            const NAME: &'static str = #name;
        }
    })
}
