//! Estimates for the functions of Kubernetes and of extensions.

use super::estimate::{Estimator, Node};
use super::{CHECK, CostEstimate, LIST, PER_CHARACTER, PER_PATTERN_CHARACTER, STRUCT, SizeEstimate};
use crate::ast::{ExprKind, Literal};
use crate::library::opaque;
use crate::types::Type;

/// The length of the longest pattern of a named format.
const LONGEST_NAME_PATTERN: f64 = 128.0;

/// The length of the longest name of a format.
const LONGEST_FORMAT: u64 = 64;

/// Returns the cost of a call without its arguments, and the size of the result; `None` for functions of the language.
pub(super) fn estimate(
    estimator: &Estimator<'_>,
    function: &str,
    overload: &str,
    target: Option<&Node<'_>>,
    args: &[Node<'_>],
) -> Option<(CostEstimate, Option<SizeEstimate>)> {
    let size = |node: &Node<'_>| estimator.size_of_node(node);
    let read = |size: SizeEstimate| size.scaled(PER_CHARACTER);
    let nominal = || Some((CostEstimate::fixed(1), None));
    match function {
        "check" => Some((CostEstimate::fixed(CHECK), None)),
        "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => nominal(),
        "fieldSelector" | "labelSelector" => {
            let size = size(args.first()?);
            let requirements = size.scaled(0.5).scaled((LIST + STRUCT) as f64);
            Some((CostEstimate::fixed(LIST).plus(read(size)).plus(requirements), None))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            let target = target?;
            let mut each = CostEstimate::fixed(1);
            match items(target) {
                Some(item) => {
                    if matches!(item.of, Type::String | Type::Bytes) {
                        each = each.plus(read(size(&item)));
                    }
                    Some((size(target).times(each), None))
                }
                None if function == "includes" => Some((size(target).times(each), None)),
                None => Some((read(size(target)), None)),
            }
        }
        "url" | "jsonpatch.escapeKey" => {
            let size = size(args.first()?);
            Some((read(size), Some(size)))
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            let size = size(target?);
            Some((read(size), Some(size)))
        }
        "replace" => match args {
            [old, new, ..] => {
                let text = size(target?);
                Some((text.scaled(2.0 * PER_CHARACTER), Some(replaced(text, size(old), size(new)))))
            }
            _ => None,
        },
        "split" => {
            let text = size(target?);
            let limit = match args.get(1).and_then(|limit| limit.expr).map(|expr| &expr.kind) {
                Some(ExprKind::Literal(Literal::Int(limit))) => *limit as u64,
                _ => text.max,
            };
            Some((text.scaled(2.0 * PER_CHARACTER), Some(SizeEstimate { min: 0, max: limit })))
        }
        "join" => {
            let target = target?;
            let count = size(target);
            let mut joined = items(target).map_or_else(SizeEstimate::default, |item| count.times(size(&item)));
            if let Some(separator) = args.first() {
                let between = SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
                joined = joined.plus(size(separator).times(between));
            }
            Some((read(joined), Some(joined)))
        }
        "find" | "findAll" => {
            let (target, pattern) = (target?, args.first()?);
            let text = size(target);
            let cost = read(text.plus(SizeEstimate::fixed(1))).times(size(pattern).scaled(PER_PATTERN_CHARACTER));
            Some((cost, Some(SizeEstimate { min: 0, max: text.max })))
        }
        "ip" if overload == "cidr_ip" => nominal(),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Some((read(size(args.first()?)), None))
        }
        "ip.isCanonical" => Some((size(args.first()?).scaled(2.0 * PER_CHARACTER), None)),
        "containsIP" | "containsCIDR" => {
            let bytes = SizeEstimate { min: 4, max: 16 };
            let mut cost = read(bytes.plus(bytes));
            if function == "containsCIDR" {
                cost = cost.plus(read(bytes)).plus(CostEstimate::fixed(1));
            }
            if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                cost = cost.plus(read(size(args.first()?)));
            }
            Some((cost, None))
        }
        "validate" => {
            let text = read(size(args.first()?));
            Some((text.scaled(LONGEST_NAME_PATTERN * PER_PATTERN_CHARACTER), None))
        }
        "_==_" => match args {
            [Node { of: Type::Opaque(left, _), .. }, Node { of: Type::Opaque(right, _), .. }] if left == right => {
                match *left {
                    opaque::FORMAT => Some((read(CostEstimate { min: 1, max: LONGEST_FORMAT }), None)),
                    opaque::URL | crate::types::OPTIONAL => None,
                    _ => nominal(),
                }
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the items of a list.
fn items<'e>(list: &Node<'e>) -> Option<Node<'e>> {
    let of = list.of.parameters().first().map(|of| (*of).clone())?;
    let mut path = list.path.clone();
    if !path.is_empty() {
        path.push("@items".to_owned());
    }
    Some(Node { path, of, expr: None, size: None })
}

/// Returns the size of a text after replacements: from the fewest and shortest to the most and longest.
fn replaced(text: SizeEstimate, old: SizeEstimate, new: SizeEstimate) -> SizeEstimate {
    let (mut count, mut kept) = (SizeEstimate::default(), SizeEstimate::default());
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / old.max as f64).ceil() as u64;
    }
    count.times(new).plus(kept)
}
