use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::scope;

use evenkeel_core::ResourceInfo;
use evenkeel_core::Untyped;
use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::shard::ShardRange;
use std::sync::Arc;

use super::super::wire::Wire;
use super::super::{Options, Server};
use super::*;
use crate::data::Data;

const PODS: usize = 100;

fn server() -> Server {
    Server::new(&Options { data: Data::Pods, objects: PODS, wires: vec![Wire::Json, Wire::Protobuf] }).unwrap()
}

/// Sends one request and returns the body of the response, chunks joined.
fn ask(server: &Server, method: &str, target: &str) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut response = Vec::new();
    scope(|scope| {
        let (theirs, _) = listener.accept().unwrap();
        scope.spawn(|| server.attend(theirs).unwrap());
        write!(stream, "{method} {target} HTTP/1.1\r\naccept: application/json\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut response).unwrap();
    });
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let is_chunked = response[..end].windows(7).any(|bytes| bytes == b"chunked");
    let mut rest = &response[end..];
    if !is_chunked {
        return rest.to_vec();
    }
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}

fn number(server: &Server, target: &str) -> u64 {
    serde_json::from_slice(&ask(server, "GET", target)).unwrap()
}

fn selector(part: u32, count: u32) -> ShardSelector {
    ShardSelector::new(ShardField::Uid, ShardRange::FULL.part(part, count).unwrap())
}

/// Returns the query of a selector.
fn query(selector: &ShardSelector) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("shardSelector", &selector.to_string()).finish()
}

/// Returns the uids of a list, and the selector that it tells.
fn list(server: &Server, query: &str) -> (Vec<String>, Option<String>, String) {
    let info = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
    let mut decoder = ListDecoder::<Untyped>::new(Codec::Json, info);
    decoder.push(ask(server, "GET", &format!("/api/v1/pods?{query}")).into());
    let mut uids = Vec::new();
    while let Some(pod) = decoder.next_item().unwrap() {
        uids.push(pod.uid().to_owned());
    }
    let meta = decoder.finish().unwrap();
    (uids, meta.shard_selector, meta.continue_token)
}

#[test]
fn shs_007_a_server_that_filters_sends_each_object_to_one_part() {
    let server = server();
    let (all, told, _) = list(&server, &query(&selector(0, 3)));
    assert_eq!((all.len(), told), (PODS, None), "at first the server ignores selectors");
    ask(&server, "POST", "/shards?filter=true");
    let before = number(&server, "/sent");
    let mut found = Vec::new();
    for part in 0..3 {
        let selector = selector(part, 3);
        let (uids, told, _) = list(&server, &query(&selector));
        assert!(uids.iter().all(|uid| selector.ranges().contains(place(uid))));
        assert_eq!(told.unwrap().parse(), Ok(selector.clone()));
        let selected: serde_json::Value =
            serde_json::from_slice(&ask(&server, "GET", &format!("/selected?{}", query(&selector)))).unwrap();
        assert_eq!(selected, serde_json::json!({"objects": uids.len(), "updates": 0}));
        found.extend(uids);
    }
    let (mut sorted, mut expected) = (found, all);
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected);
    // Three heads instead of one.
    let (parts, whole) = (number(&server, "/sent") - before, before);
    assert!(whole < parts && parts < whole + 2_000, "{whole} bytes as a whole, {parts} in parts");
}

#[test]
fn shs_007_watches_send_the_initial_events_of_the_selection() {
    let server = server();
    ask(&server, "POST", "/shards?filter=true");
    let mut found = 0;
    for part in 0..2 {
        let query = query(&selector(part, 2));
        let target = format!("/api/v1/pods?watch=1&sendInitialEvents=1&timeoutSeconds=0&{query}");
        let events = String::from_utf8(ask(&server, "GET", &target)).unwrap();
        let (added, marks) =
            (events.matches(r#""type":"ADDED""#).count(), events.matches("initial-events-end").count());
        assert!(0 < added && added < PODS && marks == 1, "{added} events, {marks} bookmarks");
        found += added;
    }
    assert_eq!(found, PODS);
}

#[test]
fn pages_of_a_selection_count_what_is_selected() {
    let server = server();
    ask(&server, "POST", "/shards?filter=true");
    let query = query(&selector(1, 2));
    let (all, _, _) = list(&server, &query);
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let (uids, _, token) = list(&server, &format!("{query}&limit=7&continue={next}"));
        assert!(uids.len() <= 7);
        assert!(uids.len() == 7 || token.is_empty());
        paged.extend(uids);
        next = token;
        if next.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all);
}

#[test]
fn a_malformed_selector_is_refused_as_kube_apiserver_does() {
    let server = server();
    ask(&server, "POST", "/shards?filter=true");
    let answer = String::from_utf8(ask(&server, "GET", "/api/v1/pods?shardSelector=x")).unwrap();
    assert!(answer.contains("invalid shard selector: ") && answer.contains("500"), "{answer}");
}

#[test]
fn places_are_those_of_the_uid_and_the_namespace() {
    let places =
        Places::of(r#""spec":{"uid":"no"},"metadata":{"name":"a","namespace":"default","uid":"abc"}"#).unwrap();
    assert_eq!((places.by(ShardField::Namespace), places.by(ShardField::Uid)), (place("default"), place("abc")));
    let cluster = Places::of(r#""metadata":{"name":"a","uid":"abc"}"#).unwrap();
    assert_eq!(cluster.by(ShardField::Namespace), place(""));
}
