//! Functions of the program as webhooks, and what failing ones do.

use std::time::Duration;

use evenkeel_apiserver::{AdmissionHook, AdmissionReview, AdmissionVerdict};
use serde_json::json;

use super::server::WebhookServer;
use super::{CONFIG_MAPS, MUTATING, builder, config_map, configuration, recording};
use crate::api::Api;

fn hook(name: &str) -> AdmissionHook {
    AdmissionHook::validating(name).rule(&["CREATE"], &[""], &["v1"], &["configmaps"])
}

#[tokio::test]
async fn awh_020_a_function_runs_where_a_webhook_of_its_name_would() {
    let append = |review: &AdmissionReview| {
        let before = review.object()["data"]["a"].as_str().unwrap().to_owned();
        AdmissionVerdict::patch(&json!([{"op": "replace", "path": "/data/a", "value": format!("{before}f")}]))
    };
    let own = AdmissionHook::mutating("m.example.com").rule(&["CREATE"], &[""], &["v1"], &["configmaps"]);
    let (builder, reviews) = recording(builder(), own, append);
    let api = Api::with(builder).await;
    let patch = |value: &str| {
        let patch = json!([{"op": "replace", "path": "/data/a", "value": value}]).to_string();
        let patch = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, patch);
        json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
    };
    let before = WebhookServer::answering(patch("before")).await;
    let sent = configuration("MutatingWebhookConfiguration", "a", &before.client("/"), json!({}));
    api.post(MUTATING, &sent).await.expect(201);
    assert_eq!(api.post(CONFIG_MAPS, &config_map("a")).await.expect(201)["data"]["a"], "beforef");
    let after = WebhookServer::answering(patch("after")).await;
    let sent = configuration("MutatingWebhookConfiguration", "z", &after.client("/"), json!({}));
    api.post(MUTATING, &sent).await.expect(201);
    assert_eq!(api.post(CONFIG_MAPS, &config_map("b")).await.expect(201)["data"]["a"], "after");
    assert_eq!(reviews.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn awh_020_a_function_sees_the_review_and_replaces_the_object() {
    let own = AdmissionHook::mutating("m.example.com").rule(&["CREATE"], &[""], &["v1"], &["configmaps"]);
    let api = Api::with(builder().admit(own, |review: AdmissionReview| async move {
        assert_eq!((review.operation(), review.namespace(), review.name()), ("CREATE", "default", "a"));
        assert!(!review.is_dry_run() && review.old_object().is_null() && !review.user_name().is_empty());
        let mut object = review.object().clone();
        object["data"] = json!({"b": "2"});
        AdmissionVerdict::replace(object)
    }))
    .await;
    assert_eq!(api.post(CONFIG_MAPS, &config_map("a")).await.expect(201)["data"], json!({"b": "2"}));
}

#[tokio::test(start_paused = true)]
async fn awh_020_a_function_that_panics_or_fails_cannot_be_called() {
    let api = Api::with(
        builder()
            .admit(hook("a.example.com"), |review: AdmissionReview| async move {
                match review.name() {
                    "panics" => panic!("on purpose"),
                    "fails" => AdmissionVerdict::fail("no connection"),
                    _ => AdmissionVerdict::allow(),
                }
            })
            .admit(hook("b.example.com").ignore_failures(), |_: AdmissionReview| async {
                AdmissionVerdict::fail("ignored")
            }),
    )
    .await;
    for (name, why) in [("panics", "the function panicked"), ("fails", "no connection")] {
        let refused = api.post(CONFIG_MAPS, &config_map(name)).await;
        assert_eq!(
            refused.refusal(500, "InternalError"),
            format!("Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: {why}")
        );
    }
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn awh_020_a_whole_review_may_be_returned() {
    let api = Api::with(builder().admit(hook("a.example.com"), |review: AdmissionReview| async move {
        let uid = review.into_json()["request"]["uid"].clone();
        AdmissionVerdict::from_json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": uid, "allowed": false}}))
    }))
    .await;
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(refused.refusal(400, ""), "admission webhook \"a.example.com\" denied the request without explanation");
}

#[tokio::test(start_paused = true)]
async fn awh_007_a_webhook_that_hangs_times_out() {
    let hangs = |_: AdmissionReview| std::future::pending::<AdmissionVerdict>();
    let limited = hook("a.example.com").timeout(Duration::from_secs(1));
    let api = Api::with(builder().admit(limited.clone(), hangs)).await;
    let started = tokio::time::Instant::now();
    let creates = (0..50).map(|index| {
        let api = api.handle();
        async move {
            let body = config_map(&format!("a{index}")).to_string();
            api.send("POST", CONFIG_MAPS, &[], body).await
        }
    });
    let mut set: tokio::task::JoinSet<_> = creates.collect();
    while let Some(refused) = set.join_next().await {
        assert_eq!(
            refused.unwrap().refusal(500, "InternalError"),
            "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: context deadline \
             exceeded"
        );
    }
    assert_eq!(started.elapsed().as_secs(), 1, "they do not wait for one another");
    let api = Api::with(builder().admit(limited.ignore_failures(), hangs)).await;
    api.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_counted() {
    let verdict = |review: &AdmissionReview| match review.name() {
        "denied" => AdmissionVerdict::deny("no"),
        "failed" => AdmissionVerdict::fail("no"),
        _ => AdmissionVerdict::allow(),
    };
    let (builder, _) = recording(builder(), hook("a.example.com"), verdict);
    let api = Api::with(builder).await;
    for name in ["allowed", "denied", "failed"] {
        api.post(CONFIG_MAPS, &config_map(name)).await;
    }
    let metrics = api.get("/metrics").await.text;
    for line in [
        "apiserver_admission_webhook_request_total{code=\"200\",name=\"a.example.com\",operation=\"CREATE\",\
         rejected=\"false\",type=\"validating\"} 1",
        "apiserver_admission_webhook_rejection_count{error_type=\"no_error\",name=\"a.example.com\",\
         operation=\"CREATE\",rejection_code=\"403\",type=\"validating\"} 1",
        "apiserver_admission_webhook_rejection_count{error_type=\"calling_webhook_error\",name=\"a.example.com\",\
         operation=\"CREATE\",rejection_code=\"503\",type=\"validating\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}");
    }
}
