//! Reviews of typed hooks, from bytes to bytes.

mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use evenkeel_core::{Reason, ResourceInfo, Status};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::server::{Fault, ReviewSettings, Route};
use crate::testing::{HookTestError, HookTester};
use crate::{AdmissionRequest, Hook, HookError, HookHandler, Verdict};

/// A review of a ConfigMap.
fn review(operation: &str, object: Value, old: Value) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "a-b-c",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": "a",
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "jane", "groups": ["dev"]},
            "object": object,
            "oldObject": old,
            "dryRun": true,
        },
    })
}

fn map(data: Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"}, "data": data})
}

fn route<H: HookHandler>(hook: Hook<H>) -> Route {
    Route::new(hook.erase())
}

/// Sends a review, and returns the HTTP status code and the answer: JSON, or a string.
async fn send(route: &Route, review: &Value, on_fault: Fault) -> (u16, Value) {
    let settings = ReviewSettings { on_fault, ..ReviewSettings::default() };
    let response = route.respond(Bytes::from(review.to_string()), None, &settings).await;
    let code = response.status().as_u16();
    let body = response.into_body();
    let text = || Value::from(String::from_utf8(body.to_vec()).unwrap());
    (code, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
}

fn validating() -> Hook<crate::Validating<ConfigMap>> {
    Hook::validating::<ConfigMap>()
}

fn recorder() -> (Snapshotter, metrics::LocalRecorderGuard<'static>) {
    let recorder = Box::leak(Box::new(DebuggingRecorder::new()));
    (recorder.snapshotter(), metrics::set_default_local_recorder(recorder))
}

/// Returns the counters, as `name{label=value,…}`. A snapshot resets them.
fn counters(snapshotter: &Snapshotter) -> Vec<(String, u64)> {
    let snapshot = snapshotter.snapshot().into_vec().into_iter();
    let counters = snapshot.filter_map(|(key, .., value)| {
        let DebugValue::Counter(count) = value else { return None };
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Some((format!("{}{{{}}}", key.key().name(), labels.join(",")), count))
    });
    counters.collect()
}

#[tokio::test]
async fn arv_001_and_arv_004_the_answer_has_version_and_uid_of_the_question() {
    let route = route(validating());
    for (asked, answered) in [
        (json!("admission.k8s.io/v1"), "admission.k8s.io/v1"),
        (json!("admission.k8s.io/v1beta1"), "admission.k8s.io/v1beta1"),
        (json!(""), "admission.k8s.io/v1"),
    ] {
        let mut question = review("CREATE", map(json!({})), Value::Null);
        question["apiVersion"] = asked;
        let (code, answer) = send(&route, &question, Fault::Fail).await;
        let expected = json!({"kind": "AdmissionReview", "apiVersion": answered,
            "response": {"uid": "a-b-c", "allowed": true, "status": {"code": 200}}});
        assert_eq!((code, answer), (200, expected));
    }
    let mut foreign = review("CREATE", map(json!({})), Value::Null);
    foreign["apiVersion"] = json!("admission.k8s.io/v2");
    let (code, answer) = send(&route, &foreign, Fault::Fail).await;
    assert_eq!(code, 400, "{answer}");
}

#[tokio::test]
async fn arv_004_a_code_that_the_hook_has_set_stays() {
    let hook =
        validating().on_create(|_, _| async { Ok(Verdict::refuse(Status::failure(429, Reason::default(), "later"))) });
    let (_, answer) = send(&route(hook), &review("CREATE", map(json!({})), Value::Null), Fault::Fail).await;
    assert_eq!(answer["response"]["status"]["code"], 429);
    let hook = validating().on_create(|_, _| async { Ok(Verdict::refuse(Status::default())) });
    let (_, answer) = send(&route(hook), &review("CREATE", map(json!({})), Value::Null), Fault::Fail).await;
    assert_eq!(answer["response"]["status"]["code"], 200);
    assert_eq!(answer["response"]["uid"], "a-b-c");
}

#[tokio::test]
async fn arv_007_and_arv_008_refusals_have_a_code_a_reason_and_a_message() {
    let deny = validating().on_create(|_, _| async { Ok(Verdict::deny("no")) });
    let answer = HookTester::new(deny).create(&map(json!({}))).await.unwrap();
    assert!(!answer.allowed);
    assert_eq!((answer.status.code, answer.status.reason, &*answer.status.message), (403, Reason::FORBIDDEN, "no"));
    assert_eq!(answer.status.status, "Failure");

    // A status of the API server is sent as it is.
    let status = || Status::failure(409, Reason::CONFLICT, "it has changed");
    let conflict = validating().on_create(move |_, _| async move { Err::<(), _>(status().into()) });
    let answer = HookTester::new(conflict).create(&map(json!({}))).await.unwrap();
    assert_eq!((answer.status.code, answer.status.reason), (409, Reason::CONFLICT));

    let allow = validating().on_create(|_, _| async { Ok(()) });
    let answer = HookTester::new(allow).create(&map(json!({}))).await.unwrap();
    assert_eq!((answer.allowed, answer.status.code), (true, 200));
}

#[tokio::test]
async fn ohc_001_arv_009_and_arv_010_a_panic_is_a_fault_and_the_next_review_is_served() {
    let (snapshotter, _guard) = recorder();
    let panics = Arc::new(AtomicBool::new(true));
    let hook = validating().on_create(move |_, _| {
        let panics = Arc::clone(&panics);
        async move {
            if panics.swap(false, Ordering::Relaxed) {
                panic!("out of {}", "cheese");
            }
            Ok(())
        }
    });
    let route = route(hook);
    let question = review("CREATE", map(json!({})), Value::Null);
    let (code, answer) = send(&route, &question, Fault::Fail).await;
    // Not a refusal: the failure policy of the webhook decides.
    assert_eq!((code, answer), (500, json!("panic: out of cheese [recovered]")));
    assert_eq!(send(&route, &question, Fault::Fail).await.0, 200);
    let panics =
        counters(&snapshotter).into_iter().find(|(name, _)| name == "controller_runtime_webhook_panics_total{}");
    assert_eq!(panics.unwrap().1, 1);
}

#[tokio::test]
async fn ohc_001_and_arv_010_with_deny_a_panic_is_a_refusal() {
    let hook = validating().on_create(|_, _| async { panic!("out of cheese") as Result<(), HookError> });
    let (code, answer) = send(&route(hook), &review("CREATE", map(json!({})), Value::Null), Fault::Deny).await;
    assert_eq!(code, 200);
    assert_eq!(answer["response"]["uid"], "a-b-c");
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["code"], 500);
    assert_eq!(answer["response"]["status"]["message"], "panic: out of cheese [recovered]");
}

