use serde_json::json;

use super::*;

fn state(objects: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let collections = BTreeMap::from([("/api/v1/configmaps".to_owned(), objects)]);
    ClusterState { collections }.comparable()
}

#[test]
fn sim_15_versions_uids_times_and_generated_names_are_not_compared() {
    let map = |suffix: &str, uid: &str, time: &str| {
        json!({"metadata": {"name": format!("a-{suffix}"), "generateName": "a-", "namespace": "default", "uid": uid,
                            "resourceVersion": uid, "ownerReferences": [{"name": "o", "uid": uid}]},
               "status": {"since": time}, "data": {"k": "v"}})
    };
    let one = state(vec![map("x", "1", "2030-01-01T00:00:00Z")]);
    let other = state(vec![map("y", "2", "2031-01-01T00:00:00.123456Z")]);
    assert_eq!(difference(&one, &other), None);
}

#[test]
fn differences_name_the_object_and_the_field() {
    let map =
        |name: &str, value: &str| json!({"metadata": {"name": name, "namespace": "default"}, "data": {"k": value}});
    let expected = state(vec![map("a", "1"), map("b", "1")]);
    let found = state(vec![map("a", "2"), map("c", "1")]);
    assert_eq!(
        difference(&expected, &found).unwrap(),
        "configmaps default/a differs: data.k is \"2\" instead of \"1\"; configmaps default/b: 0 instead of 1; \
         configmaps default/c: 1 instead of 0"
    );
}
