use evenkeel_core::{DecodeError, ResourceInfo};
use k8s_openapi::api::core::v1::Pod;

use super::*;

fn pod() -> Object {
    let json = format!(
        r#"{{"kind":"Pod","apiVersion":"v1",
        "metadata":{{"name":"a","namespace":"ns","uid":"u","resourceVersion":"7","generation":3,"labels":{{"app":"web"}},
        "annotations":{{"{LAST_APPLIED}":"{{}}","other":"stays"}},"managedFields":[{{"manager":"m"}}]}},
        "spec":{{"nodeName":"n1","containers":[{{"name":"c","env":[{{"name":"E","value":"e"}}]}}]}}}}"#
    );
    Obj::from_json(&Arc::new(ResourceInfo::of::<Pod>()), json).unwrap()
}

#[test]
fn managed_fields_are_dropped() {
    let lighter = drop_managed_fields()(pod()).unwrap();
    assert!(lighter.path("metadata.managedFields").unwrap().is_none());
    assert_eq!(lighter.path("spec.nodeName").unwrap().unwrap().text(), "n1");
}

#[test]
fn annotations_are_dropped_by_name() {
    let plainer = drop_annotations([LAST_APPLIED]).unwrap()(pod()).unwrap();
    assert_eq!(plainer.annotation(LAST_APPLIED).unwrap(), None);
    assert_eq!(plainer.annotation("other").unwrap().as_deref(), Some("stays"));
    assert!(drop_annotations(["a]b"]).is_err(), "no annotation is called that");
}

#[test]
fn paths_are_dropped() {
    let lighter = drop_paths(["spec.containers[*].env", "metadata.labels"]).unwrap()(pod()).unwrap();
    assert!(lighter.path("spec.containers[0].env").unwrap().is_none());
    assert!(lighter.path("spec.containers[0].name").unwrap().is_some());
    assert_eq!(lighter.label("app"), None);
    let nameless = drop_paths(["metadata.name"]).unwrap()(pod()).unwrap_err();
    assert!(matches!(nameless.downcast_ref(), Some(DecodeError::NoName { .. })), "{nameless}");
}

#[test]
fn only_selected_paths_and_the_identity_are_kept() {
    let rest = keep_paths(["spec.nodeName"]).unwrap()(pod()).unwrap();
    assert_eq!((rest.kind(), rest.api_version(), rest.key().as_str()), ("Pod", "v1", "ns/a"));
    assert_eq!((rest.uid(), rest.resource_version(), rest.generation()), ("u", "7", None));
    assert_eq!(rest.path("spec").unwrap().unwrap().json(), r#"{"nodeName":"n1"}"#);
}

#[test]
fn objects_are_edited_as_values() {
    let edited = edit(|pod: &mut Pod| {
        pod.metadata.labels = None;
        pod.spec.as_mut().unwrap().node_name = Some("n2".into());
    });
    let pod = edited(pod()).unwrap();
    assert_eq!((pod.kind(), pod.label("app"), pod.resource_version()), ("Pod", None, "7"));
    assert_eq!(pod.path("spec.nodeName").unwrap().unwrap().text(), "n2");
    let misfit = Obj::from_json(pod.resource(), r#"{"metadata":{"name":"x"},"spec":3}"#).unwrap();
    assert!(matches!(edited(misfit).unwrap_err().downcast_ref(), Some(DecodeError::Typed { .. })));
}

#[test]
fn a_value_that_is_edited_is_not_copied_first() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Single(serde_json::Value);
    impl Clone for Single {
        fn clone(&self) -> Self {
            panic!("copied")
        }
    }
    let info = Arc::new(ResourceInfo::of::<Pod>());
    let object = Obj::from_json(&info, r#"{"metadata":{"name":"x"}}"#).unwrap();
    let edited = edit(|value: &mut Single| value.0["metadata"]["name"] = "y".into())(object).unwrap();
    assert_eq!(edited.key().as_str(), "y");
}

#[test]
fn byo_004_an_object_without_managed_fields_stays_as_it_is() {
    let lighter = drop_managed_fields()(pod()).unwrap();
    let again = drop_managed_fields()(lighter.clone()).unwrap();
    assert_eq!(again.json().unwrap(), lighter.json().unwrap());
}
