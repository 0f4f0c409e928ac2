//! Compiles a definition into the resources that the registry serves.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::conditions::is_true;
use super::rules::{self, RuleTree};
use super::{at, flag, list, text, texts};
use crate::engine::ConversionWebhook;
use crate::registry::{
    CustomFacts, KindStrategy, NameRule, PrinterColumn, Resource, ScalePaths, SchemaHandle, SelectableField,
    Subresource, UnknownField,
};
use crate::schema::{Schema, SchemaFault};

/// Why a definition cannot be served. Admission rejects such definitions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version {version} of {definition} cannot be served: {fault}")]
pub(crate) struct CompileFault {
    definition: String,
    version: String,
    fault: SchemaFault,
}

/// In the order of discovery (DIS-9).
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// Returns one resource per served version, in the order of the definition.
pub(crate) fn resources(definition: &Value) -> Result<Vec<Resource>, CompileFault> {
    versions(definition, |version| flag(version, &["served"])).collect()
}

/// Returns the resource in its storage version, served or not.
pub(crate) fn storage_resource(definition: &Value) -> Option<Result<Resource, CompileFault>> {
    versions(definition, |version| flag(version, &["storage"])).next()
}

/// The memory of each value of a schema, once the schema is compiled and published: 2.6 KB for a property with a type.
const SCHEMA_VALUE: usize = 1280;

/// Returns an estimate of the memory that a definition takes beyond its own bytes while it is served.
pub(crate) fn memory_of(definition: &Value) -> usize {
    list(definition, &["spec", "versions"]).iter().map(memory_of_version).sum()
}

fn memory_of_version(version: &Value) -> usize {
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Object(members) => members.values().map(values).sum(),
            Value::Array(items) => items.iter().map(values).sum(),
            _ => 0,
        }
    }
    let rules = at(version, &["schema", "openAPIV3Schema"]).map_or(0, rules::memory_of);
    version.get("schema").map_or(0, values).saturating_mul(SCHEMA_VALUE).saturating_add(rules)
}

fn versions<'a>(
    definition: &'a Value,
    wanted: impl Fn(&Value) -> bool + 'a,
) -> impl Iterator<Item = Result<Resource, CompileFault>> + 'a {
    list(definition, &["spec", "versions"])
        .iter()
        .filter(move |version| wanted(version))
        .map(|version| resource(definition, version))
}

fn resource(definition: &Value, version: &Value) -> Result<Resource, CompileFault> {
    let accepted = at(definition, &["status", "acceptedNames"]).filter(|names| !text(names, &["plural"]).is_empty());
    let names = accepted.or_else(|| at(definition, &["spec", "names"])).unwrap_or(&Value::Null);
    let owned = |path: &[&str]| text(definition, path).to_owned();
    let name = |key| text(names, &[key]).to_owned();
    let (group, plural) = (owned(&["spec", "group"]), name("plural"));
    let storage: Arc<str> = format!("{group}/{plural}").into();
    let storage_version = list(definition, &["spec", "versions"])
        .iter()
        .find(|version| flag(version, &["storage"]))
        .map_or("", |version| text(version, &["name"]));
    let terminating = !owned(&["metadata", "deletionTimestamp"]).is_empty() || is_true(definition, "Terminating");
    let verbs: &[&str] = if terminating { &TERMINATING_VERBS } else { &VERBS };

    let version_name = text(version, &["name"]);
    let open_api = at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or_else(|| json!({"type": "object"}));
    let schema = Schema::structural(&open_api).map_err(|fault| CompileFault {
        definition: owned(&["metadata", "name"]),
        version: version_name.to_owned(),
        fault,
    })?;
    let kind = name("kind");
    let facts = CustomFacts {
        definition: owned(&["metadata", "name"]),
        columns: columns(version),
        scale: scale(version),
        deprecation_warning: deprecation(definition, version, &group, &kind),
        storage_version: storage_version.to_owned(),
        terminating,
        schema_stamp: at(definition, &["metadata", "generation"]).and_then(Value::as_u64).unwrap_or(0),
        memory: memory_of_version(version),
        rules: RuleTree::compile(&open_api, true),
        conversion: ConversionWebhook::of(at(definition, &["spec", "conversion"]).unwrap_or(&Value::Null)),
        published_schema: publish(open_api, &group, version_name, &kind),
    };
    Ok(Resource {
        group: group.clone(),
        version: version_name.to_owned(),
        list_kind: name("listKind"),
        plural: plural.clone(),
        singular: name("singular"),
        short_names: texts(names, &["shortNames"]).map(str::to_owned).collect(),
        categories: texts(names, &["categories"]).map(str::to_owned).collect(),
        namespaced: text(definition, &["spec", "scope"]) == "Namespaced",
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        subresources: subresources(version, &group, version_name, &kind),
        storage: Arc::clone(&storage),
        strategy: strategy(version),
        schema: Some(SchemaHandle::Custom(Arc::new(schema))),
        custom: Some(Arc::new(facts)),
        kind,
    })
}

