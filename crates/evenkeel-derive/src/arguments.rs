//! The arguments of the attributes.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Meta, Path, Result, Token, parse_quote};

/// Arguments that this crate reads. The others are passed on to kube-derive.
pub(crate) struct Arguments {
    /// The path of the crate `evenkeel`.
    pub(crate) facade: Path,
    pub(crate) kind: Option<String>,
    pub(crate) root: Option<String>,
    pub(crate) status: Option<Path>,
    pub(crate) doc: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) has_flat_spec: bool,
    pub(crate) rules: Vec<Expr>,
    pub(crate) passed_on: Vec<Meta>,
}

impl Arguments {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut arguments = Arguments {
            facade: parse_quote!(::evenkeel),
            kind: None,
            root: None,
            status: None,
            doc: None,
            schema: None,
            has_flat_spec: false,
            rules: Vec::new(),
            passed_on: Vec::new(),
        };
        for meta in Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens)? {
            arguments.read(meta)?;
        }
        Ok(arguments)
    }

    fn read(&mut self, meta: Meta) -> Result<()> {
        let name = meta.path().get_ident().map(Ident::to_string).unwrap_or_default();
        let is_passed_on = match name.as_str() {
            "crate" => {
                self.facade = path(value(&meta)?)?;
                false
            }
            "crates" => {
                let text = "the paths of all crates are set; for a renamed dependency write `crate = \"its_name\"`";
                return Err(Error::new(meta.span(), text));
            }
            "cel" => {
                let text = "`cel` is not supported: rules are evaluated by the API server";
                return Err(Error::new(meta.span(), text));
            }
            "validation" => {
                self.rules.push(value(&meta)?.clone());
                false
            }
            "schema" => {
                self.schema = Some(text(value(&meta)?)?);
                false
            }
            "kind" => {
                self.kind = Some(text(value(&meta)?)?);
                false
            }
            "doc" => {
                self.doc = Some(text(value(&meta)?)?);
                false
            }
            "root" => {
                self.root = Some(text(value(&meta)?)?);
                true
            }
            "status" => {
                self.status = Some(path(value(&meta)?)?);
                false
            }
            "no_spec" => {
                self.has_flat_spec = true;
                true
            }
            _ => true,
        };
        if is_passed_on {
            self.passed_on.push(meta);
        }
        Ok(())
    }
}

fn value(meta: &Meta) -> Result<&Expr> {
    meta.require_name_value().map(|pair| &pair.value)
}

fn text(value: &Expr) -> Result<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.value()),
        other => Err(Error::new(other.span(), "expected a text in quotes")),
    }
}

/// A path, with or without quotes.
fn path(value: &Expr) -> Result<Path> {
    match value {
        Expr::Path(path) => Ok(path.path.clone()),
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.parse(),
        other => Err(Error::new(other.span(), "expected a path")),
    }
}
