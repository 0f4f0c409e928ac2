//! Checks the licences of packages against the list of `deny.toml`, for machines without cargo-deny.

use std::error::Error;

use spdx::{Expression, LicenseItem};

use crate::packages::PackageGraph;

/// Checks every package that is not of this workspace. Returns their number.
pub(crate) fn check(graph: &PackageGraph, policy: &str) -> Result<usize, Box<dyn Error>> {
    let allowed = allowed(policy)?;
    let mut refused = Vec::new();
    let foreign = graph.packages.values().filter(|package| package.source.is_some());
    let mut checked = 0;
    for package in foreign {
        checked += 1;
        if let Err(reason) = check_expression(&package.licence, &allowed) {
            refused.push(format!("{} {}: {reason}", package.name, package.version));
        }
    }
    if refused.is_empty() { Ok(checked) } else { Err(refused.join("\n").into()) }
}

/// Returns why an expression is not satisfied by the allowed licences.
pub(crate) fn check_expression(expression: &str, allowed: &[String]) -> Result<(), String> {
    if expression.is_empty() {
        return Err("no licence".to_owned());
    }
    let parsed = Expression::parse(expression).map_err(|error| format!("{expression}: {}", error.reason))?;
    let is_allowed = |requirement: &spdx::LicenseReq| match &requirement.license {
        LicenseItem::Spdx { id, .. } => allowed.iter().any(|allowed| allowed == id.name),
        LicenseItem::Other(_) => false,
    };
    if parsed.evaluate(is_allowed) { Ok(()) } else { Err(format!("{expression} is not allowed")) }
}

/// Reads `allow` of the section `licenses`.
fn allowed(policy: &str) -> Result<Vec<String>, &'static str> {
    let section = policy.split_once("[licenses]").ok_or("the policy has no section [licenses]")?.1;
    let list = section.split_once("\nallow = [").ok_or("the policy has no list of allowed licences")?.1;
    let list = list.split_once(']').ok_or("the list of allowed licences does not end")?.0;
    let names: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    if names.is_empty() { Err("the list of allowed licences is empty") } else { Ok(names) }
}
