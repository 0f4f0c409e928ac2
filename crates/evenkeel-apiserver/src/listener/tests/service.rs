//! Tests without sockets, in virtual time where it matters.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::*;
use crate::faults::{Action, Rule, WatchAction};
use crate::http_types::User;
use crate::listener::compress;
use crate::listener::request_body::MAX_BODY;

/// A body of several pieces and unknown length, which optionally stalls after its last piece.
struct Pieces {
    left: usize,
    stalls: bool,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return if self.stalls { Poll::Pending } else { Poll::Ready(None) };
        }
        let size = self.left.min(100_000);
        self.left -= size;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; size])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

async fn send(server: &ApiServer, body: Pieces) -> Response<Body> {
    let request = Request::builder().method(Method::POST).uri("/whoami").body(body).unwrap();
    server.service().serve(request).await.unwrap()
}

#[tokio::test]
async fn url_11_bodies_beyond_three_mebibytes_are_refused() {
    let server = in_process().await;
    let pieces = |left| Pieces { left, stalls: false };
    let whole = json(send(&server, pieces(MAX_BODY)).await).await;
    assert_eq!(whole["size"], 3_145_728);
    let refused = send(&server, pieces(MAX_BODY + 1)).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let status = json(refused).await;
    assert_eq!(status["reason"], "RequestEntityTooLarge");
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
    let announced = call(&server.service(), Method::POST, "/whoami", &" ".repeat(MAX_BODY + 1)).await.unwrap();
    assert_eq!(announced.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn sec_65_a_stalled_body_times_out() {
    let server = in_process().await;
    let before = Instant::now();
    let stalled = Pieces { left: 10, stalls: true };
    assert_eq!(send(&server, stalled).await.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(before.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn url_12_audit_id_and_cache_control() {
    let server = in_process().await;
    let mut request = request(Method::GET, "/readyz", "");
    request.headers_mut().insert("Audit-Id", "mine".parse().unwrap());
    request.headers_mut().insert("Kubectl-Command", "kubectl get".parse().unwrap());
    let response = server.service().serve(request).await.unwrap();
    assert_eq!(response.headers()["audit-id"], "mine");
    assert_eq!(response.headers()["cache-control"], "no-cache, private");
    let missing = get(&server, "/nowhere").await.unwrap();
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    let id = missing.headers()["audit-id"].to_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
}

#[tokio::test]
async fn arc_3_the_in_process_service_is_the_administrator_by_default() {
    let (server, _) = start(ApiServer::builder().in_process_only().token("secret")).await;
    let admin = json(get(&server, "/whoami").await.unwrap()).await;
    assert_eq!(admin["name"], "system:admin");
    let bob = server.service().acting_as(User { name: "bob".into(), ..User::default() });
    let bob = json(call(&bob, Method::GET, "/whoami", "").await.unwrap()).await;
    assert_eq!((&bob["name"], &bob["groups"][0]), (&"bob".into(), &"system:authenticated".into()));
    let mut wrong = request(Method::GET, "/whoami", "");
    wrong.headers_mut().insert("authorization", "Bearer wrong".parse().unwrap());
    let refused = server.service().serve(wrong).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(json(refused).await["reason"], "Unauthorized");
}

#[tokio::test(start_paused = true)]
async fn arc_3_a_read_waits_for_its_revision_until_a_timeout() {
    let server = in_process().await;
    let path = format!("{CONFIG_MAPS}?resourceVersion=1");
    let (list, created) = tokio::join!(get(&server, &path), create(&server, "a"));
    assert_eq!(created.unwrap().status(), StatusCode::CREATED);
    assert_eq!(json(list.unwrap()).await["items"][0]["metadata"]["name"], "a");
    let before = Instant::now();
    let late = get(&server, &format!("{CONFIG_MAPS}?resourceVersion=99")).await.unwrap();
    assert_eq!(late.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(before.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn ops_2_requests_are_recorded() {
    let server = in_process().await;
    create(&server, "a").await.unwrap();
    server.faults().add(Rule::new(Action::Drop));
    assert!(get(&server, "/readyz?verbose").await.is_err());
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].method.clone(), requests[0].path.as_str()), (Method::POST, CONFIG_MAPS));
    assert_eq!((requests[0].user.as_str(), requests[0].status), ("system:admin", Some(StatusCode::CREATED)));
    assert_eq!((requests[1].path.as_str(), requests[1].status), ("/readyz?verbose", None));
}

#[tokio::test]
async fn ops_2_a_record_names_its_target_and_its_query() {
    let server = in_process().await;
    get(&server, "/api/v1/namespaces/a%20b/pods?resourceVersion=0&limit=5&labelSelector=app%3Dx").await.unwrap();
    get(&server, "/apis/apps/v1/namespaces/a/deployments/web/status").await.unwrap();
    get(&server, "/api/v1/pods?watch=1").await.unwrap();
    get(&server, "/version").await.unwrap();
    let requests = server.requests();
    let list = requests[0].target();
    assert_eq!((list.verb, list.version, list.resource, list.namespace), ("list", "v1", "pods", "a%20b"));
    assert_eq!(requests[0].query("labelSelector").as_deref(), Some("app=x"));
    assert_eq!(requests[0].query("continue"), None);
    let get = requests[1].target();
    assert_eq!(
        (get.verb, get.group, get.resource, get.name, get.subresource),
        ("get", "apps", "deployments", "web", "status")
    );
    assert_eq!(requests[2].target().verb, "watch");
    assert_eq!((requests[3].target().verb, requests[3].target().resource), ("get", ""));
    assert!(requests[0].time <= requests[3].time);
}

#[tokio::test(start_paused = true)]
async fn arc_4_ticks_reach_the_engine_until_the_handle_is_dropped() {
    let (server, fake) = start(ApiServer::builder().in_process_only()).await;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(fake.ticks(), 3);
    let mut watch = get(&server, WATCH).await.unwrap().into_body();
    drop(server);
    assert_eq!(frame(&mut watch).await, None, "watches end with the server");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fake.ticks(), 3);
}

#[test]
fn neg_8_large_complete_responses_are_compressed() {
    let large = vec![b'x'; 128 * 1024 + 1];
    let response = compress::gzip(Response::new(Body::whole(large.clone())));
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.headers()["vary"], "Accept-Encoding");
    let body = futures_body(response.into_body());
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(body.as_ref()), &mut plain).unwrap();
    assert_eq!(plain, large);
    let small = compress::gzip(Response::new(Body::whole(vec![b'x'; 128 * 1024])));
    assert!(!small.headers().contains_key("content-encoding"));
}

#[test]
fn neg_8_gzip_must_be_accepted() {
    let accepts = |value: &'static str| {
        let mut headers = http::HeaderMap::new();
        headers.insert("accept-encoding", value.parse().unwrap());
        compress::accepts_gzip(&headers)
    };
    assert!(accepts("gzip") && accepts("deflate, GZIP;q=0.5"));
    assert!(!accepts("identity") && !accepts("gzip;q=0") && !accepts("br, xgzip"));
}

#[tokio::test]
async fn neg_8_nothing_is_compressed_in_process() {
    let server = in_process().await;
    let mut request = request(Method::GET, "/large", "");
    request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let response = server.service().serve(request).await.unwrap();
    assert!(!response.headers().contains_key("content-encoding"));
    assert_eq!(json(response).await.as_str().unwrap().len(), 300_000);
}

#[tokio::test]
async fn flt_2_status_with_retry_after() {
    let server = in_process().await;
    server.faults().fail_next(1, 429, Some(7));
    let failed = get(&server, CONFIG_MAPS).await.unwrap();
    assert_eq!(failed.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(failed.headers()["retry-after"], "7");
    assert_eq!(json(failed).await["details"]["retryAfterSeconds"], 7);
    assert_eq!(get(&server, CONFIG_MAPS).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn flt_2_delay_and_hang() {
    let server = in_process().await;
    let before = Instant::now();
    server.faults().delay(Duration::from_millis(250));
    get(&server, CONFIG_MAPS).await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_millis(250));
    server.faults().clear();
    server.faults().add(Rule::new(Action::Hang));
    let hung = tokio::time::timeout(Duration::from_secs(3600), get(&server, CONFIG_MAPS)).await;
    assert!(hung.is_err());
}

#[tokio::test(start_paused = true)]
async fn flt_2_reset_after_bytes() {
    let server = in_process().await;
    server.faults().add(Rule::new(Action::Reset { after_bytes: 5 }));
    let mut body = get(&server, "/large").await.unwrap().into_body();
    assert_eq!(frame(&mut body).await, Some(Ok("\"xxxx".into())));
    assert_eq!(frame(&mut body).await, Some(Err(ConnectionCut)));
}

#[tokio::test]
async fn flt_3_commit_then_drop_and_drop_before_commit_look_the_same() {
    let server = in_process().await;
    server.faults().add(Rule::new(Action::DropBeforeCommit).verb("create").times(1));
    assert_eq!(create(&server, "a").await.unwrap_err(), ConnectionCut);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(get(&server, &path).await.unwrap().status(), StatusCode::NOT_FOUND);
    server.faults().add(Rule::new(Action::CommitThenDrop).verb("create").times(1));
    assert_eq!(create(&server, "a").await.unwrap_err(), ConnectionCut);
    assert_eq!(get(&server, &path).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn flt_4_a_rule_affects_an_open_watch() {
    let server = in_process().await;
    let mut watch = get(&server, WATCH).await.unwrap().into_body();
    create(&server, "a").await.unwrap();
    assert!(frame(&mut watch).await.unwrap().unwrap().contains("\"a\""));
    server.faults().drop_watch_after(1);
    create(&server, "b").await.unwrap();
    create(&server, "c").await.unwrap();
    assert!(frame(&mut watch).await.unwrap().unwrap().contains("\"b\""));
    assert_eq!(frame(&mut watch).await, None);
}

#[tokio::test(start_paused = true)]
async fn flt_4_a_cut_frame_breaks_the_stream() {
    let server = in_process().await;
    server.faults().cut_frame();
    let mut watch = get(&server, WATCH).await.unwrap().into_body();
    create(&server, "a").await.unwrap();
    assert_eq!(frame(&mut watch).await, Some(Ok("{\"type\":\"A".into())));
    assert_eq!(frame(&mut watch).await, Some(Err(ConnectionCut)));
}

#[tokio::test(start_paused = true)]
async fn flt_4_stalls_and_held_frames_are_delayed() {
    let server = in_process().await;
    let stall = Rule::watch(WatchAction::StallFor { event: 0, duration: Duration::from_secs(20) });
    let id = server.faults().add(stall);
    create(&server, "a").await.unwrap();
    let before = Instant::now();
    let mut watch = get(&server, WATCH).await.unwrap().into_body();
    frame(&mut watch).await.unwrap().unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(20));
    server.faults().remove(id);
    server.faults().add(Rule::watch(WatchAction::CoalesceFrames { events: 2, wait: Duration::from_secs(5) }));
    for name in ["b", "c", "d"] {
        create(&server, name).await.unwrap();
    }
    let before = Instant::now();
    let pair = frame(&mut watch).await.unwrap().unwrap();
    assert_eq!(pair.lines().count(), 2);
    assert!(before.elapsed().is_zero());
    assert_eq!(frame(&mut watch).await.unwrap().unwrap().lines().count(), 1);
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn flt_5_store_faults_reach_the_engine() {
    let (server, fake) = start(ApiServer::builder().in_process_only()).await;
    create(&server, "a").await.unwrap();
    server.faults().compact_now();
    assert_eq!(fake.compacted(), 1);
}

fn futures_body(mut body: Body) -> Bytes {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    match http_body::Body::poll_frame(Pin::new(&mut body), &mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap(),
        other => panic!("{other:?}"),
    }
}
