//! Functions: their overloads, and what they compute.
//!
//! A table per library lists functions with their signatures in a short notation: `(int, int) -> int` for a function,
//! `string.(string) -> bool` for a method, single capital letters for type parameters.

mod authorizer;
mod conversions;
mod format_text;
mod formats;
mod lists;
pub(crate) mod net;
pub(crate) mod opaque;
mod operators;
mod optionals;
mod patches;
mod quantity;
mod regexes;
mod semver;
mod sets;
mod strings;
mod times;
mod url;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub use authorizer::{Authorizer, Check, Decision};

use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// What a function returns.
pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// Computes a function. The first argument of a method is its receiver.
pub(crate) type Implementation = for<'a> fn(&[Value<'a>]) -> Evaluated<'a>;

/// A function of a table: name, implementation, and its overloads as identifier and signature.
type Row = (&'static str, Implementation, &'static [(&'static str, &'static str)]);

/// A library, and the minor release of Kubernetes that introduced it.
struct Library {
    since: u32,
    rows: &'static [Row],
}

/// A function with its overloads.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
}

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) since: u32,
    pub(crate) is_method: bool,
    /// With the receiver of a method first.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) params: Vec<Arc<str>>,
    pub(crate) implementation: Implementation,
}

/// Returns the functions of this name.
pub(crate) fn lookup(name: &str) -> Option<&'static Function> {
    static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(build);
    FUNCTIONS.get(name)
}

/// Returns whether a function is known only where expressions make patches.
pub(crate) fn is_for_patches(name: &str) -> bool {
    patches::LIBRARY.rows.iter().any(|(known, ..)| *known == name)
}

fn build() -> HashMap<&'static str, Function> {
    let libraries = [
        operators::LIBRARY,
        conversions::LIBRARY,
        times::LIBRARY,
        strings::STANDARD,
        url::LIBRARY,
        regexes::LIBRARY,
        lists::KUBERNETES,
        authorizer::LIBRARY,
        optionals::LIBRARY,
        quantity::LIBRARY,
        strings::EXTENSION,
        sets::LIBRARY,
        net::LIBRARY,
        formats::LIBRARY,
        semver::LIBRARY,
        lists::EXTENSION,
        lists::INCLUDES,
        patches::LIBRARY,
    ];
    let mut functions: HashMap<&'static str, Function> = HashMap::new();
    for Library { since, rows } in libraries {
        for (name, implementation, overloads) in rows {
            let function = functions.entry(name).or_insert_with(|| Function { name, overloads: Vec::new() });
            for (id, signature) in *overloads {
                if let Some(overload) = overload(id, signature, since, *implementation) {
                    function.overloads.push(overload);
                }
            }
        }
    }
    functions
}

fn overload(id: &'static str, signature: &str, since: u32, implementation: Implementation) -> Option<Overload> {
    let (call, result) = signature.split_once(" -> ")?;
    let open = call.find(".(").map_or_else(|| call.find('('), |dot| Some(dot + 1))?;
    let (receiver, list) = call.split_at(open);
    let receiver = receiver.strip_suffix('.');
    let list = list.strip_prefix('(')?.strip_suffix(')')?;
    let mut args: Vec<Type> = Vec::new();
    args.extend(receiver.map(parse_type));
    args.extend(split(list).into_iter().map(parse_type));
    let mut params = Vec::new();
    args.iter().for_each(|arg| collect_params(arg, &mut params));
    let result = parse_type(result);
    collect_params(&result, &mut params);
    Some(Overload { id, since, is_method: receiver.is_some(), args, result, params, implementation })
}

fn collect_params(of: &Type, params: &mut Vec<Arc<str>>) {
    if let Type::Param(name) = of
        && !params.contains(name)
    {
        params.push(Arc::clone(name));
    }
    of.parameters().into_iter().for_each(|inner| collect_params(inner, params));
}

/// Splits at commas outside of parentheses.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(list.get(start..at).unwrap_or("").trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = list.get(start..).unwrap_or("").trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn parse_type(text: &str) -> Type {
    let (name, inner) = match text.split_once('(') {
        Some((name, inner)) => (name, split(inner.strip_suffix(')').unwrap_or(inner))),
        None => (text, Vec::new()),
    };
    let mut inner = inner.into_iter().map(parse_type);
    let mut next = || inner.next().unwrap_or(Type::Dyn);
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "null" => Type::Null,
        "list" => Type::list(next()),
        "map" => {
            let key = next();
            Type::map(key, next())
        }
        "type" => Type::Type(Some(Arc::new(next()))),
        "optional" => Type::optional(next()),
        "url" => Type::opaque(opaque::URL),
        "quantity" => Type::opaque(opaque::QUANTITY),
        "ip" => Type::opaque(opaque::IP),
        "cidr" => Type::opaque(opaque::CIDR),
        "format" => Type::opaque(opaque::FORMAT),
        "semver" => Type::opaque(opaque::SEMVER),
        "authorizer" => Type::opaque(opaque::AUTHORIZER),
        "path_check" => Type::opaque(opaque::PATH_CHECK),
        "group_check" => Type::opaque(opaque::GROUP_CHECK),
        "resource_check" => Type::opaque(opaque::RESOURCE_CHECK),
        "decision" => Type::opaque(opaque::DECISION),
        name if name.len() == 1 && name.starts_with(|first: char| first.is_ascii_uppercase()) => Type::param(name),
        _ => Type::Dyn,
    }
}

/// Returns the error of a function that has no overload for the types of its arguments.
pub(crate) fn no_overload<'a>(function: &str, args: &[Value<'a>]) -> EvalError {
    let types: Vec<String> = args.iter().map(|arg| arg.type_of().runtime_name().to_owned()).collect();
    EvalError::NoSuchOverload(format!("no such overload: {function}({})", types.join(", ")).into())
}
