//! Watches and byte streams from scripted bodies.

use std::sync::Arc;
use std::task::Waker;

use evenkeel_core::codec::Codec;
use evenkeel_core::{Obj, ResourceInfo};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncReadExt};

use super::super::media::Codecs;
use super::super::testing::{BodyStep, ReaderFixture, Script, response};
use super::*;
use crate::transport::{BodyError, TransportFault};

const WATCH: &str = r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1"}}}
{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}
{"type":"odd","object":{"metadata":{"name":"a"}}}
{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"3"}}}{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"4"}}}
{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}
{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"5"}}}"#;

fn event(name: &str) -> String {
    format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}"}}}}}}"#)
}

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Pod>())
}

async fn watch(body: Body) -> WatchStream<Pod> {
    ReaderFixture::new(Method::GET).reader().watch(&pods(), http::Response::new(body)).await.unwrap()
}

fn words<K>(event: Result<WatchEvent<K>, Error>) -> String {
    let name = |object: Obj<K>| object.key().to_string();
    match event {
        Ok(WatchEvent::Added(object)) => format!("added {}", name(object)),
        Ok(WatchEvent::Modified(object)) => format!("modified {}", name(object)),
        Ok(WatchEvent::Deleted(object)) => format!("deleted {}", name(object)),
        Ok(WatchEvent::Bookmark { resource_version, .. }) => format!("bookmark {}", resource_version.as_str()),
        Ok(WatchEvent::Error(status)) => format!("error {}", status.code),
        Err(error) => error.to_string(),
    }
}

/// All events of a watch, as text, and the watch.
async fn all(body: Body) -> (Vec<String>, WatchStream<Pod>) {
    let mut stream = watch(body).await;
    let mut out = Vec::new();
    while let Some(event) = stream.next().await {
        out.push(words(event));
    }
    (out, stream)
}

fn transport(fault: TransportFault) -> BodyStep {
    BodyStep::Fail(Box::new(TransportError::bare(fault, "api.test")))
}

#[tokio::test]
async fn wch_001_and_wch_011_events_are_in_the_servers_order() {
    let (out, stream) = all(Body::full(WATCH)).await;
    assert!(out[2].contains("got invalid watch event type: \"odd\""), "{}", out[2]);
    assert!(out[2].starts_with("GET /apis/apps/v1/namespaces/default/deployments/web: "), "{}", out[2]);
    let others: Vec<_> = out.iter().enumerate().filter(|(at, _)| *at != 2).map(|(_, text)| text.as_str()).collect();
    assert_eq!(others, ["added a", "modified a", "deleted a", "bookmark 4", "error 410", "added b"]);
    assert!(matches!(stream.end(), Some(WatchEnd::Closed)), "an ERROR is an event: the server ended the watch");
}

#[tokio::test]
async fn wch_004_the_media_type_is_checked_when_the_watch_opens() {
    let fixture = ReaderFixture::new(Method::GET);
    let open =
        async |content_type: &str| fixture.reader().watch::<Pod>(&pods(), response(200, content_type, WATCH)).await;
    for content_type in ["", "application/json", "application/json;stream=watch"] {
        let mut stream = open(content_type).await.unwrap();
        assert_eq!(words(stream.next().await.unwrap()), "added a", "{content_type}");
    }
    let error = open("foobar").await.unwrap_err();
    assert!(error.to_string().ends_with("its media type is foobar, which is not supported"), "{error}");
    assert!(open("application/,x").await.unwrap_err().is_internal_error());
}

#[tokio::test]
async fn chc_12_a_watch_that_prefers_protobuf_reads_a_json_response() {
    let mut fixture = ReaderFixture::new(Method::GET);
    fixture.codecs = Codecs::preferring(Codec::Protobuf);
    let mut stream = fixture.reader().watch::<Pod>(&pods(), response(200, "application/json", WATCH)).await.unwrap();
    assert_eq!(words(stream.next().await.unwrap()), "added a");
    assert!(fixture.reader().watch::<Pod>(&pods(), response(200, "application/cbor", WATCH)).await.is_err());
}

