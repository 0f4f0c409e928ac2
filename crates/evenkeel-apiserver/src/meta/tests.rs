use proptest::prelude::*;
use serde_json::json;

use super::*;

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn named(name: &str) -> Vec<String> {
    let meta = json!({"name": name, "namespace": "default"});
    messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, true))
}

#[test]
fn obj_5_generated_names_keep_58_characters_of_the_prefix() {
    let name = generate_name("gen-", || 0);
    assert_eq!(name, "gen-bbbbb");
    let name = generate_name(&"x".repeat(80), || u64::MAX);
    assert_eq!(name.len(), 63);
    assert!(name.starts_with(&"x".repeat(58)));
}

#[test]
fn obj_5_a_prefix_is_cut_between_characters() {
    let name = generate_name(&"é".repeat(40), || 1);
    assert!(name.starts_with('é'));
    assert!(name.len() <= 63);
}

proptest! {
    #[test]
    fn obj_5_suffixes_use_the_alphabet_only(bits: u64) {
        let name = generate_name("a-", || bits);
        prop_assert_eq!(name.len(), 7);
        prop_assert!(name.as_bytes()[2..].iter().all(|byte| SUFFIX_ALPHABET.contains(byte)));
    }

    #[test]
    fn obj_10_subdomains_match_their_grammar(name in "[a-cA-C0-2._-]{0,12}") {
        let grammar = regex::Regex::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").unwrap();
        prop_assert_eq!(dns_subdomain(&name).is_empty(), grammar.is_match(&name));
        let label = regex::Regex::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").unwrap();
        prop_assert_eq!(dns_label(&name).is_empty(), label.is_match(&name));
        let value = regex::Regex::new("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$").unwrap();
        prop_assert_eq!(label_value(&name).is_empty(), value.is_match(&name));
    }
}

#[test]
fn obj_6_a_name_is_required() {
    assert_eq!(named(""), ["metadata.name: Required value: name or generateName is required"]);
}

#[test]
fn obj_10_invalid_names_are_refused_with_the_known_messages() {
    assert_eq!(
        named("Bad_Name"),
        ["metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case \
             alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
    );
    let long = "a".repeat(254);
    assert_eq!(
        named(&long),
        [format!("metadata.name: Invalid value: \"{long}\": must be no more than 253 characters")]
    );
    assert!(named("fine.name-1").is_empty());
}

#[test]
fn obj_10_each_rule_has_its_own_grammar() {
    assert_eq!(validate_name(NameRule::DnsLabel, "a.b", false), ["must not contain dots"]);
    assert!(validate_name(NameRule::DnsLabel, "1a", false).is_empty());
    assert_eq!(
        validate_name(NameRule::Dns1035Label, "1a", false),
        ["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
         is '[a-z]([-a-z0-9]*[a-z0-9])?')"]
    );
    assert!(validate_name(NameRule::PathSegment, "system:Node", false).is_empty());
    assert_eq!(validate_name(NameRule::PathSegment, "a/b%", false), ["may not contain '/'", "may not contain '%'"]);
    assert_eq!(validate_name(NameRule::PathSegment, "..", false), ["may not be '..'"]);
}

#[test]
fn obj_10_a_prefix_may_end_with_a_dash() {
    assert!(validate_name(NameRule::DnsSubdomain, "gen-", true).is_empty());
    assert!(!validate_name(NameRule::DnsSubdomain, "gen-", false).is_empty());
    assert!(!validate_name(NameRule::DnsSubdomain, "-", true).is_empty());
}

#[test]
fn obj_10_labels_and_annotations() {
    let meta = json!({
        "name": "a", "namespace": "default",
        "labels": {"a/b/c": "x", "ok": "-bad"},
        "annotations": {"Example.COM/Key": "free text, any length", "/x": ""},
    });
    let found = messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, true));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].starts_with("metadata.labels: Invalid value: \"a/b/c\": a valid label key must consist of"));
    assert!(found[1].starts_with("metadata.labels: Invalid value: \"-bad\": a valid label must be an empty string"));
    assert_eq!(found[2], "metadata.annotations: Invalid value: \"/x\": prefix part must be non-empty");

    let meta = json!({"name": "a", "namespace": "default", "annotations": {"big": "x".repeat(256 * 1024)}});
    let found = messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, true));
    assert_eq!(found, ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
}

