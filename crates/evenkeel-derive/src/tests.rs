use proc_macro2::TokenStream;
use quote::quote;

use crate::expand;

#[track_caller]
fn error(arguments: TokenStream, item: TokenStream) -> String {
    expand::custom_resource(arguments, item).unwrap_err().to_string()
}

fn expanded(arguments: TokenStream, item: TokenStream) -> String {
    expand::custom_resource(arguments, item).unwrap().to_string().replace(' ', "")
}

#[test]
fn the_kind_is_the_name_of_the_struct_without_spec() {
    let arguments = || quote!(group = "example.com", version = "v1");
    assert!(
        expanded(
            arguments(),
            quote!(
                struct CacheSpec {}
            )
        )
        .contains(r#"kind="Cache""#)
    );
    let named = quote!(group = "example.com", version = "v1", kind = "Store");
    assert!(
        expanded(
            named,
            quote!(
                struct Anything {}
            )
        )
        .contains(r#"kind="Store""#)
    );
    assert!(
        error(
            arguments(),
            quote!(
                struct Cache {}
            )
        )
        .contains("CacheSpec")
    );
    assert!(
        error(
            arguments(),
            quote!(
                struct Spec {}
            )
        )
        .contains("CacheSpec")
    );
}

#[test]
fn paths_are_set_and_cannot_be_forgotten() {
    let text = expanded(
        quote!(group = "g", version = "v1", status = FooStatus),
        quote!(
            struct FooSpec {}
        ),
    );
    for path in ["kube_core", "k8s_openapi", "schemars", "serde", "serde_json"] {
        assert!(text.contains(&format!(r#"{path}="::evenkeel::__derive::{path}""#)), "{path}: {text}");
    }
    let text = expanded(
        quote!(group = "g", version = "v1", crate = "renamed"),
        quote!(
            struct FooSpec {}
        ),
    );
    assert!(text.contains(r#"serde="renamed::__derive::serde""#) && !text.contains("::evenkeel"), "{text}");
    let text = error(
        quote!(group = "g", version = "v1", crates(serde = "x")),
        quote!(
            struct FooSpec {}
        ),
    );
    assert!(text.contains("crate = "), "{text}");
}

#[test]
fn derives_that_are_present_are_not_added_again() {
    let item = quote!(
        #[derive(Clone, serde::Serialize, PartialEq)]
        struct FooSpec {}
    );
    let text = expanded(quote!(group = "g", version = "v1"), item);
    assert_eq!(text.matches("Clone").count(), 1, "{text}");
    assert_eq!(text.matches("serde::Serialize").count(), 1, "{text}");
    assert!(text.contains("::core::fmt::Debug"), "{text}");
    let item = quote!(
        #[derive(CustomResource)]
        struct FooSpec {}
    );
    assert!(error(quote!(group = "g", version = "v1"), item).contains("replaces #[derive(CustomResource)]"));
}

#[test]
fn names_are_in_camel_case_unless_the_struct_says_otherwise() {
    let arguments = || quote!(group = "g", version = "v1");
    assert!(
        expanded(
            arguments(),
            quote!(
                struct FooSpec {
                    a_b: i32,
                }
            )
        )
        .contains(r#"rename_all="camelCase""#)
    );
    let item = quote!(
        #[serde(rename_all = "kebab-case")]
        struct FooSpec {
            a_b: i32,
        }
    );
    assert!(!expanded(arguments(), item).contains("camelCase"));
    let item = quote!(
        enum Level {
            Low,
        }
    );
    assert!(!expand::api_type(quote!(), item).unwrap().to_string().contains("camelCase"));
}

#[test]
fn scf_003_floats_are_refused_unless_permitted() {
    let arguments = || quote!(group = "g", version = "v1");
    let item = quote!(
        struct FooSpec {
            share: Option<f64>,
        }
    );
    assert!(error(arguments(), item).contains("#[x_kube(float)]"));
    expanded(
        arguments(),
        quote!(
            struct FooSpec {
                #[x_kube(float)]
                share: Option<f64>,
            }
        ),
    );
}

#[test]
fn unknown_keys_are_errors() {
    let item = quote!(
        struct FooSpec {
            #[x_kube(validations = "true")]
            a: i32,
        }
    );
    assert!(error(quote!(group = "g", version = "v1"), item).contains("expected `validation`"));
    assert!(
        expand::api_type(
            quote!(group = "g"),
            quote!(
                struct Foo {}
            )
        )
        .unwrap_err()
        .to_string()
        .contains("custom_resource")
    );
    let text = error(
        quote!(group = "g", version = "v1", kind = "no name"),
        quote!(
            struct FooSpec {}
        ),
    );
    assert!(text.contains("root ="), "{text}");
}
