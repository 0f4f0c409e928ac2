//! Strategic merge patches of built-in kinds. The cases follow what the real server's own tables cover.

use evenkeel_core::Status;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use super::{StrategicError, apply_strategic_merge};
use crate::patch::PatchError;
use crate::schema::Schema;

const POD: &str = "io.k8s.api.core.v1.Pod";
const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

fn try_merge(kind: &str, mut doc: Value, patch: Value) -> Result<Value, PatchError> {
    let schema = Schema::builtin(kind).unwrap();
    apply_strategic_merge(&mut doc, patch.to_string().as_bytes(), Some(schema))?;
    Ok(doc)
}

#[track_caller]
fn merged(kind: &str, doc: Value, patch: Value) -> Value {
    try_merge(kind, doc, patch).unwrap()
}

/// Patches the specification of a pod.
#[track_caller]
fn pod(spec: Value, patch: Value) -> Value {
    let mut pod = merged(POD, json!({"spec": spec}), json!({"spec": patch}));
    pod["spec"].take()
}

#[track_caller]
fn finalizers(live: Value, patch: Value) -> Value {
    let mut object = merged(POD, json!({"metadata": {"finalizers": live}}), json!({"metadata": patch}));
    object["metadata"]["finalizers"].take()
}

#[track_caller]
fn refused(kind: &str, doc: Value, patch: Value) -> StrategicError {
    match try_merge(kind, doc, patch) {
        Err(PatchError::Strategic(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pat_7_objects_merge_and_null_deletes() {
    let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 1, "paused": true}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3", "never": null}}, "spec": {"paused": null}});
    assert_eq!(
        merged(DEPLOYMENT, live, patch),
        json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "spec": {"replicas": 1}})
    );
    // A field that is not there takes the patch as it is, without its nulls.
    assert_eq!(
        merged(DEPLOYMENT, json!({}), json!({"spec": {"replicas": null, "selector": {"matchLabels": {"a": "b"}}}})),
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}})
    );
    // So does a value of another type.
    assert_eq!(merged(DEPLOYMENT, json!({"spec": 1}), json!({"spec": {"paused": null}})), json!({"spec": {}}));
    assert_eq!(merged(DEPLOYMENT, json!({"spec": {}}), json!(null)), json!({"spec": {}}));
}

#[test]
fn pat_7_lists_merge_by_the_key_of_the_schema() {
    let live = json!({"containers": [{"name": "a", "image": "a:1", "args": ["x"]}, {"name": "b", "image": "b:1"}]});
    let patch = json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "a", "args": ["y", "z"]}]});
    assert_eq!(
        pod(live, patch),
        json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "a", "image": "a:1", "args": ["y", "z"]}]})
    );
    // By another key than the name, and nested in a list that is merged itself.
    let ports = |ports: Value| json!({"containers": [{"name": "a", "ports": ports}]});
    assert_eq!(
        pod(
            ports(json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}])),
            ports(json!([{"containerPort": 80, "name": "web"}, {"containerPort": 82}])),
        ),
        ports(json!([
            {"containerPort": 80, "protocol": "TCP", "name": "web"}, {"containerPort": 82}, {"containerPort": 81}
        ]))
    );
}

/// Containers of these names.
fn containers(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"containers": items})
}

#[test]
fn pat_7_new_items_precede_those_of_the_server() {
    assert_eq!(pod(containers(&["c"]), containers(&["side"])), containers(&["side", "c"]));
    // The order of the patch wins; items of the server keep their position before their former successors.
    assert_eq!(pod(containers(&["a", "b", "c", "d"]), containers(&["d", "b"])), containers(&["a", "c", "d", "b"]));
    assert_eq!(pod(containers(&["a", "b", "c"]), containers(&["c", "new", "a"])), containers(&["b", "c", "new", "a"]));
}

