use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::outbound::CallError;

fn webhook() -> Webhook {
    let function = Arc::new(|_| Box::pin(async { Err(CallError(String::new())) }) as crate::outbound::CallFuture);
    Webhook::of_function(&json!({"name": "a.example.com"}), function)
}

fn read(kind: WebhookKind, version: ReviewVersion, review: &Value) -> Result<ReviewResponse, String> {
    response(&webhook(), kind, version, "7", review.to_string().as_bytes())
}

fn of(response: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

#[test]
fn awh_010_unusable_responses_say_why() {
    use WebhookKind::{Mutating, Validating};
    let uid = |mut fields: Value| {
        fields["uid"] = "7".into();
        of(fields)
    };
    for (kind, review, why) in [
        (Validating, json!({"kind": "AdmissionReview"}), "webhook response was absent"),
        (Validating, of(json!({"uid": "8", "allowed": true})), "expected response.uid=\"7\", got \"8\""),
        (
            Validating,
            json!({"response": {"uid": "7", "allowed": true}}),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        (
            Validating,
            uid(json!({"allowed": true, "patch": "W10="})),
            "validating webhook may not return response.patch",
        ),
        (
            Validating,
            uid(json!({"allowed": true, "patchType": "JSONPatch"})),
            "validating webhook may not return response.patchType",
        ),
        (
            Mutating,
            uid(json!({"allowed": true, "patch": "W10="})),
            "webhook returned response.patch but not response.patchType",
        ),
        (
            Mutating,
            uid(json!({"allowed": true, "patchType": "JSONPatch"})),
            "webhook returned response.patchType but not response.patch",
        ),
    ] {
        let error = read(kind, ReviewVersion::V1, &review).unwrap_err();
        assert_eq!(error, format!("received invalid webhook response: {why}"));
    }
    let odd = uid(json!({"allowed": true, "patch": "W10=", "patchType": "Merge"}));
    assert_eq!(read(Mutating, ReviewVersion::V1, &odd).unwrap_err(), "unsupported patch type \"Merge\"");
}

#[test]
fn awh_010_the_older_version_checks_neither_uid_nor_kind() {
    let patch = STANDARD.encode("[]");
    let review = json!({"response": {"allowed": true, "patch": patch}});
    let read = read(WebhookKind::Mutating, ReviewVersion::V1beta1, &review).unwrap();
    assert_eq!((read.denied.is_none(), read.patch), (true, b"[]".to_vec()));
}

#[test]
fn awh_006_denials_keep_code_reason_and_details() {
    let deny = |status: Value| {
        let review = of(json!({"uid": "7", "allowed": false, "status": status}));
        let status = read(WebhookKind::Validating, ReviewVersion::V1, &review).unwrap().denied.unwrap();
        (status.code, status.reason.as_str().to_owned(), status.message)
    };
    let text = |rest: &str| format!("admission webhook \"a.example.com\" denied the request{rest}");
    assert_eq!(
        deny(json!({"code": 422, "reason": "Invalid", "message": "no"})),
        (422, "Invalid".to_owned(), text(": no"))
    );
    assert_eq!(deny(json!({"code": 200, "reason": "Why"})), (400, "Why".to_owned(), text(": Why")));
    assert_eq!(deny(Value::Null), (400, String::new(), text(" without explanation")));
}
