//! `#[x_kube(…)]`: replaced by attributes of schemars, or removed if there are no schemas.

use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Meta, Path, Result, Token, parse_quote};

use crate::attributes::mentions_float;

/// Translates the attributes of an item, its variants and its fields.
pub(crate) fn translate(item: &mut DeriveInput, facade: &Path, has_schema: bool) -> Result<()> {
    let mut errors = None;
    let mut note = |result: Result<()>| match (result, &mut errors) {
        (Err(error), None) => errors = Some(error),
        (Err(error), Some(errors)) => errors.combine(error),
        (Ok(()), _) => {}
    };
    note(attributes(&mut item.attrs, facade, has_schema).map(drop));
    match &mut item.data {
        Data::Struct(data) => each(&mut data.fields, |field| note(translate_field(field, facade, has_schema))),
        Data::Enum(data) => {
            for variant in &mut data.variants {
                note(attributes(&mut variant.attrs, facade, has_schema).map(drop));
                each(&mut variant.fields, |field| note(translate_field(field, facade, has_schema)));
            }
        }
        Data::Union(_) => note(Err(Error::new(item.ident.span(), "a union has no schema"))),
    }
    errors.map_or(Ok(()), Err)
}

fn each(fields: &mut Fields, visit: impl FnMut(&mut Field)) {
    fields.iter_mut().for_each(visit);
}

fn translate_field(field: &mut Field, facade: &Path, has_schema: bool) -> Result<()> {
    let permits_float = attributes(&mut field.attrs, facade, has_schema)?;
    if !permits_float && mentions_float(field.ty.to_token_stream()) {
        let text = "floating point numbers differ between languages after a round trip; use an integer or a Quantity, or \
                    permit it with #[x_kube(float)]";
        return Err(Error::new(field.ty.span(), text));
    }
    Ok(())
}

/// Translates the attributes of one item or field. Returns whether they permit floating point numbers.
fn attributes(attributes: &mut Vec<Attribute>, facade: &Path, has_schema: bool) -> Result<bool> {
    let mut permits_float = false;
    let mut translated: Vec<Attribute> = Vec::new();
    for attribute in std::mem::take(attributes) {
        if attribute.path().is_ident("schemars") && !has_schema {
            continue;
        }
        if !attribute.path().is_ident("x_kube") {
            translated.push(attribute);
            continue;
        }
        for meta in attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)? {
            let transform = if meta.path().is_ident("validation") {
                let rule = &meta.require_name_value()?.value;
                quote!(#facade::__derive::rule!(#rule))
            } else if meta.path().is_ident("merge_strategy") {
                let strategy = &meta.require_name_value()?.value;
                quote!(#facade::__derive::merge!(#strategy))
            } else if meta.path().is_ident("float") {
                permits_float = true;
                continue;
            } else {
                let text = "unknown key: expected `validation`, `merge_strategy` or `float`";
                return Err(Error::new(meta.span(), text));
            };
            if has_schema {
                translated.push(parse_quote!(#[schemars(transform = #transform)]));
            }
        }
    }
    *attributes = translated;
    Ok(permits_float)
}
