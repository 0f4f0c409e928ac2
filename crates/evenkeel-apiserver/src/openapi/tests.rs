use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::discovery::tests::body;
use crate::registry::tests::{custom, with_foo};

const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

fn ask(registry: &Registry, path: &str, query: &str, headers: &[(&'static str, &str)]) -> http::Response<Body> {
    let headers = headers
        .iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    respond(registry, path, &Query::parse(Some(query)), &headers, now)
}

fn document(registry: &Registry, path: &str) -> Value {
    let reply = ask(registry, path, "", &[]);
    assert_eq!(reply.status(), 200, "{path}");
    assert_eq!(reply.headers()["content-type"], "application/json");
    serde_json::from_slice(&body(reply)).unwrap()
}

fn hashes(registry: &Registry) -> HashMap<String, String> {
    let index = document(registry, "");
    let paths = index["paths"].as_object().unwrap();
    paths
        .iter()
        .map(|(path, entry)| {
            let url = entry["serverRelativeURL"].as_str().unwrap();
            let hash = url.strip_prefix(&format!("/openapi/v3/{path}?hash=")).unwrap();
            (path.clone(), hash.to_owned())
        })
        .collect()
}

#[test]
fn dis_12_the_index_names_every_group_version() {
    let registry = with_foo();
    let hashes = hashes(&registry);
    let versions: usize = registry.groups().iter().map(|group| group.versions.len()).sum();
    assert_eq!(hashes.len(), versions);
    for path in ["api/v1", "apis/apps/v1", "apis/autoscaling/v1", "apis/sample.evenkeel.dev/v1"] {
        assert_eq!(hashes[path].len(), 128, "{path}");
    }
    let reply = ask(&registry, "", "", &[]);
    let etag = reply.headers()["etag"].to_str().unwrap().to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'));
    let again = ask(&registry, "", "", &[("if-none-match", &etag)]);
    assert_eq!(again.status(), 304);
    assert!(body(again).is_empty());
}

#[test]
fn dis_13_hashes_make_documents_immutable() {
    let registry = with_foo();
    let hash = &hashes(&registry)["apis/apps/v1"];
    let right = ask(&registry, "apis/apps/v1", &format!("hash={hash}"), &[]);
    assert_eq!(right.status(), 200);
    assert_eq!(right.headers()["cache-control"], "public, immutable");
    assert_eq!(right.headers()["expires"], "Wed, 13 Nov 2024 22:13:20 GMT");
    assert_eq!(right.headers()["vary"], "Accept");
    assert_eq!(right.headers()["etag"], format!("\"{hash}\"").as_str());

    let wrong = ask(&registry, "apis/apps/v1", "hash=0", &[]);
    assert_eq!(wrong.status(), 301);
    assert_eq!(wrong.headers()["location"], format!("/openapi/v3/apis/apps/v1?hash={hash}").as_str());

    let none = ask(&registry, "apis/apps/v1", "", &[]);
    assert_eq!(none.status(), 200);
    assert!(!none.headers().contains_key("cache-control") && !none.headers().contains_key("expires"));

    for path in ["apis/apps/v9", "apis/nope/v1", "apis/apps", "api/v1/pods", "apis//v1", "x"] {
        assert_eq!(ask(&registry, path, "", &[]).status(), 404, "{path}");
    }
}

#[test]
fn dis_13_protobuf_alone_is_not_acceptable() {
    let protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let alone = ask(&with_foo(), "api/v1", "", &[("accept", protobuf)]);
    assert_eq!(alone.status(), 406);
    let either = ask(&with_foo(), "api/v1", "", &[("accept", &format!("{protobuf}, application/json"))]);
    assert_eq!(either.status(), 200);
}

#[test]
fn dis_14_fields_that_kubectl_reads() {
    let core = document(&with_foo(), "api/v1");
    let pod = json!({"group": "", "version": "v1", "kind": "Pod"});
    let collection = &core["paths"]["/api/v1/namespaces/{namespace}/pods"];
    assert_eq!(collection["get"]["x-kubernetes-group-version-kind"], pod);
    assert_eq!(collection["get"]["x-kubernetes-action"], "list");
    assert_eq!(collection["post"]["x-kubernetes-group-version-kind"], pod);
    assert_eq!(core["paths"]["/api/v1/pods"]["get"]["x-kubernetes-action"], "list");

    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], pod);
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation" && parameter["in"] == "query"));
    let content = patch["requestBody"]["content"].as_object().unwrap();
    assert_eq!(content.keys().collect::<Vec<_>>(), PATCHES);

    let schemas = &core["components"]["schemas"];
    let schema = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([pod]));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
}