#[tokio::test]
async fn arv_010_a_hook_that_cannot_decide_is_a_fault() {
    let hook = validating().on_create(|_, _| async { Err::<(), _>(HookError::fault("the registry is away")) });
    let (code, answer) = send(&route(hook), &review("CREATE", map(json!({})), Value::Null), Fault::Fail).await;
    assert_eq!((code, answer), (500, json!("the registry is away")));
}

#[tokio::test(start_paused = true)]
async fn ohc_009_and_arv_011_a_hook_is_dropped_before_the_timeout_of_its_webhook() {
    struct OnDrop(Arc<std::sync::Mutex<Option<Instant>>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(Instant::now());
        }
    }
    let dropped = Arc::new(std::sync::Mutex::new(None));
    let guard = Arc::clone(&dropped);
    let hook = validating().on_create(move |_, _| {
        let guard = OnDrop(Arc::clone(&guard));
        async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(guard);
            Ok(())
        }
    });
    let route = route(hook);
    let start = Instant::now();
    let body = Bytes::from(review("CREATE", map(json!({})), Value::Null).to_string());
    let response = route.respond(body, Some(start + Duration::from_secs(1)), &ReviewSettings::default()).await;
    assert_eq!(response.status(), 504);
    assert_eq!(dropped.lock().unwrap().unwrap(), start + Duration::from_millis(900));
}

#[tokio::test]
async fn arv_012_and_arv_017_a_request_is_read_before_its_objects() {
    let seen = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&seen);
    let hook = validating().on_update(move |old, new, request: AdmissionRequest| {
        *keep.lock().unwrap() = Some((old, new, request));
        async { Ok(()) }
    });
    let question = review("UPDATE", map(json!({"a": "2"})), map(json!({"a": "1"})));
    assert_eq!(send(&route(hook), &question, Fault::Fail).await.0, 200);
    let (old, new, request) = seen.lock().unwrap().take().unwrap();
    assert_eq!(old.data.as_ref().unwrap()["a"], "1");
    assert_eq!(new.data.as_ref().unwrap()["a"], "2");
    assert_eq!(request.uid(), "a-b-c");
    assert_eq!(request.operation().as_str(), "UPDATE");
    assert_eq!(request.user().username.as_deref(), Some("jane"));
    assert_eq!(request.key().unwrap().as_str(), "default/a");
    assert_eq!((request.kind().kind.as_str(), request.resource().resource.as_str()), ("ConfigMap", "configmaps"));
    assert!(request.is_dry_run() && request.subresource().is_none());
    let shown = format!("{request:?}");
    assert!(shown.contains("jane") && !shown.contains("\"2\""), "{shown}");
}

