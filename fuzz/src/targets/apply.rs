//! Strategic merge patch and server-side apply (FUZ-17). The first byte selects the check; JSON values follow.

use evenkeel_apiserver::internals::{PatchFormat, patch};
use serde_json::{Map, Value, json};

use super::crd_schema::admitted_schema;
use crate::budget::{TREE, within};
use crate::input::Input;

const TYPES: [&str; 4] = [
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.rbac.v1.ClusterRole",
];

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    if input.choice(&[true, false]) { check_strategic(&mut input) } else { check_apply(&mut input) }
}

fn check_strategic(input: &mut Input<'_>) {
    let type_name = input.choice(&TYPES);
    let (object, body) = (input.json(), input.json());
    if !object.is_object() {
        return;
    }
    let text = body.to_string();
    let apply = |object: &Value, body: &str, type_name| {
        patch(PatchFormat::Strategic, object.clone(), body.as_bytes(), type_name)
    };
    assert_eq!(apply(&object, "{}", Some(type_name)).ok().as_ref(), Some(&object), "a patch without content");
    let size = object.to_string().len() + text.len();
    if let Ok(result) = within(TREE, size, || apply(&object, &text, Some(type_name)))
        && !has_directive(&object)
    {
        assert!(!has_directive(&result), "a directive is left in {result}");
    }
    // Without a schema, lists are replaced: what is left is a merge patch.
    if !has_directive(&body) && body.is_object() {
        let merged = patch(PatchFormat::Merge, object.clone(), text.as_bytes(), None);
        if let Ok(result) = apply(&object, &text, None) {
            // A strategic merge patch discards nulls in lists as well.
            assert_eq!(Some(without_owners(result)), merged.ok().map(without_owners), "without a schema");
        }
    }
}

/// Returns whether a value has directives of strategic merge patches.
fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, member)| is_directive(name) || has_directive(member)),
        Value::Array(items) => items.iter().any(has_directive),
        _ => false,
    }
}

fn is_directive(name: &str) -> bool {
    let has_field = |prefix| name.strip_prefix(prefix).is_some_and(|field: &str| !field.is_empty());
    matches!(name, "$patch" | "$retainKeys") || has_field("$setElementOrder/") || has_field("$deleteFromPrimitiveList/")
}

fn check_apply(input: &mut Input<'_>) {
    let schema = input.json();
    let Some(schema) = admitted_schema(&schema) else { return };
    let intents = [(); 3].map(|()| intent(input.json()));
    if intents.iter().any(|intent| schema.check_intent(intent).is_err()) {
        return;
    }
    let [first, second, third] = &intents;
    let size: usize = intents.iter().map(|intent| intent.to_string().len()).sum();
    let force = |live: Option<&Value>, intent: &Value, manager: &str| {
        within(TREE, size, || schema.apply(live, intent, manager, true)).expect("what is forced has no conflicts")
    };
    let live = force(None, first, "one");
    // A manager that applies again owns and sets only what its last intent says.
    assert_eq!(
        without_owners(force(Some(&live), second, "one")),
        without_owners(force(None, second, "one")),
        "the last intent"
    );
    let once = force(Some(&live), second, "two");
    assert_eq!(force(Some(&once), second, "two"), once, "applied twice");
    // Without force, the result is the same or there is a conflict, which takes nothing from the other manager.
    if let Ok(applied) = schema.apply(Some(&live), second, "two", false) {
        assert_eq!(applied, once, "applied without a conflict");
        assert_eq!(owned(&applied, "one"), owned(&live, "one"), "fields were taken without a conflict");
    }
    // An update that changes nothing takes nothing.
    let mut same = once.clone();
    schema.update(&once, &mut same, "three");
    assert_eq!(same, once, "an update without a change");
    // The managers of an object that another one updates are still appliers.
    let mut updated = third.clone();
    if let Some(owners) = once.pointer("/metadata/managedFields") {
        updated["metadata"]["managedFields"] = owners.clone();
    }
    schema.update(&once, &mut updated, "three");
    let back = force(Some(&updated), second, "two");
    assert_eq!(force(Some(&back), second, "two"), back, "applied twice after an update");
}

/// Makes an object of a value, with what an object must have.
fn intent(value: Value) -> Value {
    let mut members = if let Value::Object(members) = value { members } else { Map::new() };
    members.insert("apiVersion".to_owned(), "v1".into());
    members.insert("kind".to_owned(), "A".into());
    members.insert("metadata".to_owned(), json!({"name": "a"}));
    Value::Object(members)
}

fn owned<'a>(object: &'a Value, manager: &str) -> Option<&'a Value> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    entries.iter().find(|entry| entry["manager"] == manager).map(|entry| &entry["fieldsV1"])
}

/// Removes the owners, and members that are null: a decoder drops those.
fn without_owners(mut object: Value) -> Value {
    fn drop_nulls(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, member| !member.is_null());
                members.values_mut().for_each(drop_nulls);
            }
            Value::Array(items) => items.iter_mut().for_each(drop_nulls),
            _ => {}
        }
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    drop_nulls(&mut object);
    object
}
