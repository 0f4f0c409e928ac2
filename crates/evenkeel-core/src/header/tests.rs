use super::*;

const POD: &str = r#"{
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {
    "name": "web-0", "namespace": "ns", "uid": "u-1", "resourceVersion": "42", "generation": 3,
    "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": null,
    "labels": {"z": "1", "app.kubernetes.io/name": "we\"b", "a": ""},
    "annotations": {"secret": "value"},
    "finalizers": ["x/y", "a/b"],
    "ownerReferences": [
      {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o-0"},
      {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o-1", "controller": true,
       "blockOwnerDeletion": true, "unknown": {}}
    ],
    "managedFields": [{"fieldsV1": {"f:metadata": {}}}]
  },
  "spec": {"containers": [{"name": "c"}]}
}"#;

#[test]
fn the_header_contains_all_its_members() {
    let header = Header::from_json(POD.as_bytes()).unwrap();
    assert_eq!((header.kind(), header.api_version()), (Some("Pod"), Some("v1")));
    assert_eq!(header.key().as_str(), "ns/web-0");
    assert_eq!((header.uid(), header.resource_version(), header.generation()), ("u-1", "42", Some(3)));
    assert_eq!(header.creation_timestamp(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(header.deletion_timestamp(), None);
    assert_eq!(header.labels().collect::<Vec<_>>(), [("a", ""), ("app.kubernetes.io/name", "we\"b"), ("z", "1")]);
    assert_eq!((header.label("z"), header.label("a"), header.label("b")), (Some("1"), Some(""), None));
    assert_eq!(header.finalizers().collect::<Vec<_>>(), ["x/y", "a/b"]);
    assert_eq!(header.owner_references().len(), 2);
    let controller = header.controller().unwrap();
    assert_eq!((controller.kind, controller.uid, controller.api_version), ("ReplicaSet", "o-1", "apps/v1"));
    assert!(controller.block_owner_deletion);
}

#[test]
fn key_003_a_value_without_metadata_is_not_an_object() {
    for json in [r#"{"kind":"Pod"}"#, r#"{"kind":"Pod","metadata":null}"#] {
        let error = Header::from_json(json.as_bytes()).unwrap_err();
        assert!(matches!(error, DecodeError::NoMetadata { .. }), "{error}");
        assert!(error.to_string().starts_with("object has no meta"), "{error}");
    }
}

#[test]
fn null_equals_absent() {
    let header = Header::from_json(
        br#"{"metadata":{"name":"a","namespace":null,"labels":null,"finalizers":null,"ownerReferences":null,"generation":null}}"#,
    )
    .unwrap();
    assert_eq!((header.key().namespace(), header.kind(), header.uid()), (None, None, ""));
    assert_eq!((header.labels().len(), header.finalizers().len(), header.owner_references().len()), (0, 0, 0));
}

#[test]
fn errors_name_the_path() {
    for (json, path) in [
        (r#"{"metadata":{"name":1}}"#, "metadata.name"),
        (r#"{"metadata":{"labels":{"a.b":1}}}"#, "metadata.labels[a.b]"),
        (r#"{"metadata":{"ownerReferences":[{},{"uid":[]}]}}"#, "metadata.ownerReferences[1].uid"),
        (r#"{"metadata":{"generation":99999999999999999999}}"#, "metadata.generation"),
        (r#"{"metadata":{},"spec":{"a":[tru]}}"#, "spec.a[0]"),
        (r#"{"metadata":{"name":"a","name":"b"}}"#, "metadata.name"),
        (r#"{"metadata":{},"metadata":{}}"#, "metadata"),
        (r#"{"metadata":{"uid":"a","uid":"b"}}"#, "metadata.uid"),
        (r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#, "metadata.labels"),
    ] {
        let error = Header::from_json(json.as_bytes()).unwrap_err();
        assert_eq!(error.path(), path, "{error}");
    }
    assert!(Header::from_json(b"[]").is_err());
    assert!(Header::from_json(b"{\"metadata\":{}} x").is_err());
}

#[test]
fn every_prefix_is_an_error_and_none_a_panic() {
    for end in 0..POD.len() {
        assert!(Header::from_json(&POD.as_bytes()[..end]).is_err());
    }
}

#[test]
fn debug_shows_no_labels() {
    let text = format!("{:?}", Header::from_json(POD.as_bytes()).unwrap());
    assert!(text.contains("ns/web-0") && !text.contains("app.kubernetes.io"), "{text}");
}

#[test]
fn a_header_is_small() {
    let size = size_of::<Header>();
    // 48 of them are the key, which needs no memory elsewhere unless it is long.
    assert!(size <= 88, "{size} bytes");
}

#[test]
fn selectors_match_headers_directly() {
    let header = Header::from_json(POD.as_bytes()).unwrap();
    let selected = |text| crate::LabelSelector::parse(text).unwrap().matches(|key| header.label(key));
    assert!(selected("z=1,!b") && !selected("z=2"));
}

#[test]
fn siblings_in_a_row_share_what_they_have_in_common() {
    let header = |name: &str, app: &str| {
        let json =
            format!(r#"{{"kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"{app}","tier":"web"}}}}}}"#);
        Header::from_json(json.as_bytes()).unwrap()
    };
    let (one, two, other, again) = (header("a", "x"), header("b", "x"), header("c", "y"), header("d", "x"));
    assert!(Arc::ptr_eq(one.shared(), two.shared()));
    assert_eq!((other.label("app"), other.label("tier")), (Some("y"), Some("web")));
    assert!(!Arc::ptr_eq(two.shared(), other.shared()));
    assert!(**again.shared() == **one.shared());
    // A malformed object leaves nothing behind.
    assert!(Header::from_json(br#"{"metadata":{"name":"e","labels":{"app":"z","app":"z"}}}"#).is_err());
    assert_eq!(header("f", "x").labels().collect::<Vec<_>>(), [("app", "x"), ("tier", "web")]);
}

#[test]
fn only_a_name_that_is_empty_is_missing() {
    let named = |namespace: &str, name: &str| {
        let json = format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}"}}}}"#);
        Header::from_json(json.as_bytes()).unwrap().named().is_ok()
    };
    assert!(named("ns", "a") && named("", "a") && named("ns", "a/"));
    assert!(!named("ns", "") && !named("", ""));
}
