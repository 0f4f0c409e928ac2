//! The checks of the tester.

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn answer(response: Value) -> Vec<u8> {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).to_string().into()
}

fn problem(kind: HookKind, body: &[u8]) -> String {
    check_answer(kind, body, json!({})).unwrap_err().to_string()
}

#[test]
fn arv_005_and_arv_006_answers_that_api_servers_reject_are_errors() {
    let validating = HookKind::Validating;
    assert!(problem(validating, br#"{"kind":"AdmissionReview"}"#).contains("webhook response was absent"));
    let foreign = problem(validating, &answer(json!({"uid": "x", "allowed": true})));
    assert!(foreign.contains(&format!("expected response.uid={UID:?}, got \"x\"")), "{foreign}");
    let unversioned = json!({"response": {"uid": UID, "allowed": true}}).to_string();
    assert!(problem(validating, unversioned.as_bytes()).contains("expected webhook response of"));
    let patch = |more: Value| {
        let mut response = json!({"uid": UID, "allowed": true});
        response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        answer(response)
    };
    let both = patch(json!({"patch": "W10=", "patchType": "JSONPatch"}));
    assert!(problem(validating, &both).contains("validating webhook may not return response.patch"));
    assert!(check_answer(HookKind::Mutating, &both, json!({})).is_ok());
    let no_type = problem(HookKind::Mutating, &patch(json!({"patch": "W10="})));
    assert!(no_type.contains("webhook returned response.patch but not response.patchType"));
    let no_patch = problem(HookKind::Mutating, &patch(json!({"patchType": "JSONPatch"})));
    assert!(no_patch.contains("webhook returned response.patchType but not response.patch"));
    assert!(problem(HookKind::Mutating, &patch(json!({"patch": "W10=", "patchType": "Merge"}))).contains("Merge"));
    let on_delete = check_answer(HookKind::Mutating, &both, Value::Null).unwrap_err().to_string();
    assert!(on_delete.contains("attempted to modify the object"));
}

#[tokio::test]
async fn arv_023_a_hook_that_changes_its_own_result_is_an_error() {
    let hook = Hook::mutating::<ConfigMap>().apply(|map, _| {
        map.data.get_or_insert_default().entry("log".into()).or_default().push('x');
        Ok(())
    });
    let error = HookTester::new(hook).create(&ConfigMap::default()).await.unwrap_err();
    assert!(matches!(error, HookTestError::NotIdempotent { .. }), "{error}");
}
