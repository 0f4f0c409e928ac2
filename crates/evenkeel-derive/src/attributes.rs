//! The attributes that an item has already.

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Path, Token};

/// Returns the documentation of an item as one text.
pub(crate) fn documentation(attributes: &[Attribute]) -> Option<String> {
    let lines =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| match &attribute
            .meta
            .require_name_value()
            .ok()?
            .value
        {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        });
    let text = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Returns whether a derive of this name is listed.
pub(crate) fn derives(attributes: &[Attribute], name: &str) -> bool {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let paths = lists.filter_map(|list| list.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated).ok());
    paths.flatten().any(|path| path.segments.last().is_some_and(|last| last.ident == name))
}

/// Returns whether `#[serde(…)]` sets one of these keys.
pub(crate) fn serde_sets(attributes: &[Attribute], keys: &[&str]) -> bool {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let metas = lists.filter_map(|list| list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok());
    metas.flatten().any(|meta| keys.iter().any(|key| meta.path().is_ident(key)))
}

/// Returns whether a type names a floating point number.
pub(crate) fn mentions_float(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(name) => name == "f32" || name == "f64",
        proc_macro2::TokenTree::Group(group) => mentions_float(group.stream()),
        _ => false,
    })
}