#[tokio::test]
async fn arv_017_an_object_that_does_not_fit_is_a_fault_that_names_the_field() {
    let hook = Hook::validating::<Pod>().on_create(|_, _| async { Ok(()) });
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}, {"name": "b", "stdin": "secret"}]}});
    let error = HookTester::new(hook).create(&pod).await.unwrap_err();
    let HookTestError::Failed { code, message } = error else { panic!("{error}") };
    assert_eq!(code, 500);
    assert!(message.contains("spec.containers[1].stdin"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn ohc_007_and_arv_013_the_key_comes_from_the_object_if_the_request_has_no_name() {
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let hook = validating().on_delete(move |_, request: AdmissionRequest| {
        let key = request.key().unwrap();
        let refused = key.name() == "b";
        seen.lock().unwrap().push(key.to_string());
        async move { if refused { Err("b is to be kept".into()) } else { Ok(()) } }
    });
    let tester = HookTester::new(hook);
    let mut refused = Vec::new();
    for name in ["a", "b", "c"] {
        let answer = tester.delete(&json!({"metadata": {"name": name, "namespace": "x"}})).await.unwrap();
        refused.extend((!answer.allowed).then_some(answer.status.message));
    }
    assert_eq!(*keys.lock().unwrap(), ["x/a", "x/b", "x/c"]);
    assert_eq!(refused, ["b is to be kept"]);

    // Created with generateName: there is no name yet.
    let unnamed = validating().on_create(|_, request: AdmissionRequest| async move {
        assert_eq!(request.key(), None);
        Ok(())
    });
    HookTester::new(unnamed).create(&json!({"metadata": {"generateName": "a-"}})).await.unwrap();
}

#[test]
fn arv_015_warnings_are_clean_short_and_unique() {
    let long = "ä".repeat(300);
    let verdict = Verdict::allow().warn("a\nb\u{7}").warn("").warn("ab").warn("\t").warn(&long);
    assert_eq!(verdict.warnings(), ["ab".to_owned(), "ä".repeat(256)]);
}

#[tokio::test]
async fn arv_016_arv_019_and_arv_027_all_checks_run_and_keep_reasons_warnings_and_annotations() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let hook = validating()
        .on_create(|_, _| async { Ok(Verdict::deny("first").warn("w1").annotate("a", "1")) })
        .on_create(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(Verdict::allow().warn("w2").annotate("b", "2")) }
        })
        .on_create(|_, _| async { Err::<(), _>("second".into()) })
        .on_create(|_, _| async { Err::<(), _>(HookError::fault("a fault does not undo a refusal")) });
    let answer = HookTester::new(hook).create(&map(json!({}))).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!((answer.allowed, answer.status.code, &*answer.status.message), (false, 403, "first\nsecond"));
    assert_eq!(answer.warnings, ["w1", "w2"]);
    assert_eq!(
        answer.annotations.into_iter().collect::<Vec<_>>(),
        [("a".into(), "1".into()), ("b".into(), "2".into())]
    );
}

#[tokio::test]
async fn arv_018_each_operation_has_its_check() {
    let hook = || {
        validating()
            .on_create(|_, _| async { Err::<(), _>("create".into()) })
            .on_update(|_, _, _| async { Err::<(), _>("update".into()) })
            .on_delete(|_, _| async { Err::<(), _>("delete".into()) })
    };
    let route = route(hook());
    for (operation, object, old) in [
        ("CREATE", map(json!({})), Value::Null),
        ("UPDATE", map(json!({})), map(json!({}))),
        ("DELETE", Value::Null, map(json!({}))),
    ] {
        let (_, answer) = send(&route, &review(operation, object, old), Fault::Fail).await;
        assert_eq!(answer["response"]["status"]["message"], operation.to_lowercase());
    }
    let (code, answer) =
        send(&route, &review("CONNECT", json!({"kind": "PodExecOptions"}), Value::Null), Fault::Fail).await;
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
    let (code, answer) = send(&route, &review("RENAME", map(json!({})), Value::Null), Fault::Fail).await;
    assert_eq!((code, answer), (400, json!("unknown operation \"RENAME\"")));
    for (operation, object, old) in [
        ("CREATE", Value::Null, Value::Null),
        ("UPDATE", map(json!({})), Value::Null),
        ("UPDATE", Value::Null, map(json!({}))),
        ("DELETE", map(json!({})), Value::Null),
    ] {
        let (code, answer) = send(&route, &review(operation, object, old), Fault::Fail).await;
        assert_eq!((code, answer), (400, json!("there is no content to decode")), "{operation}");
    }
}

