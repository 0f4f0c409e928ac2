use serde_json::json;

use super::*;

fn find(path: &str, value: &Value) -> Option<Value> {
    JsonPath::parse(path).expect(path).first(value).cloned()
}

#[test]
fn tab_4_paths_select_values() {
    let object = json!({
        "metadata": {"annotations": {"example.com/x": "y"}},
        "spec": {"replicas": 2, "list": [1, 2, 3]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "weight": 5},
            {"type": "It's", "status": "False", "weight": 9},
        ]},
    });
    for (path, expected) in [
        (".spec.replicas", json!(2)),
        ("spec.replicas", json!(2)),
        ("$.spec.replicas", json!(2)),
        ("{.spec.replicas}", json!(2)),
        (".spec['replicas']", json!(2)),
        (".metadata.annotations.example\\.com/x", json!("y")),
        (".metadata.annotations['example.com/x']", json!("y")),
        (".metadata.annotations.['example.com/x']", json!("y")),
        (".spec.list[0]", json!(1)),
        (".spec.list[-1]", json!(3)),
        (".spec.list[1:]", json!(2)),
        (".spec.list[*]", json!(1)),
        (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
        (".status.conditions[?(@.type == 'It\\'s')].status", json!("False")),
        (".status.conditions[?(@.weight>5)].type", json!("It's")),
        (".status.conditions[?(@.weight<=5)].type", json!("Ready")),
        (".status.conditions[?(@.type!=\"Ready\")].status", json!("False")),
        (".status.conditions[?(@.weight)].type", json!("Ready")),
        ("..weight", json!(5)),
    ] {
        assert_eq!(find(path, &object), Some(expected), "{path}");
    }
    for path in [".spec.none", ".spec.list[7]", ".spec.list[-7]", ".spec.replicas.x", ".spec.list[2:1]"] {
        assert_eq!(find(path, &object), None, "{path}");
    }
    assert_eq!(find(".", &object), Some(object.clone()));
}

#[test]
fn tab_4_invalid_paths_are_rejected() {
    for path in [".a[", ".a[x]", ".a[?(@.b==)]", ".a['b'", "..", ".a[?(@[?(@.b)])]", &".a".repeat(2000)] {
        assert_eq!(JsonPath::parse(path), None, "{path}");
    }
}
