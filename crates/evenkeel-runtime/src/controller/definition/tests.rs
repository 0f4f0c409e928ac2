//! Definitions that serve a kind, and those that do not.

use evenkeel_client::Unstructured;
use serde_json::{Value, json};

use super::*;

fn wanted(is_version_fixed: bool) -> WantedKind {
    WantedKind { info: Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true)), is_version_fixed }
}

fn definition(plural: &str, change: impl FnOnce(&mut Value)) -> Obj<Unstructured> {
    let info =
        ResourceInfo::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false);
    let mut json = json!({
        "metadata": {"name": format!("{plural}.example.com"), "uid": "u1"},
        "spec": {
            "group": "example.com", "names": {"plural": plural, "kind": "Foo"},
            "versions": [{"name": "v1", "served": true}, {"name": "v2", "served": true, "storage": true}],
        },
        "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]},
    });
    change(&mut json);
    Obj::from_json(&Arc::new(info), json.to_string()).unwrap()
}

fn reason(definitions: &[Obj<Unstructured>], is_version_fixed: bool) -> String {
    match find_definition(definitions, &wanted(is_version_fixed)) {
        Finding::Missing(missing) => missing.to_string(),
        Finding::Usable(usable) => panic!("{usable:?}"),
    }
}

fn usable(definition: &Obj<Unstructured>, is_version_fixed: bool) -> UsableDefinition {
    match find_definition([definition], &wanted(is_version_fixed)) {
        Finding::Usable(usable) => usable,
        Finding::Missing(missing) => panic!("{missing}"),
    }
}

#[test]
fn dwc_003_the_reason_names_the_definition_and_what_is_missing() {
    let waiting = "waiting for CustomResourceDefinition foos.example.com";
    assert_eq!(reason(&[], true), waiting);
    let other_kind = definition("bars", |json| json["spec"]["names"]["kind"] = json!("Bar"));
    let other_group = definition("foos", |json| json["metadata"]["name"] = json!("foos.other.com"));
    assert_eq!(reason(&[other_kind, other_group], true), waiting);
    let new = definition("foos", |json| json["status"] = json!({}));
    assert_eq!(reason(&[new], true), format!("{waiting}: it is not established"));
    let deleting = definition("foos", |json| json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(reason(&[deleting], true), format!("{waiting}: it is being deleted"));
    let newer = definition("foos", |json| json["spec"]["versions"][0]["served"] = json!(false));
    assert_eq!(reason(&[newer], true), format!("{waiting}: it does not serve version v1"));
}

#[test]
fn dwc_004_plural_and_version_are_those_of_the_definition() {
    let renamed = definition("fooz", |_| {});
    let found = usable(&renamed, true);
    assert_eq!(
        (found.name.as_str(), found.plural.as_str(), found.version.as_str()),
        ("fooz.example.com", "fooz", "v1")
    );
    let newer = definition("foos", |json| json["spec"]["versions"][0]["served"] = json!(false));
    assert_eq!(usable(&newer, false).version, "v2", "the stored version of a kind without a type");
}

#[test]
fn dwc_004_a_definition_serves_until_it_is_removed_replaced_or_drops_the_version() {
    let installed = definition("foos", |_| {});
    let found = usable(&installed, true);
    assert!(still_serves(Some(&installed), &found));
    let deleting = definition("foos", |json| json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert!(still_serves(Some(&deleting), &found), "its objects are deleted first");
    assert!(!still_serves::<Unstructured>(None, &found));
    assert!(!still_serves(Some(&definition("foos", |json| json["metadata"]["uid"] = json!("u2"))), &found));
    let newer = definition("foos", |json| json["spec"]["versions"][0]["served"] = json!(false));
    assert!(!still_serves(Some(&newer), &found));
}
