//! Servers that are broken, slow or hostile, byte by byte.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_client::config::{HttpVersions, Redirects};
use evenkeel_client::transport::TransportFault;
use evenkeel_client::{Api, Client, Config, Error, ListParams, Path, WatchEnd, WatchParams};
use evenkeel_core::WatchEvent;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::raw::{Act, Raw, answer, chunked, json as json_answer, say};
use crate::support::{at, config_map, error_chain, soon};

fn object(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": "v"}
    })
}

fn found() -> Vec<u8> {
    json_answer(200, &object("a"))
}

fn maps(raw: &Raw, change: impl FnOnce(&mut Config)) -> Api<ConfigMap> {
    let mut config = at(&raw.url);
    change(&mut config);
    Client::new(config).unwrap().core_v1().config_maps("default")
}

fn fault(error: &Error) -> TransportFault {
    match error {
        Error::Transport { source, .. } => source.fault(),
        other => panic!("{other:?}"),
    }
}

async fn refused(raw: &Raw, change: impl FnOnce(&mut Config)) -> Error {
    soon(maps(raw, change).get("a").into_future()).await.unwrap_err()
}

#[tokio::test]
async fn chc_04_a_read_is_retried_after_a_reset_and_a_write_is_not() {
    let raw = Raw::start([vec![Act::Reset], say(found())]).await;
    let once = |config: &mut Config| config.retry.max_retries = 1;
    soon(maps(&raw, once).get("a").into_future()).await.unwrap();
    assert_eq!((raw.received().len(), raw.connections()), (2, 2));

    let raw = Raw::start([vec![Act::Reset]]).await;
    let error = soon(maps(&raw, |_| ()).create(&config_map("a")).into_future()).await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.is_connection_lost()), "{error}");
    assert_eq!(raw.received().len(), 1, "it may have been done");

    let raw = Raw::start([vec![Act::Reset]]).await;
    let request = maps(&raw, |_| ()).client().request(Method::GET, Path::raw("/x"));
    assert!(matches!(soon(request.stream()).await, Err(Error::Transport { .. })));
    assert_eq!(raw.received().len(), 1, "nor is a stream");
}

#[tokio::test]
async fn a_read_on_a_closed_idle_connection_is_retried() {
    // The server closes the connection while it is reused: there is no wait, and the request succeeds.
    let raw = Raw::start([say(found()), vec![Act::Close], say(found())]).await;
    let maps = maps(&raw, |config| config.retry.max_retries = 0);
    soon(maps.get("a").into_future()).await.unwrap();
    soon(maps.get("a").into_future()).await.unwrap();
    assert_eq!((raw.received().len(), raw.connections()), (3, 2));
    let error = Raw::start([say(found()), vec![Act::Close]]).await;
    let maps = self::maps(&error, |_| ());
    soon(maps.get("a").into_future()).await.unwrap();
    let failed = soon(maps.create(&config_map("a")).into_future()).await.unwrap_err();
    assert_eq!(fault(&failed), TransportFault::Closed, "a write may have been seen: {failed}");
    assert_eq!(error.received().len(), 2);
}