#[tokio::test]
async fn wch_005_an_unknown_event_is_an_error_and_the_watch_continues() {
    // Better than client-go, which ends the watch.
    let text = format!("{}{}{}", event("a"), r#"{"type":"added","object":{}}"#, event("b"));
    let (out, stream) = all(Body::full(text)).await;
    assert_eq!((out.len(), out[0].as_str(), out[2].as_str()), (3, "added a", "added b"));
    assert!(matches!(stream.end(), Some(WatchEnd::Closed)));
}

#[tokio::test]
async fn wch_006_and_sec_41_an_event_beyond_the_limit_ends_the_watch() {
    let mut fixture = ReaderFixture::new(Method::GET);
    assert_eq!(fixture.limits.frame, 32 << 20);
    fixture.limits.frame = event("aaaa").len();
    let text = event("aaaa") + &event("aaaaa") + &event("a");
    let mut stream = fixture.reader().watch::<Pod>(&pods(), response(200, "", text)).await.unwrap();
    assert_eq!(words(stream.next().await.unwrap()), "added aaaa");
    assert!(stream.next().await.is_none());
    let Some(WatchEnd::Garbled(error)) = stream.end() else { panic!("{:?}", stream.end()) };
    assert!(matches!(error, StreamError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn chc_11_frames_may_be_cut_anywhere_and_the_last_may_be_missing_its_end() {
    let name = "a".repeat(40 << 10);
    let text = event(&name) + &event("b")[..3];
    let (out, stream) = all(Script::chunks(text.as_bytes().chunks(1))).await;
    assert_eq!(out, [format!("added {name}")]);
    let Some(WatchEnd::Truncated(error)) = stream.end() else { panic!("{:?}", stream.end()) };
    assert!(error.to_string().contains("in the middle of an event"), "{error}");
}

#[tokio::test]
async fn wch_007_wch_008_and_wch_013_every_end_of_a_watch_is_distinct_and_no_event() {
    // Better than client-go, where a clean end, a truncation and a timeout look the same, and a lost connection is an
    // ERROR event as if the server had sent it.
    let half = || BodyStep::Chunk(event("b")[..10].to_owned().into());
    let whole = || BodyStep::Chunk(event("a").into());
    type IsEnd = fn(&WatchEnd) -> bool;
    let cases: Vec<(Vec<BodyStep>, IsEnd)> = vec![
        (vec![whole(), BodyStep::Trailers], |end| matches!(end, WatchEnd::Closed)),
        (vec![whole(), half()], |end| matches!(end, WatchEnd::Truncated(_))),
        (
            vec![whole(), half(), transport(TransportFault::Http2Lost)],
            |end| matches!(end, WatchEnd::Lost(error) if error.fault() == TransportFault::Http2Lost),
        ),
        (vec![whole(), transport(TransportFault::StreamReset)], |end| matches!(end, WatchEnd::Lost(_))),
        (
            vec![whole(), BodyStep::Fail("odd".into())],
            |end| matches!(end, WatchEnd::Lost(error) if error.fault() == TransportFault::Other),
        ),
        (vec![whole(), transport(TransportFault::Timeout)], |end| matches!(end, WatchEnd::TimedOut(_))),
        (vec![whole(), BodyStep::Chunk("garbage".into()), whole()], |end| matches!(end, WatchEnd::Garbled(_))),
    ];
    for (steps, is_end) in cases {
        let (body, watched) = Script::body(steps);
        let (out, mut stream) = all(body).await;
        assert_eq!(out, ["added a"]);
        assert!(is_end(stream.end().unwrap()), "{:?}", stream.end());
        assert_eq!(watched.dropped(), 1, "the connection is let go at once");
        assert!(stream.is_terminated() && stream.next().await.is_none(), "for ever");
        stream.stop();
        assert!(is_end(stream.end().unwrap()), "stopping what has ended changes nothing");
    }
}

#[tokio::test]
async fn chc_13_wch_009_stopping_drops_the_body_once_and_makes_no_event() {
    let (body, watched) = Script::body([BodyStep::Chunk((event("a") + &event("b")).into()), BodyStep::Hang]);
    let mut stream = watch(body).await;
    assert_eq!(words(stream.next().await.unwrap()), "added a");
    stream.stop();
    assert_eq!(watched.dropped(), 1);
    assert!(matches!(stream.end(), Some(WatchEnd::Stopped)));
    assert!(stream.next().await.is_none(), "not even what had come already");
    stream.stop();
    drop(stream);
    assert_eq!(watched.dropped(), 1);

    let (body, watched) = Script::body([BodyStep::Hang]);
    drop(watch(body).await);
    assert_eq!(watched.dropped(), 1, "dropping it is enough");
}

#[tokio::test]
async fn wch_009_nothing_is_read_before_the_first_poll() {
    let two = event("a") + &event("b");
    let (body, watched) =
        Script::body([BodyStep::Chunk(two.clone().into()), BodyStep::Chunk(two.into()), BodyStep::Hang]);
    let mut stream = watch(body).await;
    assert_eq!(watched.polled(), 0);
    for polled in [1, 1, 2, 2] {
        stream.next().await.unwrap().unwrap();
        assert_eq!(watched.polled(), polled);
    }
}

#[tokio::test]
async fn dropping_next_loses_nothing() {
    let text = event("a");
    let (start, rest) = text.split_at(20);
    let (body, _) = Script::body([
        BodyStep::Chunk(start.to_owned().into()),
        BodyStep::Wait,
        BodyStep::Chunk(rest.to_owned().into()),
    ]);
    let mut stream = watch(body).await;
    {
        let mut next = Box::pin(stream.next());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(words(stream.next().await.unwrap()), "added a");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn wch_012_bytes_are_unchanged_and_an_error_is_the_last_item() {
    let fixture = ReaderFixture::new(Method::GET);
    let (body, watched) = Script::body([
        BodyStep::Chunk("a".into()),
        BodyStep::Chunk("".into()),
        BodyStep::Trailers,
        BodyStep::Chunk("\u{1b}b".into()),
        transport(TransportFault::Reset),
    ]);
    let mut stream = fixture.reader().stream(http::Response::new(body)).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "a");
    assert_eq!(stream.next().await.unwrap().unwrap(), "\u{1b}b");
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert!(stream.is_terminated() && stream.next().await.is_none());
    assert_eq!(watched.dropped(), 1);
}

#[tokio::test]
async fn bytes_can_be_read_with_tokios_traits_and_nothing_is_lost_between() {
    let fixture = ReaderFixture::new(Method::GET);
    let body = Script::chunks([b"one\ntw".as_slice(), b"o\nthree\nfour\nfi", b"ve"]);
    let mut stream = fixture.reader().stream(http::Response::new(body)).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    assert_eq!(line, "one\n");
    let mut three = [0; 3];
    stream.read_exact(&mut three).await.unwrap();
    assert_eq!(&three, b"two");
    assert_eq!(stream.next().await.unwrap().unwrap(), "\nthree\nfour\nfi");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"ve");

    let (body, _) = Script::body([transport(TransportFault::Reset)]);
    let error = ByteStream::new(fixture.request, body).read_u8().await.unwrap_err();
    assert!(error.get_ref().unwrap().downcast_ref::<Error>().is_some(), "{error}");
}

#[tokio::test]
async fn the_bytes_of_a_stream_fail_like_those_of_any_other_response() {
    let (body, _) = Script::body([BodyStep::Fail(Box::new(BodyError::Inflated { limit: 200 }))]);
    let error = ByteStream::new(ReaderFixture::new(Method::GET).request, body).next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "the connection is fine: {error}");
}

async fn lines(body: Body, limit: usize) -> Vec<Result<String, String>> {
    let mut lines = ByteStream::new(ReaderFixture::new(Method::GET).request, body).lines(limit);
    let mut out = Vec::new();
    while let Some(line) = lines.next().await {
        out.push(line.map(|line| String::from_utf8_lossy(&line).into_owned()).map_err(|error| error.to_string()));
    }
    assert!(lines.is_terminated());
    out
}

#[tokio::test]
async fn lines_are_bounded_and_the_last_one_precedes_an_error() {
    let read = |text: &'static str| lines(Body::full(text), 4);
    let ok = |lines: &[&str]| lines.iter().map(|line| Ok((*line).to_owned())).collect::<Vec<_>>();
    assert_eq!(read("a\r\n\nb\rc\n").await, ok(&["a", "", "b\rc"]));
    assert_eq!(read("abcd\nabcde\nabcdabcd").await, ok(&["abcd", "abcd", "e", "abcd", "abcd"]));
    assert_eq!(read("").await, ok(&[]));
    let (body, _) = Script::body([BodyStep::Chunk("a\nb".into()), transport(TransportFault::Reset)]);
    let out = lines(body, 4).await;
    assert_eq!(out[..2], ok(&["a", "b"]));
    assert!(out.len() == 3 && out[2].as_ref().unwrap_err().contains("api.test reset the connection"), "{out:?}");
}

/// Splits a text at these positions.
fn cut(text: &[u8], places: &[prop::sample::Index]) -> Body {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    Script::chunks(places.windows(2).map(|pair| &text[pair[0]..pair[1]]))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #[test]
    fn fuz_10_a_watch_is_the_same_however_its_body_is_cut(
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        length in any::<prop::sample::Index>(),
    ) {
        let text = &WATCH.as_bytes()[..length.index(WATCH.len() + 1)];
        let (whole, whole_stream) = run(all(Body::full(text)));
        let (cut, cut_stream) = run(all(cut(text, &places)));
        prop_assert_eq!(cut, whole);
        prop_assert_eq!(format!("{:?}", cut_stream.end()), format!("{:?}", whole_stream.end()));
    }

    #[test]
    fn lines_are_the_same_however_their_body_is_cut(
        text in "[ab\n\r]{0,30}",
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let expected: Vec<_> = text.lines().map(|line| Ok(line.to_owned())).collect();
        let read = run(lines(cut(text.as_bytes(), &places), 100));
        // The last line of the text has no newline.
        let trim = |mut lines: Vec<Result<String, String>>| {
            if let Some(Ok(last)) = lines.last_mut() {
                last.truncate(last.trim_end_matches('\r').len());
            }
            lines
        };
        prop_assert_eq!(trim(read), trim(expected));
        let short = run(lines(cut(text.as_bytes(), &places), 3));
        prop_assert_eq!(short, run(lines(Body::full(text), 3)));
    }
}
