//! Properties of server-side apply that hold for any intent.

use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::fields::fields_of;
use super::super::set::FieldSet;
use super::super::{apply, entry};
use super::types::{Types, WORKLOAD};
use super::{T1, T2, write};

fn types() -> Option<&'static Types> {
    Some(&*WORKLOAD)
}

/// Intents over few names, so that two of them often overlap.
fn intent() -> impl Strategy<Value = Value> {
    let name = || select(&["a", "b", "c"][..]).prop_map(str::to_owned);
    let value = || select(&["x", "y"][..]).prop_map(str::to_owned);
    let ports = btree_map(1..4u8, value(), 0..3).prop_map(|ports| {
        ports.into_iter().map(|(port, name)| json!({"port": port, "protocol": "TCP", "name": name})).collect::<Vec<_>>()
    });
    (btree_map(name(), value(), 0..3), ports, btree_set(name(), 0..3), proptest::option::of(0..2u8), value()).prop_map(
        |(data, ports, finalizers, replicas, selector)| {
            let mut intent = json!({
                "apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"args": [selector]}
            });
            if !data.is_empty() {
                intent["data"] = json!(data);
            }
            if !finalizers.is_empty() {
                intent["metadata"]["finalizers"] = json!(finalizers);
            }
            if !ports.is_empty() {
                intent["spec"]["ports"] = json!(ports);
            }
            if let Some(replicas) = replicas {
                intent["spec"]["replicas"] = json!(replicas);
            }
            intent
        },
    )
}

fn insist(live: Option<&Value>, intent: &Value, manager: &str, now: &str) -> Value {
    apply(live, intent, types(), &write(manager, now), true).unwrap()
}

/// Returns whether merging the intent again makes no difference.
fn holds(object: &Value, intent: &Value) -> bool {
    let mut wanted = fields_of(intent, types());
    let there = fields_of(object, types());
    wanted.subtract(&there);
    wanted.is_empty() && super::super::merge::merge(object, intent, types()) == *object
}

fn owned_by(object: &Value, manager: &str) -> Value {
    let entries = entry::decode(&object["metadata"]["managedFields"]).unwrap();
    entries.into_iter().find(|entry| entry.manager == manager).map_or(json!({}), |entry| entry.fields.encode())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// An apply sets the fields of its intent and owns exactly those; repeating it changes nothing.
    #[test]
    fn ssa_11_applying_twice_is_applying_once(before in intent(), wanted in intent()) {
        let live = insist(None, &before, "one", T1);
        let once = insist(Some(&live), &wanted, "two", T1);
        prop_assert!(holds(&once, &wanted));
        let mut fields = fields_of(&wanted, types());
        fields.remove_never_owned();
        prop_assert_eq!(owned_by(&once, "two"), fields.encode());
        let twice = apply(Some(&once), &wanted, types(), &write("two", T2), false).unwrap();
        prop_assert_eq!(twice, once);
    }

    /// A single applier ends up with exactly its last intent, whatever it applied before.
    #[test]
    fn ssa_8_a_single_applier_leaves_only_its_last_intent(first in intent(), second in intent()) {
        let mut object = insist(Some(&insist(None, &first, "one", T1)), &second, "one", T2);
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        // Removed fields leave a null behind, which a decoder drops.
        for place in ["", "/metadata", "/spec"] {
            object.pointer_mut(place).unwrap().as_object_mut().unwrap().retain(|_, value| !value.is_null());
        }
        prop_assert_eq!(object, second);
    }

    /// An apply conflicts exactly where a forced one would take ownership from the other manager.
    #[test]
    fn ssa_9_ssa_10_conflicts_are_the_fields_that_force_takes(one in intent(), two in intent()) {
        let live = insist(None, &one, "one", T1);
        let forced = insist(Some(&live), &two, "two", T2);
        let before = owned_by(&live, "one");
        let after = owned_by(&forced, "one");
        let mut lost = FieldSet::decode(&before).unwrap();
        lost.subtract(&FieldSet::decode(&after).unwrap());
        match apply(Some(&live), &two, types(), &write("two", T2), false) {
            Ok(object) => {
                prop_assert!(lost.is_empty());
                prop_assert_eq!(object, forced);
            }
            Err(status) => {
                let reported: Vec<String> =
                    status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
                prop_assert_eq!(reported, lost.paths());
            }
        }
    }

    /// After a forced apply of another manager and a forced apply back, the first intent holds again and the other
    /// manager keeps the rest.
    #[test]
    fn ssa_10_force_and_back(one in intent(), two in intent()) {
        let live = insist(None, &one, "one", T1);
        let taken = insist(Some(&live), &two, "two", T1);
        let back = insist(Some(&taken), &one, "one", T2);
        prop_assert!(holds(&back, &one));
        prop_assert_eq!(owned_by(&back, "one"), owned_by(&live, "one"));
        // When the other manager applies an empty intent, only the first remains.
        let nothing = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}});
        let left = insist(Some(&back), &nothing, "two", T2);
        prop_assert!(holds(&left, &one));
        prop_assert_eq!(owned_by(&left, "two"), json!({}));
        prop_assert_eq!(owned_by(&left, "one"), owned_by(&live, "one"));
    }
}
