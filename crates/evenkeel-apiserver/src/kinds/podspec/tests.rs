use serde_json::json;

use super::*;

#[test]
fn obj_14_the_pull_policy_follows_the_tag() {
    for (image, policy) in [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("registry:5000/busybox", "Always"),
        ("registry:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:aa", "IfNotPresent"),
        ("", "IfNotPresent"),
    ] {
        assert_eq!(pull_policy(image), policy, "{image}");
    }
}

#[test]
fn obj_14_volumes_get_their_modes() {
    let mut spec = json!({"containers": [], "volumes": [
        {"name": "a", "secret": {"secretName": "s"}},
        {"name": "b"},
        {"name": "c", "hostPath": {"path": "/x"}},
        {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "e", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]});
    default_spec(spec.as_object_mut().unwrap());
    assert_eq!(
        spec["volumes"],
        json!([
            {"name": "a", "secret": {"secretName": "s", "defaultMode": 420}},
            {"name": "b", "emptyDir": {}},
            {"name": "c", "hostPath": {"path": "/x", "type": ""}},
            {"name": "d", "projected": {
                "defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            }},
            {"name": "e", "downwardAPI": {"defaultMode": 420, "items": [
                {"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}},
            ]}},
        ])
    );
}
