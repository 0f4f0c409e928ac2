//! What the attributes expand to: the derives of serde, schemars and kube, with all paths set.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Path, Result, parse_quote, parse_str, parse2};

use crate::arguments::Arguments;
use crate::attributes::{derives, documentation, serde_sets};
use crate::fields;

const HAS_SCHEMA: bool = cfg!(feature = "schema");

pub(crate) fn api_type(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    let mut item: DeriveInput = parse2(item)?;
    let is_empty = arguments.passed_on.is_empty() && arguments.kind.is_none() && arguments.status.is_none();
    if !is_empty || !arguments.rules.is_empty() {
        let text =
            "`api_type` is for the parts of a kind and takes no arguments but `crate`; a kind has `custom_resource`";
        return Err(Error::new(item.ident.span(), text));
    }
    prepare(&mut item, &arguments.facade, &[])?;
    Ok(item.into_token_stream())
}

pub(crate) fn custom_resource(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    let mut item: DeriveInput = parse2(item)?;
    for name in ["CustomResource", "KubeSchema"] {
        if derives(&item.attrs, name) {
            let text = format!("`custom_resource` replaces #[derive({name})] and #[kube(…)]: remove them");
            return Err(Error::new(item.ident.span(), text));
        }
    }
    let kind = kind(&arguments, &item.ident)?;
    let facade = &arguments.facade;
    let kube = kube_attribute(&arguments, &item, &kind);
    let schema = root_schema(&arguments, &item, &kind)?;
    prepare(&mut item, facade, &[parse_quote!(#facade::__derive::CustomResource)])?;
    item.attrs.push(kube);
    Ok(quote!(#item #schema))
}

fn kind(arguments: &Arguments, spec: &Ident) -> Result<String> {
    let name = spec.to_string();
    match (&arguments.kind, name.strip_suffix("Spec")) {
        (Some(kind), _) => Ok(kind.clone()),
        (None, Some(kind)) if !kind.is_empty() => Ok(kind.to_owned()),
        _ => Err(Error::new(spec.span(), "name the struct after its kind, as in `CacheSpec`, or write `kind = \"…\"`")),
    }
}

/// Adds the derives, and the paths of the crates that they refer to. Derives that the item has already are not added.
fn prepare(item: &mut DeriveInput, facade: &Path, more: &[Path]) -> Result<()> {
    fields::translate(item, facade, HAS_SCHEMA)?;
    let serde = quote!(#facade::__derive::serde);
    let mut paths: Vec<TokenStream> = vec![quote!(::core::clone::Clone), quote!(::core::fmt::Debug)];
    paths.extend([quote!(#serde::Serialize), quote!(#serde::Deserialize)]);
    let mut names = vec!["Clone", "Debug", "Serialize", "Deserialize"];
    if HAS_SCHEMA {
        paths.push(quote!(#facade::schemars::JsonSchema));
        names.push("JsonSchema");
    }
    let is_missing = |name: &&str| !derives(&item.attrs, name);
    let paths = names.iter().zip(paths).filter(|(name, _)| is_missing(name)).map(|(_, path)| path);
    let paths = paths.chain(more.iter().map(ToTokens::to_token_stream));
    let mut attributes: Vec<Attribute> = vec![parse_quote!(#[derive(#(#paths),*)])];
    let quoted = |path: TokenStream| path.to_string().replace(' ', "");
    if !serde_sets(&item.attrs, &["crate"]) {
        let path = quoted(serde);
        attributes.push(parse_quote!(#[serde(crate = #path)]));
    }
    if HAS_SCHEMA {
        let path = quoted(quote!(#facade::schemars));
        attributes.push(parse_quote!(#[schemars(crate = #path)]));
    }
    // As the conventions of Kubernetes say. A newtype has no names.
    let names = ["rename_all", "transparent", "from", "try_from", "into"];
    if matches!(item.data, Data::Struct(_)) && !serde_sets(&item.attrs, &names) {
        attributes.push(parse_quote!(#[serde(rename_all = "camelCase")]));
    }
    // The derives come first: they introduce the attributes of the fields.
    attributes.append(&mut item.attrs);
    item.attrs = attributes;
    Ok(())
}

/// The attribute for kube-derive.
fn kube_attribute(arguments: &Arguments, item: &DeriveInput, kind: &str) -> Attribute {
    let Arguments { facade, passed_on, status, .. } = arguments;
    let status = status.iter().map(|path| path.to_token_stream().to_string());
    let doc = description(arguments, item);
    let doc = doc.iter();
    // The schema of the kind is generated here, and so needs no derive there.
    let schema = match (HAS_SCHEMA, arguments.schema.as_deref()) {
        (false, _) => "disabled",
        (true, None | Some("derived")) => "manual",
        (true, Some(mode)) => mode,
    };
    let path = |name: &str| {
        let name = format_ident!("{name}");
        quote!(#facade::__derive::#name).to_string().replace(' ', "")
    };
    let (kube_core, k8s_openapi, schemars) = (path("kube_core"), path("k8s_openapi"), path("schemars"));
    let (serde, serde_json) = (path("serde"), path("serde_json"));
    parse_quote!(#[kube(
        kind = #kind,
        #(status = #status,)*
        #(doc = #doc,)*
        schema = #schema,
        crates(kube_core = #kube_core, k8s_openapi = #k8s_openapi, schemars = #schemars, serde = #serde, serde_json = #serde_json),
        #(#passed_on,)*
    )])
}

fn description(arguments: &Arguments, item: &DeriveInput) -> Option<String> {
    arguments.doc.clone().or_else(|| documentation(&item.attrs))
}

/// `JsonSchema` of the kind.
fn root_schema(arguments: &Arguments, item: &DeriveInput, kind: &str) -> Result<TokenStream> {
    let Arguments { facade, status, rules, root, has_flat_spec, .. } = arguments;
    let (spec, name) = (&item.ident, root.as_deref().unwrap_or(kind));
    let no_name =
        |_| Error::new(item.ident.span(), format!("{name:?} is no name of a type; set one with `root = \"…\"`"));
    let root: Ident = parse_str(name).map_err(no_name)?;
    let is_derived = matches!(arguments.schema.as_deref(), None | Some("derived"));
    if !HAS_SCHEMA || !is_derived {
        return Ok(TokenStream::new());
    }
    let flat = has_flat_spec.then(|| quote!(.flat_spec()));
    let status = status.iter();
    let description = description(arguments, item);
    let description = description.iter();
    let private = quote!(#facade::__derive);
    Ok(quote! {
        impl #facade::schemars::JsonSchema for #root {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }

            fn json_schema(_: &mut #facade::schemars::SchemaGenerator) -> #facade::schemars::Schema {
                #private::ObjectSchema::of::<#spec>()
                    #(.status::<#status>())*
                    #(.description(#description))*
                    #flat
                    #(.rule(#private::as_rule!(#rules)))*
                    .build()
            }
        }
    })
}