#[test]
fn pat_7_lists_that_are_not_merged_are_replaced() {
    let live = json!({"tolerations": [{"key": "a"}, {"key": "b"}], "containers": [{"name": "a", "args": ["1", "2"]}]});
    let patch = json!({"tolerations": [{"key": "c"}], "containers": [{"name": "a", "args": ["3"]}]});
    assert_eq!(pod(live, patch), json!({"tolerations": [{"key": "c"}], "containers": [{"name": "a", "args": ["3"]}]}));
    // So is an object that the schema declares to be replaced.
    let selector = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
    let budget = "io.k8s.api.policy.v1.PodDisruptionBudget";
    assert_eq!(merged(budget, selector(json!({"a": "1"})), selector(json!({"b": "2"}))), selector(json!({"b": "2"})));
}

#[test]
fn pat_7_lists_of_scalars_merge_by_value() {
    assert_eq!(finalizers(json!(["a", "b"]), json!({"finalizers": ["b", "c"]})), json!(["a", "b", "c"]));
    assert_eq!(finalizers(json!(["a"]), json!({"finalizers": ["c", "c"]})), json!(["c", "a"]));
    assert_eq!(finalizers(json!([]), json!({"finalizers": []})), json!([]));
    assert_eq!(finalizers(json!(["a", "b"]), json!({"finalizers": []})), json!(["a", "b"]));
}

#[test]
fn pat_7_delete_from_primitive_list() {
    let delete = |values: Value| json!({"$deleteFromPrimitiveList/finalizers": values});
    assert_eq!(finalizers(json!(["a", "b", "a"]), delete(json!(["a", "x"]))), json!(["b"]));
    let both = json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]});
    assert_eq!(finalizers(json!(["a", "b"]), both), json!(["c", "b"]));
    assert_eq!(
        merged(POD, json!({"metadata": {}}), json!({"metadata": delete(json!(["a"]))})),
        json!({"metadata": {}})
    );
    for bad in [json!("a"), json!([{"a": 1}]), json!(null)] {
        let error = refused(POD, json!({"metadata": {"finalizers": ["a"]}}), json!({"metadata": delete(bad)}));
        assert_eq!(error, StrategicError::PrimitiveList);
    }
    let error = refused(POD, json!({"metadata": {}}), json!({"metadata": {"$deleteFromPrimitiveList": ["a"]}}));
    assert_eq!(error, StrategicError::PrimitiveList);
}

#[test]
fn pat_7_patch_delete() {
    let live = || json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "a", "image": "twice"}]});
    let patch = json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "none", "$patch": "delete"}]});
    assert_eq!(pod(live(), patch), containers(&["b"]));
    // In an object it removes everything, whatever the patch adds.
    let emptied = json!({"securityContext": {"$patch": "delete", "runAsUser": 1}});
    assert_eq!(pod(json!({"securityContext": {"runAsGroup": 2}}), emptied.clone()), json!({"securityContext": {}}));
    // A missing object is not created.
    assert_eq!(pod(json!({}), emptied), json!({}));
    assert_eq!(pod(json!({}), json!({"containers": [{"name": "a", "$patch": "delete"}]})), json!({"containers": []}));
}

#[test]
fn pat_7_patch_replace() {
    let live = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]});
    let patch = json!({"containers": [{"name": "a", "tty": true}, {"$patch": "replace"}]});
    assert_eq!(pod(live, patch), json!({"containers": [{"name": "a", "tty": true}]}));
    let live = json!({"containers": [{"name": "a", "image": "1"}]});
    assert_eq!(pod(live.clone(), json!({"containers": [{"$patch": "replace"}]})), json!({"containers": []}));
    assert_eq!(
        pod(
            json!({"securityContext": {"a": 1, "b": 2}}),
            json!({"securityContext": {"$patch": "replace", "c": null, "b": 3}})
        ),
        json!({"securityContext": {"b": 3}})
    );
    // The whole object, too.
    assert_eq!(merged(POD, json!({"spec": live}), json!({"$patch": "replace", "spec": {}})), json!({"spec": {}}));
}