#[tokio::test]
async fn res_007_a_partial_response_is_an_error() {
    let whole = found();
    let half = whole[..whole.len() - 20].to_vec();
    for end in [Act::Close, Act::Reset] {
        let raw = Raw::start([vec![Act::Say(half.clone()), end]]).await;
        let error = refused(&raw, |_| ()).await;
        assert!(matches!(&error, Error::Transport { source, .. } if source.is_connection_lost()), "{error}");
        assert_eq!(raw.received().len(), 1, "there was an answer: it is not asked for again");
    }
    // A list in chunks that stops between two of them.
    let first = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":"#;
    for chunks in [&[first][..], &[first, r#"{"name":"a"}}"#]] {
        let raw = Raw::start([vec![Act::Say(chunked("application/json", chunks)), Act::Close]]).await;
        let error = soon(maps(&raw, |_| ()).list(&ListParams::default())).await.unwrap_err();
        assert_eq!(fault(&error), TransportFault::Closed, "{error}");
    }
    // Properly terminated chunks of a truncated list.
    let mut cut = chunked("application/json", &[first]);
    cut.extend_from_slice(b"0\r\n\r\n");
    let raw = Raw::start([say(cut)]).await;
    let error = soon(maps(&raw, |_| ()).list(&ListParams::default())).await.unwrap_err();
    assert!(matches!(error, Error::Stream { .. }), "{error}");
}

#[tokio::test]
async fn wch_007_a_truncated_event_is_not_delivered() {
    let event = format!("{}\n", json!({"type": "ADDED", "object": object("a")}));
    let half = &event[..event.len() / 2];
    // Cut off between chunks, and between events: the connection was lost.
    for chunks in [&[event.as_str()][..], &[&event, half]] {
        for end in [Act::Close, Act::Reset] {
            let raw = Raw::start([vec![Act::Say(chunked("application/json", chunks)), end]]).await;
            let mut watch = soon(maps(&raw, |_| ()).watch(&WatchParams::default())).await.unwrap();
            assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
            assert!(soon(watch.next()).await.is_none());
            assert!(matches!(watch.end(), Some(WatchEnd::Lost(_))), "{:?}", watch.end());
        }
    }
    // The HTTP body is complete, the event is not.
    let mut cut = chunked("application/json", &[&event, half]);
    cut.extend_from_slice(b"0\r\n\r\n");
    let raw = Raw::start([say(cut)]).await;
    let mut watch = soon(maps(&raw, |_| ()).watch(&WatchParams::default())).await.unwrap();
    assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
    assert!(soon(watch.next()).await.is_none());
    assert!(matches!(watch.end(), Some(WatchEnd::Truncated(_))), "{:?}", watch.end());
}

#[tokio::test]
async fn chc_03_429s_are_retried_with_the_whole_body_every_time() {
    let busy = || say(answer(429, "retry-after: 0\r\n", ""));
    let raw = Raw::start([busy(), busy(), busy(), say(json_answer(201, &object("a")))]).await;
    let mut map = config_map("a");
    map.data.as_mut().unwrap().insert("k".into(), "x".repeat(4000));
    soon(maps(&raw, |_| ()).create(&map).into_future()).await.unwrap();
    let received = raw.received();
    assert_eq!((received.len(), raw.connections()), (4, 1), "over one connection");
    assert!(received.iter().all(|request| request.body.len() > 4000 && request.body == received[0].body));

    let raw = Raw::start([busy()]).await;
    let error = refused(&raw, |_| ()).await;
    assert!(error.is_too_many_requests(), "{error}");
    assert_eq!(raw.received().len(), 11, "ten times again, and that was it");
}

#[tokio::test]
async fn a_server_without_a_response_exceeds_the_timeout() {
    // It never does, so the timeout expires on any machine.
    let late = Duration::from_millis(50);
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n".to_vec();
    let body = [head.as_slice(), b"\r\n{\"kind\":"].concat();
    for said in [Vec::new(), head, body.clone()] {
        let raw = Raw::start([vec![Act::Say(said), Act::Hang]]).await;
        let error = refused(&raw, |config| config.timeout = Some(late)).await;
        assert!(matches!(error, Error::Timeout { limit, .. } if limit == late), "{error}");
    }
    // A body that stalls, in a request without a timeout.
    let raw = Raw::start([vec![Act::Say(body), Act::Hang]]).await;
    let error = refused(&raw, |config| config.connections.body_idle_timeout = late).await;
    assert_eq!(fault(&error), TransportFault::Timeout, "{error}");
}

#[tokio::test]
async fn malformed_responses_are_errors() {
    let html = |code| answer(code, "content-type: text/html\r\n", "<h1>Log in here</h1>");
    let raw = Raw::saying(html(200)).await;
    let error = refused(&raw, |_| ()).await;
    assert!(matches!(error, Error::Unreadable { .. }) && error.to_string().contains("text/html"), "{error}");
    let error = soon(maps(&raw, |_| ()).list(&ListParams::default())).await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    let error = soon(maps(&raw, |_| ()).watch(&WatchParams::default())).await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");

    let error = refused(&Raw::saying(html(502)).await, |_| ()).await;
    assert!(error.is_internal_error() && error.is_unexpected_server_error(), "{error}");
    assert!(error.to_string().contains("Log in here"), "{error}");

    let odd = answer(404, "content-type: application/,x\r\n", "{}");
    let error = refused(&Raw::saying(odd).await, |_| ()).await;
    assert_eq!(error.status().unwrap().code, 500, "{error}");

    let nothing = answer(200, "content-type: application/json\r\n", "");
    let error = refused(&Raw::saying(nothing).await, |_| ()).await;
    assert!(matches!(error, Error::Unreadable { .. } | Error::Decode { .. }), "{error}");
}

#[tokio::test]
async fn sec_40_sec_41_sec_45_oversized_responses_are_errors() {
    let mut large = object("a");
    large["data"]["k"] = json!("x".repeat(5000));
    let raw = Raw::saying(json_answer(200, &large)).await;
    let error = refused(&raw, |config| config.limits.object = 4000).await;
    assert!(matches!(error, Error::TooLarge { limit: 4000, .. }), "{error}");
    soon(maps(&raw, |config| config.limits.object = 8000).get("a").into_future()).await.unwrap();

    // An endless list.
    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":["#;
    let item = format!("{},", object("a"));
    let mut endless = vec![list];
    endless.resize(1000, &item);
    let raw = Raw::start([vec![Act::Say(chunked("application/json", &endless)), Act::Hang]]).await;
    let error = soon(maps(&raw, |config| config.limits.list = 4000).list(&ListParams::default())).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 4000, .. }), "{error}");

    let event = json!({"type": "ADDED", "object": large}).to_string();
    let raw = Raw::start([vec![Act::Say(chunked("application/json", &[&event])), Act::Hang]]).await;
    let few = |config: &mut Config| config.limits.frame = 4000;
    let mut watch = soon(maps(&raw, few).watch(&WatchParams::default())).await.unwrap();
    while soon(watch.next()).await.is_some_and(|event| event.is_err()) {}
    assert!(matches!(watch.end(), Some(WatchEnd::Garbled(_))), "{:?}", watch.end());

    let header = format!("x-large: {}\r\n", "x".repeat(100_000));
    let error = refused(&Raw::saying(answer(200, &header, "{}")).await, |_| ()).await;
    assert_eq!(fault(&error), TransportFault::Protocol, "{error}");
    let headers: String = (0..300).map(|n| format!("x-{n}: y\r\n")).collect();
    let error = refused(&Raw::saying(answer(200, &headers, "{}")).await, |_| ()).await;
    assert_eq!(fault(&error), TransportFault::Protocol, "{error}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn sec_42_decompression_bombs_are_rejected() {
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let raw = Raw::saying(answer(200, headers, gzip(object("a").to_string().as_bytes()))).await;
    soon(maps(&raw, |_| ()).get("a").into_future()).await.unwrap();
    assert!(raw.received()[0].head.contains("accept-encoding: gzip"), "it was asked for");

    let bomb = gzip(&vec![b' '; 8 << 20]);
    for code in [200, 500] {
        let raw = Raw::saying(answer(code, headers, &bomb)).await;
        let error = refused(&raw, |_| ()).await;
        assert!(matches!(error, Error::TooLarge { .. } | Error::Unreadable { .. }), "{code}: {error}");
        let list = soon(maps(&raw, |_| ()).list(&ListParams::default())).await.unwrap_err();
        assert!(matches!(list, Error::TooLarge { .. } | Error::Unreadable { .. }), "{code}: {list}");
    }
    let whole = gzip(object("a").to_string().as_bytes());
    let error = refused(&Raw::saying(answer(200, headers, &whole[..whole.len() - 12])).await, |_| ()).await;
    assert!(matches!(error, Error::Unreadable { .. } | Error::Transport { .. }), "{error}");
}