#[tokio::test]
async fn connects_are_checked_with_their_options() {
    let hook = Hook::validating::<Pod>().subresource("exec").on_connect(|request: AdmissionRequest| async move {
        let options: Value = request.object()?.unwrap_or_default();
        if options["tty"] == true { Err("no terminals".into()) } else { Ok(()) }
    });
    let route = route(hook);
    let mut question = review("CONNECT", json!({"kind": "PodExecOptions", "tty": true}), Value::Null);
    question["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "PodExecOptions"});
    question["request"]["subResource"] = json!("exec");
    let (_, answer) = send(&route, &question, Fault::Fail).await;
    assert_eq!(answer["response"]["status"]["message"], "no terminals");
}

#[tokio::test]
async fn arv_020_and_arv_024_no_patch_without_a_change_and_none_for_deletes() {
    let hook = Hook::mutating::<ConfigMap>().apply(|map, _| {
        map.data.get_or_insert_default();
        Ok(())
    });
    let tester = HookTester::new(hook);
    assert_eq!(tester.create(&map(json!({"a": "1"}))).await.unwrap().patch, None);
    // It would not decode.
    let answer = tester.delete(&json!({"metadata": {"name": "a"}, "data": 7})).await.unwrap();
    assert_eq!((answer.allowed, answer.patch), (true, None));
}

#[tokio::test]
async fn arv_021_and_arv_022_a_typed_change_is_a_json_patch() {
    let hook = Hook::mutating::<ConfigMap>().apply(|map, _| {
        map.data.get_or_insert_default().insert("a/b".into(), "2".into());
        Ok(())
    });
    let mut object = map(json!({"a/b": "1"}));
    object["unknown"] = json!({"x": 1});
    let (_, answer) = send(&route(hook), &review("CREATE", object, Value::Null), Fault::Fail).await;
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let patch = BASE64_STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([{"op": "replace", "path": "/data/a~1b", "value": "2"}]));
}

fn sidecar(pod: &mut Pod) {
    let containers = &mut pod.spec.get_or_insert_default().containers;
    if !containers.iter().any(|container| container.name == "sidecar") {
        containers.insert(0, Container { name: "sidecar".into(), ..Container::default() });
    }
}

#[tokio::test]
async fn ohc_005_unknown_fields_of_a_pod_survive() {
    let hook = Hook::mutating::<Pod>().apply(|pod, _| {
        pod.spec.get_or_insert_default().containers[0].image = Some("new".into());
        Ok(())
    });
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [
        {"name": "app", "image": "old"}, {"name": "log", "image": "x", "fromTheFuture": {"a": [1]}},
    ]}});
    let answer = HookTester::new(hook).create(&pod).await.unwrap();
    let mut expected = pod.clone();
    expected["spec"]["containers"][0]["image"] = json!("new");
    assert_eq!(answer.object, expected);

    let hook = Hook::mutating::<Pod>().apply(|pod, _| {
        sidecar(pod);
        Ok(())
    });
    let answer = HookTester::new(hook).create(&expected).await.unwrap();
    assert_eq!(answer.object["spec"]["containers"][0], json!({"name": "sidecar"}));
    assert_eq!(answer.object["spec"]["containers"][2], pod["spec"]["containers"][1]);
}