#[test]
fn pat_7_retain_keys() {
    let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let strategy = |strategy: Value| json!({"spec": {"strategy": strategy}});
    assert_eq!(
        merged(DEPLOYMENT, live.clone(), strategy(json!({"$retainKeys": ["type"], "type": "Recreate"}))),
        strategy(json!({"type": "Recreate"}))
    );
    // It changes an item of a merged list like any other object.
    let volume = json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]});
    assert_eq!(
        pod(json!({"volumes": [{"name": "v", "emptyDir": {}}]}), volume),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]})
    );
    // Without a current value there is nothing to remove.
    assert_eq!(
        merged(DEPLOYMENT, json!({"spec": {}}), strategy(json!({"$retainKeys": ["type"], "type": "Recreate"}))),
        strategy(json!({"type": "Recreate"}))
    );
    for bad in [json!({"$retainKeys": "type"}), json!({"$retainKeys": ["x"], "type": "Recreate"})] {
        assert_eq!(refused(DEPLOYMENT, live.clone(), strategy(bad)), StrategicError::RetainKeys);
    }
    let nulls_may_go = json!({"$retainKeys": ["type"], "rollingUpdate": null});
    assert_eq!(merged(DEPLOYMENT, live, strategy(nulls_may_go)), strategy(json!({"type": "RollingUpdate"})));
}

/// A patch of containers of these names, with the order of these and the other items.
fn ordered(names: &[&str], order: &[&str]) -> Value {
    let mut patch = containers(names);
    patch["$setElementOrder/containers"] = containers(order)["containers"].take();
    patch
}

#[test]
fn pat_7_set_element_order() {
    let live = || containers(&["a", "b", "c"]);
    assert_eq!(pod(live(), ordered(&["c"], &["c", "a", "b"])), containers(&["c", "a", "b"]));
    // Only the order; unnamed items keep their position.
    let mut only = json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]});
    assert_eq!(pod(live(), only.clone()), containers(&["b", "c", "a"]));
    assert_eq!(pod(json!({}), only.take()), json!({}));
    // New items take the position that the order names.
    assert_eq!(pod(live(), ordered(&["d"], &["a", "d", "b", "c"])), containers(&["a", "d", "b", "c"]));
    assert_eq!(pod(json!({}), ordered(&["b", "a"], &["b", "a"])), containers(&["b", "a"]));
    // Deleted items need no position.
    let mut delete = ordered(&[], &["b", "a"]);
    delete["containers"] = json!([{"name": "c", "$patch": "delete"}]);
    assert_eq!(pod(live(), delete), containers(&["b", "a"]));
    let order = json!({"$setElementOrder/finalizers": ["c", "a", "b"], "finalizers": ["c"]});
    assert_eq!(finalizers(json!(["a", "b"]), order), json!(["c", "a", "b"]));
    let order = json!({"$setElementOrder/finalizers": ["b"], "$deleteFromPrimitiveList/finalizers": ["a"]});
    assert_eq!(finalizers(json!(["a", "b"]), order), json!(["b"]));
}

#[test]
fn pat_7_an_order_that_contradicts_the_patch_is_refused() {
    let live = json!({"spec": containers(&["a", "b", "c"])});
    for (names, order) in [(&["a", "b"][..], &["b", "a"][..]), (&["x"], &["a"])] {
        let error = refused(POD, live.clone(), json!({"spec": ordered(names, order)}));
        assert_eq!(error, StrategicError::OrderMismatch { field: "containers".into() });
    }
    for bad in [
        json!({"$setElementOrder/containers": {}}),
        json!({"$setElementOrder": []}),
        json!({"$setElementOrder/containers": [{"name": "a"}], "containers": null}),
        json!({"$setElementOrder/serviceAccountName": [], "serviceAccountName": "x"}),
    ] {
        assert_eq!(refused(POD, live.clone(), json!({"spec": bad})), StrategicError::ElementOrder);
    }
    let error = refused(POD, live, json!({"spec": {"$setElementOrder/containers": [{"image": "a"}]}}));
    assert_eq!(error, StrategicError::NoMergeKey { field: "containers".into(), key: "name".into() });
}

