use serde_json::{Value, json};

use super::condition::{one_of, parse};
use super::*;

fn object(kind: &str, status: Value) -> Obj<Unstructured> {
    let info = Arc::new(ResourceInfo::new("", "v1", kind, "things", true));
    let object = json!({
        "apiVersion": "v1", "kind": kind, "status": status,
        "metadata": {"name": "a", "namespace": "web", "uid": "u-1", "resourceVersion": "7", "generation": 2},
    });
    Obj::from_json(&info, object.to_string().into_bytes()).unwrap()
}

fn state(condition: &str, object: &Obj<Unstructured>) -> Result<ConditionState, String> {
    parse(condition).unwrap().state(Some(object), Some("u-1"))
}

fn is_met(condition: &str, object: &Obj<Unstructured>) -> bool {
    state(condition, object).unwrap().is_met()
}

#[test]
fn kwt_001_kubectls_forms_are_parsed() {
    for text in ["create", "delete", "DELETE", "Create"] {
        assert!(matches!(parse(text), Ok(Condition::Create | Condition::Delete)), "{text}");
    }
    let stated = |kind: &str, status: &str| Condition::Stated { kind: kind.to_owned(), status: status.to_owned() };
    assert_eq!(parse("condition=Ready"), Ok(stated("Ready", "true")));
    assert_eq!(parse("condition=Ready=unknown"), Ok(stated("Ready", "unknown")));
    assert_eq!(parse("ready").unwrap_err(), "unrecognized condition: \"ready\"");
    for text in ["condition=", "condition=Ready=", "jsonpath=", "jsonpath={.a}=", "jsonpath={.a"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn kwt_004_a_path_is_split_from_its_value_at_a_single_equals_sign() {
    for (text, path, value) in [
        ("jsonpath={.status.phase}=Running", "{.status.phase}", Some("Running")),
        ("jsonpath=.status.phase='Running'", ".status.phase", Some("Running")),
        ("jsonpath=.status.a[?(@.type==\"A\")].status=True", ".status.a[?(@.type==\"A\")].status", Some("True")),
        ("jsonpath=.status.a[?(@.n!=1)].b", ".status.a[?(@.n!=1)].b", None),
        ("jsonpath=.data.key=YQ==", ".data.key", Some("YQ==")),
    ] {
        let Ok(Condition::Path { text: parsed, value: found, .. }) = parse(text) else { panic!("{text}") };
        assert_eq!((parsed.as_str(), found.as_deref()), (path, value), "{text}");
    }
}

#[test]
fn kwt_003_types_and_statuses_are_compared_without_case_for_the_current_generation() {
    let ready = |generation: i64| {
        object("Thing", json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]}))
    };
    assert!(is_met("condition=ready", &ready(2)) && is_met("condition=READY=tRuE", &ready(2)));
    assert!(!is_met("condition=Ready=False", &ready(2)) && !is_met("condition=Ready", &ready(1)));
    let by_status =
        object("Thing", json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}));
    assert!(!is_met("condition=Ready", &by_status));
}

#[test]
fn kwt_004_a_path_has_one_scalar() {
    let thing =
        object("Thing", json!({"phase": "Running", "n": 3, "ok": true, "list": [1, 2], "empty": [], "map": {"a": 1}}));
    for met in ["status.phase=Running", "{.status.n}=3", "{status.ok}=true", ".status.list", ".status.phase"] {
        assert!(is_met(&format!("jsonpath={met}"), &thing), "{met}");
    }
    for pending in [".status.phase=Failed", ".status.absent", ".status.absent=1", ".status.empty[0]", ".status.n=3.0"] {
        assert_eq!(state(&format!("jsonpath={pending}"), &thing), Ok(ConditionState::Pending), "{pending}");
    }
    let several = state("jsonpath=.status.list[*]=1", &thing).unwrap_err();
    assert_eq!(several, "given jsonpath expression matches more than one value");
    let nested = state("jsonpath=.status.map=1", &thing).unwrap_err();
    assert_eq!(nested, "jsonpath leads to a nested object or list which is not supported");
}

#[test]
fn kwt_005_a_condition_that_cannot_be_met_any_more_says_so() {
    let is_never =
        |condition: &str, object: &Obj<Unstructured>| matches!(state(condition, object), Ok(ConditionState::Never(_)));
    let stated =
        |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}]});
    let (failed, complete) = (object("Job", stated("Failed")), object("Job", stated("Complete")));
    assert!(is_never("condition=Complete", &failed) && is_met("condition=Failed", &failed));
    assert!(is_never("condition=Failed", &complete) && is_met("condition=Complete", &complete));
    assert!(is_never("condition=Ready", &object("Pod", json!({"phase": "Failed"}))));
    assert!(!is_never("condition=Ready", &object("Thing", json!({"phase": "Failed"}))));

    let (met, pending, never) = (ConditionState::Met, ConditionState::Pending, ConditionState::Never("x".to_owned()));
    assert_eq!(one_of(vec![never.clone(), met.clone(), pending.clone()]), met);
    assert_eq!(one_of(vec![never.clone(), pending.clone()]), pending);
    assert_eq!(one_of(vec![never.clone(), never]), ConditionState::Never("x; x".to_owned()));
}

#[test]
fn kwt_001_deletion_counts_for_the_object_that_was_there() {
    let delete = parse("delete").unwrap();
    let thing = object("Thing", json!({}));
    assert_eq!(delete.state(Some(&thing), Some("u-1")), Ok(ConditionState::Pending));
    assert_eq!(delete.state(Some(&thing), Some("u-0")), Ok(ConditionState::Met), "another object of the name");
    assert_eq!(delete.state(None, None), Ok(ConditionState::Met));
}

#[test]
fn kwt_001_objects_are_named_or_selected() {
    let targets = |words: &[&str], is_selection: bool| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Targets::new(&words, is_selection).map(|targets| format!("{targets:?}")).map_err(|error| error.to_string())
    };
    assert_eq!(targets(&["pod/a", "job/b"], false).unwrap(), r#"Named([("pod", "a"), ("job", "b")])"#);
    assert_eq!(targets(&["pods", "a", "b"], false).unwrap(), r#"Named([("pods", "a"), ("pods", "b")])"#);
    assert_eq!(targets(&["pods"], true).unwrap(), r#"Selected("pods")"#);
    assert!(targets(&["pods"], false).unwrap_err().starts_with("which pods?"));
    assert!(targets(&["pods", "job/b"], false).unwrap_err().contains("cannot be mixed"));
    assert!(targets(&["pods", "a"], true).unwrap_err().contains("cannot be mixed"));
    for bad in ["pod/", "/a", "pod/a/b"] {
        assert!(targets(&[bad], false).unwrap_err().starts_with("an object is RESOURCE/NAME"), "{bad}");
    }
}

#[test]
fn kwt_002_a_negative_timeout_is_a_week() {
    assert_eq!(limit("-1s"), Ok(WEEK));
    assert_eq!(limit("0"), Ok(Duration::ZERO));
    assert!(limit("soon").is_err());
}