#[tokio::test]
async fn sec_39_redirects_to_another_server_are_refused() {
    let elsewhere = Raw::saying(found()).await;
    let to = |place: &str| say(answer(302, &format!("location: {place}\r\n"), ""));
    let raw = Raw::start([to(&format!("{}/api", elsewhere.url))]).await;
    for redirects in [Redirects::Refuse, Redirects::SameOrigin] {
        let error = refused(&raw, |config| config.redirects = redirects).await;
        assert!(
            matches!(&error, Error::Redirected { location, .. } if location.starts_with(&elsewhere.url)),
            "{error}"
        );
        let error = soon(maps(&raw, |config| config.redirects = redirects).watch(&WatchParams::default())).await;
        assert!(matches!(error, Err(Error::Redirected { .. })));
    }
    assert_eq!(elsewhere.connections(), 0);

    let raw = Raw::start([to("/elsewhere"), to("b"), say(found())]).await;
    let error = refused(&raw, |_| ()).await;
    assert!(matches!(error, Error::Redirected { .. }), "{error}");
    let raw = Raw::start([to("/elsewhere/a"), to("b"), say(found())]).await;
    soon(maps(&raw, |config| config.redirects = Redirects::SameOrigin).get("a").into_future()).await.unwrap();
    let asked: Vec<_> = raw.received().iter().map(|it| it.head.lines().next().unwrap().to_owned()).collect();
    let expected = ["/api/v1/namespaces/default/configmaps/a", "/elsewhere/a", "/elsewhere/b"];
    assert_eq!(asked, expected.map(|path| format!("GET {path} HTTP/1.1")));
    let raw = Raw::start([to("/round")]).await;
    let error = refused(&raw, |config| config.redirects = Redirects::SameOrigin).await;
    assert!(matches!(error, Error::Redirected { .. }), "{error}");
    assert_eq!(raw.received().len(), 4, "three times, and that was it");
}