#[test]
fn pat_7_malformed_directives_are_a_bad_request_and_lists_of_lists_are_unprocessable() {
    let live = json!({"metadata": {"finalizers": ["x"]}, "spec": containers(&["a"])});
    let status = |patch: Value| Status::from(try_merge(POD, live.clone(), patch).unwrap_err());
    for (patch, message) in [
        (json!({"spec": {"$patch": "bogus"}}), "unknown patch type: bogus"),
        (json!({"spec": {"$patch": 1}}), "unknown patch type: 1"),
        (json!({"spec": {"$patch": "merge"}}), "unknown patch type: merge"),
        (
            json!({"spec": {"containers": [{"$patch": "merge", "name": "a"}]}}),
            "merging lists cannot yet be specified in the patch",
        ),
        (json!({"spec": {"containers": [{"$patch": "none", "name": "a"}]}}), "unknown patch type: none"),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            "an item of \"containers\" does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"image": "a"}]}}),
            "an item of \"containers\" does not contain declared merge key: name",
        ),
        (json!({"spec": {"$retainKeys": 1}}), "invalid patch format of retainKeys"),
        (json!({"metadata": {"finalizers": [1]}}), "list element types are not identical: finalizers"),
        (json!({"spec": {"containers": ["a"]}}), "list element types are not identical: containers"),
        (json!([]), "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ] {
        let status = status(patch.clone());
        assert_eq!((status.code, status.message.as_str()), (400, message), "{patch}");
    }
    let mut doc = json!({"metadata": {"finalizers": []}});
    let patch = br#"{"metadata": {"finalizers": [["a"]]}}"#;
    let error = apply_strategic_merge(&mut doc, patch, Schema::builtin(POD)).unwrap_err();
    let status = Status::from(error);
    assert_eq!(status.code, 422);
    assert_eq!(status.message, "the server rejected our request due to an error in our request");
    let error = apply_strategic_merge(&mut json!({}), b"{\"a\": x", None).unwrap_err();
    assert_eq!(Status::from(error).message, "invalid character 'x' looking for beginning of value");
}

#[test]
fn pat_7_depth_is_limited() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    assert!(try_merge(POD, json!({}), nested(64)).is_ok());
    assert_eq!(refused(POD, json!({}), nested(65)), StrategicError::TooDeep);
}

#[test]
fn pat_7_directives_never_end_up_in_the_object() {
    let patch = json!({"spec": {"template": {"spec": {
        "$retainKeys": ["containers"], "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "a", "$setElementOrder/ports": []}, {"$patch": "replace"}],
        "securityContext": {"$patch": "delete"}
    }}}});
    let made = merged(DEPLOYMENT, json!({"spec": {}}), patch.clone());
    assert_eq!(made, json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}));
}

#[test]
fn duplicate_fields_of_a_patch_are_returned() {
    let patch = br#"{"metadata": {"labels": {"a": "1", "a": "2"}}}"#;
    let mut doc = json!({});
    assert_eq!(apply_strategic_merge(&mut doc, patch, Schema::builtin(POD)).unwrap(), ["metadata.labels.a"]);
    assert_eq!(doc, json!({"metadata": {"labels": {"a": "2"}}}));
}

proptest! {
    /// For any current list, the result has every item of the patch once, in the patch's order, and loses no other
    /// item.
    #[test]
    fn pat_7_merging_keeps_every_item_and_the_order_of_both(
        live in subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..=6).prop_shuffle(),
        patch in subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..=6).prop_shuffle(),
        all in Just(vec!["a", "b", "c", "d", "e", "f"]).prop_shuffle(),
    ) {
        let names = |spec: &Value| -> Vec<String> {
            spec["containers"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
        };
        let result = names(&pod(containers(&live), containers(&patch)));
        let only = |wanted: &dyn Fn(&str) -> bool| -> Vec<&str> {
            result.iter().map(String::as_str).filter(|name| wanted(name)).collect()
        };
        prop_assert_eq!(only(&|name| patch.contains(&name)), patch.clone());
        let rest: Vec<&str> = live.iter().copied().filter(|name| !patch.contains(name)).collect();
        prop_assert_eq!(only(&|name| !patch.contains(&name)), rest);
        // The patch is satisfied now, so it does nothing more.
        prop_assert_eq!(&names(&pod(containers(&result.iter().map(String::as_str).collect::<Vec<_>>()), containers(&patch))), &result);
        // A full order is the order.
        let patch: Vec<&str> = all.iter().copied().filter(|name| patch.contains(name)).collect();
        let arranged = names(&pod(containers(&live), ordered(&patch, &all)));
        let expected: Vec<&str> =
            all.iter().copied().filter(|name| live.contains(name) || patch.contains(name)).collect();
        prop_assert_eq!(arranged, expected);
    }
}
