//! The `#[entity]` attribute, and the serde attributes that name fields.

use proc_macro2::Span;
use syn::{Attribute, DeriveInput, Error, Field, LitStr, spanned::Spanned as _};

/// `#[entity(design = "…", name = "…")]`.
pub(crate) struct EntityAttribute {
    pub(crate) design: String,
    pub(crate) name: String,
    pub(crate) span: Span,
}

impl EntityAttribute {
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let help = "write `#[entity(design = \"design/todo.toml\", name = \"todo\")]`";
        let Some(attribute) = input.attrs.iter().find(|attribute| attribute.path().is_ident("entity")) else {
            return Err(Error::new_spanned(&input.ident, format!("the attribute is missing: {help}")));
        };
        let (mut design, mut name) = (None, None);
        attribute.parse_nested_meta(|meta| {
            let slot = if meta.path.is_ident("design") {
                &mut design
            } else if meta.path.is_ident("name") {
                &mut name
            } else {
                return Err(meta.error(help));
            };
            *slot = Some(meta.value()?.parse::<LitStr>()?.value());
            Ok(())
        })?;
        match (design, name) {
            (Some(design), Some(name)) => Ok(EntityAttribute { design, name, span: attribute.span() }),
            _ => Err(Error::new_spanned(attribute, help)),
        }
    }
}

/// The serde attributes of a struct or field that matter here.
#[derive(Default)]
pub(crate) struct SerdeAttributes {
    pub(crate) rename: Option<String>,
    pub(crate) rename_all: Option<String>,
    pub(crate) default: bool,
    pub(crate) skip: bool,
    pub(crate) flatten: bool,
}

impl SerdeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut found = SerdeAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let is = |name: &str| meta.path.is_ident(name);
                if is("rename") || is("rename_all") {
                    let text = meta.value()?.parse::<LitStr>()?.value();
                    if is("rename") {
                        found.rename = Some(text);
                    } else {
                        found.rename_all = Some(text);
                    }
                    return Ok(());
                }
                found.default |= is("default");
                found.skip |= is("skip");
                found.flatten |= is("flatten");
                // Skip the value of any other attribute.
                if meta.input.peek(syn::Token![=]) {
                    meta.value()?.parse::<syn::Expr>()?;
                }
                if meta.input.peek(syn::token::Paren) {
                    let inner;
                    syn::parenthesized!(inner in meta.input);
                    inner.parse::<proc_macro2::TokenStream>()?;
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// The name of a field in an item.
    pub(crate) fn name(&self, all: &SerdeAttributes, field: &Field) -> String {
        let ident = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let ident = ident.trim_start_matches("r#");
        match (&self.rename, all.rename_all.as_deref()) {
            (Some(name), _) => name.clone(),
            (None, Some("camelCase")) => camel(ident),
            _ => ident.to_owned(),
        }
    }
}

/// `created_at` → `createdAt`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}