#[test]
fn obj_10_owner_references() {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": true});
    let other = json!({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "v", "controller": true});
    let meta = json!({"name": "a", "namespace": "n", "ownerReferences": [owner, other, {"apiVersion": "a/b/c"}]});
    let found = messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, true));
    assert_eq!(found.len(), 6, "{found:#?}");
    assert!(found[0].ends_with("/v1, Kind=Event is disallowed from being an owner"));
    assert!(found[1].ends_with(
        "Only one reference can have Controller set to true. Found \"true\" in references for ReplicaSet/rs and Event/e"
    ));
    assert_eq!(
        found[2],
        "metadata.ownerReferences[2].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>"
    );
    assert_eq!(found[3], "metadata.ownerReferences[2].kind: Required value: must not be empty");
}

#[test]
fn obj_10_finalizers_are_qualified_names() {
    let meta = json!({"name": "a", "namespace": "n", "finalizers": ["evenkeel.dev/hold", "bad name"]});
    let found = messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, true));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("metadata.finalizers: Invalid value: \"bad name\": name part must consist of"));
    let meta = json!({"name": "a", "namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]});
    let found = messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, true));
    assert!(found[0].ends_with("finalizer orphan and foregroundDeletion cannot be both set"));
}

#[test]
fn obj_10_the_namespace_belongs_to_namespaced_kinds_only() {
    let meta = json!({"name": "a", "namespace": "n"});
    let found = messages(&validate_object_meta(&meta, NameRule::DnsSubdomain, false));
    assert_eq!(found, ["metadata.namespace: Forbidden: not allowed on this type"]);
    let found = messages(&validate_object_meta(&json!({"name": "a"}), NameRule::DnsSubdomain, true));
    assert_eq!(found, ["metadata.namespace: Required value"]);
}

#[test]
fn obj_11_repeated_owner_references_are_removed_with_a_warning() {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"});
    let mut meta = json!({"ownerReferences": [owner, owner]});
    let warning = dedup_owner_references(&mut meta).unwrap();
    assert!(warning.ends_with("duplicate UID(s) observed: u-1"));
    assert_eq!(meta["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(dedup_owner_references(&mut meta), None);
}

#[test]
fn upd_7_server_fields_are_kept_or_refused() {
    let old = json!({
        "name": "a", "namespace": "n", "uid": "u", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    });
    let mut new = json!({"name": "a", "namespace": "n", "generation": 9, "creationTimestamp": "2020-01-01T00:00:00Z"});
    inherit_metadata(&mut new, &old);
    assert_eq!(new, old);
    assert!(validate_object_meta_update(&new, &old).is_empty());

    let mut new = json!({"name": "b", "namespace": "n", "uid": "v", "deletionTimestamp": "2031-01-01T00:00:00Z"});
    inherit_metadata(&mut new, &old);
    assert_eq!(
        messages(&validate_object_meta_update(&new, &old)),
        [
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"v\": field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2031-01-01T00:00:00Z\": field is immutable",
        ]
    );
}

#[test]
fn upd_7_a_started_deletion_cannot_be_undone() {
    let old = json!({
        "name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
    });
    let mut new = json!({"name": "a"});
    inherit_metadata(&mut new, &old);
    assert_eq!(new, old);
}

#[test]
fn upd_8_no_new_finalizers_while_deleting() {
    let old = json!({
        "name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["evenkeel.dev/hold"],
    });
    let mut new = json!({"name": "a", "finalizers": ["evenkeel.dev/hold", "evenkeel.dev/late"]});
    inherit_metadata(&mut new, &old);
    assert_eq!(
        messages(&validate_object_meta_update(&new, &old)),
        ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{\"evenkeel.dev/late\"}"]
    );
    let mut new = json!({"name": "a", "finalizers": []});
    inherit_metadata(&mut new, &old);
    assert!(validate_object_meta_update(&new, &old).is_empty());
}