fn strategy(version: &Value) -> KindStrategy {
    KindStrategy {
        names: NameRule::DnsSubdomain,
        tracks_generation: true,
        has_status: at(version, &["subresources", "status"]).is_some(),
        selectable: list(version, &["selectableFields"])
            .iter()
            .map(|field| {
                let label = text(field, &["jsonPath"]).trim_start_matches('.');
                SelectableField { label: label.to_owned(), path: label.split('.').map(str::to_owned).collect() }
            })
            .collect(),
        unknown_field: UnknownField::NotSupported,
        ..KindStrategy::default()
    }
}

fn subresources(version: &Value, group: &str, version_name: &str, kind: &str) -> Vec<Subresource> {
    let subresource = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        response_group: group.to_owned(),
        response_version: version.to_owned(),
        response_kind: kind.to_owned(),
    };
    let mut found = Vec::new();
    if at(version, &["subresources", "status"]).is_some() {
        found.push(subresource("status", group, version_name, kind));
    }
    if at(version, &["subresources", "scale"]).is_some() {
        found.push(subresource("scale", "autoscaling", "v1", "Scale"));
    }
    found
}

fn scale(version: &Value) -> Option<ScalePaths> {
    let scale = at(version, &["subresources", "scale"])?;
    let path = |key| text(scale, &[key]).to_owned();
    Some(ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        label_selector: Some(path("labelSelectorPath")).filter(|path| !path.is_empty()),
    })
}

/// Returns the table columns after the name; the age when the definition has none.
fn columns(version: &Value) -> Vec<PrinterColumn> {
    let declared = list(version, &["additionalPrinterColumns"]);
    if declared.is_empty() {
        return vec![PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            description: "When the object was created.".to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            ..PrinterColumn::default()
        }];
    }
    declared
        .iter()
        .map(|column| PrinterColumn {
            name: text(column, &["name"]).to_owned(),
            kind: text(column, &["type"]).to_owned(),
            format: text(column, &["format"]).to_owned(),
            description: text(column, &["description"]).to_owned(),
            priority: at(column, &["priority"])
                .and_then(Value::as_i64)
                .and_then(|priority| i32::try_from(priority).ok())
                .unwrap_or_default(),
            json_path: text(column, &["jsonPath"]).to_owned(),
        })
        .collect()
}

/// Returns the warning of a deprecated version (CRD-13): its own, or one that names the best version that is not
/// deprecated.
fn deprecation(definition: &Value, version: &Value, group: &str, kind: &str) -> Option<String> {
    if !flag(version, &["deprecated"]) {
        return None;
    }
    if let Some(warning) = at(version, &["deprecationWarning"]).and_then(Value::as_str) {
        return Some(warning.to_owned());
    }
    let name = text(version, &["name"]);
    let best = list(definition, &["spec", "versions"])
        .iter()
        .filter(|other| flag(other, &["served"]) && !flag(other, &["deprecated"]))
        .map(|other| text(other, &["name"]))
        .max_by_key(|other| priority(other))
        .filter(|best| priority(best) > priority(name));
    let advice = best.map_or_else(String::new, |best| format!("; use {group}/{best} {kind}"));
    Some(format!("{group}/{name} {kind} is deprecated{advice}"))
}

/// Returns the sort key of a version: general availability before beta before alpha, then the higher number; other
/// names are last, in alphabetical order.
fn priority(version: &str) -> (u8, u64, u64, Reverse<&str>) {
    parse_version(version)
        .map_or((0, 0, 0, Reverse(version)), |(stability, major, minor)| (stability, major, minor, Reverse("")))
}

fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((3, major, 0));
    }
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return None,
    };
    Some((stability, major, minor.parse().ok()?))
}

/// Returns the schema as published in OpenAPI, with the fields of every object and the kind added (DIS-15).
fn publish(mut schema: Value, group: &str, version: &str, kind: &str) -> Value {
    if let Value::Object(root) = &mut schema {
        root.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([{"group": group, "kind": kind, "version": version}]),
        );
        let properties = root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            for name in ["apiVersion", "kind"] {
                properties.insert(name.to_owned(), json!({"type": "string"}));
            }
            let reference = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
            properties.insert("metadata".to_owned(), json!({"allOf": [{"$ref": reference}]}));
        }
    }
    schema
}