#[test]
fn dis_14_every_stored_kind_can_be_patched_with_field_validation() {
    let registry = with_foo();
    for resource in registry.resources().filter(|resource| resource.has_verb("patch")) {
        let version = registry.group(&resource.group).unwrap().version(&resource.version).unwrap();
        let document: Value = serde_json::from_slice(&version_document(&registry, version).json).unwrap();
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let patch = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .map(|item| &item["patch"])
            .find(|patch| patch["x-kubernetes-group-version-kind"] == kind)
            .unwrap_or_else(|| panic!("{kind}"));
        let content = patch["requestBody"]["content"].as_object().unwrap();
        assert_eq!(content.contains_key("application/strategic-merge-patch+json"), resource.custom.is_none(), "{kind}");
    }
}

#[test]
fn dis_14_every_reference_resolves_and_names_are_unique() {
    let registry = with_foo();
    for version in registry.groups().iter().flat_map(|group| &group.versions) {
        let text = String::from_utf8(version_document(&registry, version).json.to_vec()).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        for rest in text.split("\"#/components/schemas/").skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name} in {}", version.api_version());
        }
        let mut ids: Vec<&str> =
            text.split("\"operationId\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{}", version.api_version());
    }
}

#[test]
fn dis_15_a_custom_document() {
    let document = document(&with_foo(), "apis/sample.evenkeel.dev/v1");
    let foo = &document["components"]["schemas"]["dev.evenkeel.sample.v1.Foo"];
    let kind = json!({"group": "sample.evenkeel.dev", "version": "v1", "kind": "Foo"});
    assert_eq!(foo["x-kubernetes-group-version-kind"], json!([kind]));
    assert_eq!(foo["properties"]["apiVersion"], json!({"type": "string"}));
    assert_eq!(foo["properties"]["kind"], json!({"type": "string"}));
    assert_eq!(
        foo["properties"]["metadata"],
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]})
    );
    assert_eq!(foo["properties"]["spec"]["properties"]["replicas"]["type"], "integer");
    assert_eq!(foo["required"], json!(["spec"]));
    let list = &document["components"]["schemas"]["dev.evenkeel.sample.v1.FooList"];
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/dev.evenkeel.sample.v1.Foo");
    let patch = &document["paths"]["/apis/sample.evenkeel.dev/v1/namespaces/{namespace}/foos/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let content = patch["requestBody"]["content"].as_object().unwrap();
    assert_eq!(content.keys().collect::<Vec<_>>(), &PATCHES[..3]);
    assert!(
        document["paths"]["/apis/sample.evenkeel.dev/v1/namespaces/{namespace}/foos/{name}/status"]["put"].is_object()
    );
}

#[test]
fn dis_15_embedded_objects_are_objects_too() {
    let mut foo = custom("sample.evenkeel.dev", "v1", "Foo", "foos");
    let facts = std::sync::Arc::get_mut(foo.custom.as_mut().unwrap()).unwrap();
    facts.published_schema = json!({"properties": {"templates": {
        "type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": true}
    }}});
    let registry = Registry::builtin().with_definition("foos.sample.evenkeel.dev", vec![foo]);
    let document = document(&registry, "apis/sample.evenkeel.dev/v1");
    let foo = &document["components"]["schemas"]["dev.evenkeel.sample.v1.Foo"];
    let template = &foo["properties"]["templates"]["items"];
    assert!(template["properties"]["metadata"]["allOf"][0]["$ref"].is_string());
    assert_eq!(template["x-kubernetes-embedded-resource"], true);

    let mut bare = custom("sample.evenkeel.dev", "v1", "Foo", "foos");
    std::sync::Arc::get_mut(bare.custom.as_mut().unwrap()).unwrap().published_schema = Value::Null;
    let registry = Registry::builtin().with_definition("foos.sample.evenkeel.dev", vec![bare]);
    let document = self::document(&registry, "apis/sample.evenkeel.dev/v1");
    let foo = &document["components"]["schemas"]["dev.evenkeel.sample.v1.Foo"];
    assert_eq!(foo["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn dis_15_a_definition_changes_its_own_hash_only() {
    let before = with_foo();
    let after =
        before.with_definition("bars.sample.evenkeel.dev", vec![custom("sample.evenkeel.dev", "v1", "Bar", "bars")]);
    let (before, after) = (hashes(&before), hashes(&after));
    let changed: Vec<&String> =
        after.iter().filter(|(path, hash)| before.get(*path) != Some(*hash)).map(|(path, _)| path).collect();
    assert_eq!(changed, ["apis/sample.evenkeel.dev/v1"]);
}

#[test]
fn dis_16_documents_are_encoded_once() {
    let registry = with_foo();
    let version = registry.group("apps").unwrap().version("v1").unwrap();
    let first = version_document(&registry, version).json.as_ptr();
    let other = Registry::builtin();
    let again = other.group("apps").unwrap().version("v1").unwrap();
    assert_eq!(first, version_document(&other, again).json.as_ptr());
}