#[tokio::test]
async fn ohc_008_and_arv_026_hooks_on_one_path_see_what_the_one_before_has_made() {
    let hook = Hook::mutating::<Pod>()
        .apply(|pod, _| {
            sidecar(pod);
            Ok(Verdict::allow().warn("sidecar"))
        })
        .apply(|pod, _| {
            let spec = pod.spec.get_or_insert_default();
            assert_eq!(spec.containers[0].name, "sidecar");
            for container in spec.containers.iter_mut().filter(|container| container.name == "app") {
                container.image = Some("app:2".into());
            }
            Ok(Verdict::allow().warn("image"))
        });
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    let answer = HookTester::new(hook).create(&pod).await.unwrap();
    assert_eq!(answer.object["spec"]["containers"], json!([{"name": "sidecar"}, {"name": "app", "image": "app:2"}]));
    assert_eq!(answer.warnings, ["sidecar", "image"]);

    let refused = Hook::mutating::<Pod>()
        .apply(|pod, _| {
            sidecar(pod);
            Ok(Verdict::allow().warn("sidecar"))
        })
        .apply(|_, _| Err::<(), _>("no".into()))
        .apply(|_, _| -> Result<(), HookError> { panic!("not reached") });
    let answer = HookTester::new(refused).create(&pod).await.unwrap();
    assert_eq!((answer.allowed, answer.patch, &*answer.status.message), (false, None, "no"));
    assert_eq!(answer.warnings, ["sidecar"]);
}

#[tokio::test]
async fn ohc_006_and_arv_025_a_review_of_another_subresource_is_refused_with_both_names() {
    let (snapshotter, _guard) = recorder();
    let hook = Hook::validating::<Deployment>().on_update(|_, _, _| async { Ok(()) });
    let deployments = route(hook);
    let scale =
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let mut question = review("UPDATE", scale.clone(), scale.clone());
    question["request"]["kind"] = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    question["request"]["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
    question["request"]["subResource"] = json!("scale");
    let (code, answer) = send(&deployments, &question, Fault::Fail).await;
    let text = answer.as_str().unwrap();
    assert_eq!(code, 400);
    assert!(text.contains("apps/v1 Deployment") && text.contains("autoscaling/v1 Scale"), "{text}");
    let counted = "controller_runtime_webhook_reviews_total{webhook=/validate-apps-v1-deployment,operation=UPDATE,allowed=false,code=400}";
    assert!(counters(&snapshotter).contains(&(counted.to_owned(), 1)));

    let hook = Hook::validating::<Scale>().subresource_of::<Deployment>("scale").on_update(|_, new, _| async move {
        let replicas = new.spec.as_ref().and_then(|spec| spec.replicas);
        if replicas == Some(3) { Ok(Verdict::allow().warn("three")) } else { Ok(Verdict::deny("not three")) }
    });
    let (code, answer) = send(&route(hook), &question, Fault::Fail).await;
    assert_eq!((code, &answer["response"]["warnings"][0]), (200, &json!("three")));
}

#[tokio::test]
async fn hooks_for_kinds_without_a_type_change_json() {
    let foos = || ResourceInfo::new("example.com", "v1", "Foo", "foos", true);
    let hook = Hook::mutating_json(foos()).apply(|foo, _| {
        foo["spec"]["size"] = json!(3);
        Ok(())
    });
    let answer = HookTester::new(hook).create(&json!({"metadata": {"name": "a"}, "spec": {"x": 1}})).await.unwrap();
    assert_eq!(answer.object["spec"], json!({"x": 1, "size": 3}));
    let hook = Hook::validating_json(foos()).on_create(|foo, _| async move {
        if foo["spec"]["size"].is_null() { Err("spec.size is required".into()) } else { Ok(()) }
    });
    let answer = HookTester::new(hook).create(&json!({"metadata": {"name": "a"}})).await.unwrap();
    assert_eq!(answer.status.message, "spec.size is required");
}

#[tokio::test]
async fn whs_013_and_whs_014_requests_and_reviews_are_counted() {
    let (snapshotter, _guard) = recorder();
    let hook = validating().on_create(|_, _| async { Ok(Verdict::deny("no")) });
    let route = route(hook);
    let path = "webhook=/validate--v1-configmap";
    let zeros = counters(&snapshotter);
    for code in ["200", "500"] {
        assert!(zeros.contains(&(format!("controller_runtime_webhook_requests_total{{{path},code={code}}}"), 0)));
    }
    assert!(zeros.contains(&("controller_runtime_webhook_panics_total{}".to_owned(), 0)));
    send(&route, &review("CREATE", map(json!({})), Value::Null), Fault::Fail).await;
    send(&route, &review("DELETE", Value::Null, map(json!({}))), Fault::Fail).await;
    let counted = counters(&snapshotter);
    let reviews = |operation, allowed, code| {
        let labels = format!("{path},operation={operation},allowed={allowed},code={code}");
        (format!("controller_runtime_webhook_reviews_total{{{labels}}}"), 1)
    };
    assert!(counted.contains(&reviews("CREATE", false, 403)), "{counted:?}");
    assert!(counted.contains(&reviews("DELETE", true, 200)), "{counted:?}");
}
