//! The bill of materials in CycloneDX 1.5.

use std::collections::BTreeSet;
use std::error::Error;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::packages::{Package, PackageGraph};

/// Returns the bill. `epoch` are the seconds since 1970 of its timestamp.
pub(crate) fn bill(graph: &PackageGraph, epoch: Option<&str>) -> Result<Value, Box<dyn Error>> {
    let root = &graph.packages[&graph.root];
    let mut metadata = json!({
        "tools": {"components": [{"type": "application", "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")}]},
        "component": component(root, "application"),
    });
    if let Some(epoch) = epoch {
        let seconds = epoch.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is not a number: {epoch:?}"))?;
        metadata["timestamp"] = Timestamp::from_second(seconds)?.to_string().into();
    }
    let others = graph.packages.iter().filter(|(id, _)| **id != graph.root).map(|(_, package)| package);
    let mut components: Vec<Value> = others.map(|package| component(package, "library")).collect();
    components.sort_by(|a, b| a["bom-ref"].as_str().cmp(&b["bom-ref"].as_str()));
    let reference = |id: &String| purl(&graph.packages[id]);
    let mut dependencies: Vec<(String, BTreeSet<String>)> =
        graph.edges.iter().map(|(id, edges)| (reference(id), edges.iter().map(reference).collect())).collect();
    dependencies.sort();
    let dependencies: Vec<Value> =
        dependencies.into_iter().map(|(from, to)| json!({"ref": from, "dependsOn": to})).collect();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Package, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
        "scope": "required",
    });
    if !package.description.is_empty() {
        component["description"] = package.description.trim().into();
    }
    if !package.licence.is_empty() {
        component["licenses"] = json!([{"expression": package.licence}]);
    }
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if !package.repository.is_empty() {
        component["externalReferences"] = json!([{"type": "vcs", "url": package.repository}]);
    }
    component
}

/// Returns the package URL, which is also the reference within the bill.
fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}
