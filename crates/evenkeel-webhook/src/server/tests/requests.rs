//! Requests, without sockets and in paused time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame};
use tokio::time::Instant;

use super::*;

async fn send<B: Body>(server: &WebhookServer, request: Request<B>) -> (u16, String) {
    text_of(dispatch::answer(&server.shared, request).await).await
}

fn server() -> WebhookServer {
    WebhookServer::builder().hook(hook()).build().unwrap()
}

/// A body of chunks, the first one last, without a stated length. `None` never arrives.
struct Chunks(Vec<Option<Bytes>>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(None) = self.0.last() {
            return Poll::Pending;
        }
        Poll::Ready(self.0.pop().flatten().map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[tokio::test(start_paused = true)]
async fn arv_002_and_arv_003_requests_that_are_no_reviews_are_http_errors() {
    let server = server();
    let empty = "request body is empty".to_owned();
    assert_eq!(send(&server, post(PATH, "")).await, (400, empty.clone()));
    // The empty body is found first.
    let other = Request::post(PATH).header("content-type", "text/yaml");
    assert_eq!(send(&server, other.body(Full::<Bytes>::default()).unwrap()).await, (400, empty));
    let other = Request::post(PATH).header("content-type", "text/yaml").body(Full::<Bytes>::from("{}")).unwrap();
    assert_eq!(send(&server, other).await, (415, "contentType=text/yaml, expected application/json".to_owned()));
    let none = Request::post(PATH).body(Full::<Bytes>::from("{}")).unwrap();
    assert_eq!(send(&server, none).await, (415, "contentType=, expected application/json".to_owned()));
    let with_charset = Request::post(PATH).header("content-type", "application/json; charset=utf-8");
    assert_eq!(send(&server, with_charset.body(Full::<Bytes>::from(review())).unwrap()).await.0, 200);
    for body in ["{", "[]", "{}", r#"{"request": {"uid": 7}}"#] {
        let (code, text) = send(&server, post(PATH, body)).await;
        assert_eq!(code, 400, "{text}");
        assert!(text.contains("AdmissionReview"), "{text}");
    }
    assert_eq!(send(&server, post("/other", review())).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn ohc_004_bodies_are_limited() {
    let server = server();
    let padded = |length: usize| {
        let mut body = review();
        body.extend(std::iter::repeat_n(' ', length - body.len()));
        body
    };
    assert_eq!(send(&server, post(PATH, padded(7_340_031))).await.0, 200);
    let too_large = (413, "request entity is too large; limit is 7340032 bytes".to_owned());
    assert_eq!(send(&server, post(PATH, padded(7_340_032))).await, too_large);
    // Endless: read up to the limit, in chunks that share one buffer.
    let endless = Chunks(vec![Some(Bytes::from(vec![b' '; 1 << 20])); 100]);
    let endless = Request::post(PATH).header("content-type", "application/json").body(endless).unwrap();
    assert_eq!(send(&server, endless).await, too_large);
    let chunked = Chunks(review().as_bytes().rchunks(100).map(|chunk| Some(Bytes::copy_from_slice(chunk))).collect());
    let chunked = Request::post(PATH).header("content-type", "application/json").body(chunked).unwrap();
    assert_eq!(send(&server, chunked).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn whs_006_a_body_has_ten_seconds() {
    let server = server();
    let start = Instant::now();
    let stalled = Request::post(PATH).body(Chunks(vec![None, Some(Bytes::from_static(b"{"))])).unwrap();
    assert_eq!(send(&server, stalled).await.0, 408);
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn ohc_009_a_timeout_is_an_answer_and_in_the_latency() {
    let recorder = Box::leak(Box::new(metrics_util::debugging::DebuggingRecorder::new()));
    let _guard = ::metrics::set_default_local_recorder(recorder);
    let slow = Hook::validating::<ConfigMap>().on_create(|_, _| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    });
    let server = WebhookServer::builder().hook(slow).build().unwrap();
    let start = Instant::now();
    assert_eq!(send(&server, post(&format!("{PATH}?timeout=1s"), review())).await.0, 504);
    assert_eq!(start.elapsed(), Duration::from_millis(900));
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let latency =
        snapshot.into_iter().find(|(key, ..)| key.key().name() == "controller_runtime_webhook_latency_seconds");
    let Some((.., metrics_util::debugging::DebugValue::Histogram(samples))) = latency else { panic!("no latency") };
    assert_eq!(samples.len(), 1);
    assert!((samples[0].into_inner() - 0.9).abs() < 0.01);
}

#[test]
fn whs_002_two_hooks_on_one_path_are_an_error_that_names_both() {
    let both = WebhookServer::builder().hook(hook()).hook(Hook::mutating::<ConfigMap>().path(PATH)).build();
    let error = both.unwrap_err();
    assert!(matches!(&error, RegisterError::Duplicate { path, .. } if path == PATH));
    let text = error.to_string();
    assert!(
        text.contains("validating hook for v1 ConfigMap") && text.contains("mutating hook for v1 ConfigMap"),
        "{text}"
    );
    assert_eq!(server().register(hook()).unwrap_err().to_string().matches("validating hook").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn whs_004_and_cnv_001_conversions_are_served_on_one_path_and_limited() {
    use k8s_openapi::api::autoscaling::{v1, v2};
    let autoscalers = || {
        crate::Conversion::hub::<v2::HorizontalPodAutoscaler>(&["v1", "v2"]).spoke::<v1::HorizontalPodAutoscaler>(
            |old| Ok(v2::HorizontalPodAutoscaler { metadata: old.metadata, ..Default::default() }),
            |new| Ok(v1::HorizontalPodAutoscaler { metadata: new.metadata, ..Default::default() }),
        )
    };
    let server = WebhookServer::builder().conversion_limit(10_000).build().unwrap();
    let object = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}});
    let review = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": "x", "desiredAPIVersion": "autoscaling/v2", "objects": [object]}});
    assert_eq!(send(&server, post("/convert", review.to_string())).await.0, 404);
    server.register_conversion(autoscalers()).unwrap();
    let (code, text) = send(&server, post("/convert", review.to_string())).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["response"]["convertedObjects"][0]["apiVersion"]), (200, &json!("autoscaling/v2")));
    let padded = review.to_string() + &" ".repeat(10_000);
    assert_eq!(send(&server, post("/convert", padded)).await.0, 413);
    assert_eq!(server.paths(), ["/convert"]);
    assert!(matches!(server.register(hook().path("/convert")), Err(RegisterError::Duplicate { .. })));
}

#[test]
fn whs_005_a_path_that_cannot_be_configured_is_an_error() {
    let error = WebhookServer::builder().hook(hook().path("/a/Validate_Foo")).build().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("segment 1, \"Validate_Foo\"") && text.contains("validating hook for v1 ConfigMap"),
        "{text}"
    );
}

#[tokio::test]
async fn whs_003_a_hook_that_is_added_later_is_served() {
    let server = WebhookServer::builder().build().unwrap();
    assert_eq!(send(&server, post(PATH, review())).await.0, 404);
    server.register(hook()).unwrap();
    assert_eq!(send(&server, post(PATH, review())).await.0, 200);
    assert_eq!(server.paths(), [PATH]);
}

#[test]
fn whs_012_readiness_needs_a_listener_and_a_valid_certificate_for_the_service() {
    let (slot, _) = pair();
    let now = readiness::now();
    let check = |listening: &Listening, name, now| readiness::check(listening, name, now);
    assert_eq!(check(&Listening::No, None, now).unwrap_err(), "webhook server has not been started yet");
    assert_eq!(check(&Listening::Off, Some("x"), now), Ok(()));
    let without = Listening::Yes(ServerTls::new(&CurrentPair::empty(), None).unwrap());
    assert!(check(&without, None, now).unwrap_err().contains("no certificate"));
    let listening = Listening::Yes(ServerTls::new(&slot, None).unwrap());
    assert_eq!(check(&listening, Some("hooks.system.svc"), now), Ok(()));
    assert!(check(&listening, Some("other.system.svc"), now).unwrap_err().contains("not for other.system.svc"));
    // Ready until the end of the validity, and not after it.
    let end = slot.get().unwrap().not_after();
    assert_eq!(check(&listening, None, end - Duration::from_secs(1)), Ok(()));
    assert!(check(&listening, None, end).unwrap_err().contains("expired"));
}

/// Returns the value of a metric. A snapshot resets all metrics.
fn metric(snapshotter: &metrics_util::debugging::Snapshotter, name: &str) -> f64 {
    use metrics_util::debugging::DebugValue;
    let found = snapshotter.snapshot().into_vec().into_iter().find(|(key, ..)| key.key().name() == name);
    match found {
        Some((.., DebugValue::Gauge(value))) => value.into_inner(),
        Some((.., DebugValue::Counter(value))) => value as f64,
        _ => 0.0,
    }
}

#[tokio::test(start_paused = true)]
async fn all_bodies_together_have_a_budget() {
    let recorder = Box::leak(Box::new(metrics_util::debugging::DebuggingRecorder::new()));
    let snapshotter = recorder.snapshotter();
    let _guard = ::metrics::set_default_local_recorder(recorder);
    let slow = Hook::validating::<ConfigMap>().on_create(|_, _| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    });
    let length = review().len();
    let server = WebhookServer::builder().hook(slow).body_budget(2 * length + 9).build().unwrap();
    let spawn = || {
        let server = server.clone();
        tokio::spawn(async move { send(&server, post(PATH, review())).await.0 })
    };
    // A request whose body does not arrive takes nothing.
    let stalled = Request::post(PATH).header("content-length", "9999").body(Chunks(vec![None])).unwrap();
    let stalled = tokio::spawn({
        let server = server.clone();
        async move { send(&server, stalled).await.0 }
    });
    let (first, second) = (spawn(), spawn());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(metric(&snapshotter, "controller_runtime_webhook_body_bytes_in_flight"), 2.0 * length as f64);
    let start = Instant::now();
    let refused = dispatch::answer(&server.shared, post(PATH, review())).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert_eq!(metric(&snapshotter, "controller_runtime_webhook_bodies_refused_total"), 1.0);
    // One that waits for less than a second is served.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let third = spawn();
    assert_eq!((first.await.unwrap(), second.await.unwrap(), third.await.unwrap()), (200, 200, 200));
    assert_eq!(stalled.await.unwrap(), 408);
    let too_large = review() + &" ".repeat(length + 10);
    assert_eq!(send(&server, post(PATH, too_large)).await.0, 413);
    // All bytes were returned: since the first snapshot, which has reset the gauge, as many as it had shown.
    assert_eq!(metric(&snapshotter, "controller_runtime_webhook_body_bytes_in_flight"), -2.0 * length as f64);
}