#[tokio::test]
async fn a_server_of_another_protocol_is_a_protocol_error() {
    for garbage in ["SSH-2.0-OpenSSH_9.6\r\n", "\0\0\0\0\0\0\0\0\0\0\0\0", "HTTP/1.1 abc\r\n\r\n"] {
        let raw = Raw::start([vec![Act::Say(garbage.into()), Act::Hang]]).await;
        let error = refused(&raw, |_| ()).await;
        assert_eq!(fault(&error), TransportFault::Protocol, "{}", error_chain(&error));
        assert_eq!(raw.received().len(), 1);
    }
    // A server without HTTP/2.
    let raw = Raw::start([vec![Act::Say(answer(400, "", "bad request")), Act::Close]]).await;
    let only = |config: &mut Config| {
        config.connections.http = HttpVersions::Http2Only;
        config.retry.max_retries = 0;
    };
    let error = refused(&raw, only).await;
    assert!(matches!(fault(&error), TransportFault::Protocol | TransportFault::Http2Lost), "{}", error_chain(&error));
}

#[tokio::test]
async fn an_http2_server_that_allows_nothing_is_not_flooded_with_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = at(&format!("http://{}", listener.local_addr().unwrap()));
    let accepted = Arc::new(AtomicUsize::new(0));
    let mut serving = JoinSet::new();
    serving.spawn({
        let accepted = Arc::clone(&accepted);
        async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                // SETTINGS of six bytes, on stream 0: MAX_CONCURRENT_STREAMS is 0.
                stream.write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]).await.unwrap();
                open.push(stream);
            }
        }
    });
    config.connections.http = HttpVersions::Http2Only;
    config.timeout = Some(Duration::from_millis(200));
    let maps = Client::new(config).unwrap().core_v1().config_maps("default");
    let mut asking = JoinSet::new();
    for _ in 0..10 {
        let maps = maps.clone();
        asking.spawn(async move { maps.get("a").await });
    }
    for outcome in soon(asking.join_all()).await {
        assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    }
    let accepted = accepted.load(Ordering::Relaxed);
    assert!((1..=20).contains(&accepted), "{accepted} connections for ten requests");
}

#[tokio::test]
async fn sec_84_informational_responses_without_end_are_an_error() {
    let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_vec();
    let raw = Raw::start([vec![Act::Say(hint.repeat(10_000)), Act::Hang]]).await;
    let error = refused(&raw, |config| config.retry.max_retries = 0).await;
    assert_eq!(fault(&error), TransportFault::Protocol, "{}", error_chain(&error));
    assert!(error_chain(&error).contains("100 informational"), "{}", error_chain(&error));
    let watch = soon(maps(&raw, |config| config.retry.max_retries = 0).watch(&WatchParams::default())).await;
    assert_eq!(fault(&watch.unwrap_err()), TransportFault::Protocol);
    // A few are fine.
    let raw = Raw::start([say([hint.repeat(50), found()].concat())]).await;
    soon(maps(&raw, |_| ()).get("a").into_future()).await.unwrap();
}

#[tokio::test]
async fn sec_83_a_list_of_another_kind_is_an_error() {
    let secrets = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "7"}, "items": []});
    let raw = Raw::saying(json_answer(200, &secrets)).await;
    let error = soon(maps(&raw, |_| ()).list(&ListParams::default())).await.unwrap_err();
    assert!(error.to_string().contains("expected v1 ConfigMapList, found v1 SecretList"), "{error}");
}
