//! Both decoders with whole input, single bytes, random cuts, mutations and oversized input.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::*;
use crate::error::StreamError;
use crate::json::JsonErrorKind;
use crate::resource::ResourceInfo;

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Pod>())
}

/// Prints the results of decoding a list, to compare two runs.
fn read_list<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = ListDecoder::<Pod>::new(Codec::Json, pods());
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_item() {
                Ok(Some(item)) => out.push(format!("{item:?} {}", String::from_utf8_lossy(&item.raw().unwrap()))),
                Ok(None) => break,
                Err(error) => out.push(format!("{error} fatal={}", error.is_fatal())),
            }
        }
    }
    out.push(decoder.finish().map_or_else(|error| error.to_string(), |meta| format!("{meta:?}")));
    out
}

fn read_watch<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => out.push(format!("{event:?}")),
                Ok(None) => break,
                Err(error) => out.push(format!("{error} fatal={}", error.is_fatal())),
            }
        }
    }
    out.push(decoder.finish().map_or_else(|error| error.to_string(), |()| "clean".into()));
    out
}

const LIST: &str = r#" {"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"t]\"","remainingItemCount":5},
  "extra":[{"a":"}"}, 1.5e3, null],
  "items":[ {"metadata":{"name":"a","namespace":"ns","uid":"u"},"spec":{"x":"\\\"}]"}} ,{"metadata":{"name":"é"}},
  {"metadata":{"name":7}},{"metadata":{"name":"c"}}] }
"#;

const WATCH: &str = r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1"}}}
{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}{"object":{"metadata":{"name":"a","resourceVersion":"3"}},"type":"DELETED"}
	{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"4","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}
{"type":"added","object":{"metadata":{"name":"b"}}} {"type":"ADDED","object":{"kind":"Pod"}}
{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (5)","reason":"Expired","code":410}}
"#;

#[test]
fn a_list_is_split_into_items() {
    let out = read_list([LIST.as_bytes()]);
    assert_eq!(out.len(), 5, "{out:#?}");
    assert!(out[0].starts_with("Obj<Pod>(Pod ns/a @) {\"metadata\""), "{}", out[0]);
    assert!(out[1].starts_with("Obj<Pod>(Pod é @)"), "{}", out[1]);
    assert!(out[2].contains("(items[2].metadata.name): found a number, expected a string fatal=false"), "{}", out[2]);
    assert!(out[3].starts_with("Obj<Pod>(Pod c @)"), "{}", out[3]);
    for part in ["PodList", "api_version: \"v1\"", "\"9\"", r#"continue_token: "t]\"""#, "Some(5)"] {
        assert!(out[4].contains(part), "{} lacks {part}", out[4]);
    }
}

#[test]
fn the_offset_of_a_bad_item_is_that_of_the_stream() {
    let mut decoder = ListDecoder::<Pod>::new(Codec::Json, pods());
    decoder.push(LIST.into());
    let error = loop {
        match decoder.next_item() {
            Ok(item) => assert!(item.is_some()),
            Err(error) => break error,
        }
    };
    let StreamError::Object { offset, source: crate::DecodeError::Json { source, .. }, .. } = error else {
        panic!("{error:?}")
    };
    assert!(LIST[offset as usize..].starts_with(r#"{"metadata":{"name":7}}"#));
    assert!(LIST[source.offset() as usize..].starts_with("7}}"));
}

#[test]
fn metadata_may_precede_or_follow_the_items() {
    for list in [
        r#"{"metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"items":[{"metadata":{"name":"a"}}],"metadata":{"resourceVersion":"3"}}"#,
    ] {
        let out = read_list([list.as_bytes()]);
        assert!(out.len() == 2 && out[1].contains("\"3\""), "{out:?}");
    }
}

#[test]
fn empty_lists_have_two_forms() {
    for list in [r#"{"items":[]}"#, r#"{"items":null,"metadata":{}}"#, r#"{ "items" : [ ] }"#] {
        let out = read_list([list.as_bytes()]);
        assert!(out.len() == 1 && out[0].starts_with("ListMeta"), "{out:?}");
    }
}

#[test]
fn a_body_that_is_not_a_list_is_an_error() {
    for (text, error) in [
        (r#"{"kind":"Status","status":"Failure"}"#, "expected a list, found Status"),
        ("{}", "expected a list, found an object without items"),
        ("", "stream ended at byte 0 in the middle of the list"),
        (r#"{"items":[{"a":1}"#, "stream ended at byte 17 in the middle of the list"),
        (r#"{"items":[{"a""#, "stream ended at byte 14 in the middle of items[0]"),
    ] {
        let out = read_list([text.as_bytes()]);
        assert_eq!(out.last().unwrap(), error, "{text}");
    }
    for text in [
        "[]",
        "1",
        r#"{"items":{}}"#,
        r#"{"items":[]}x"#,
        r#"{"items":[],"items":[]}"#,
        r#"{"items":[}"#,
        r#"{"items":[{}{}]}"#,
        r#"{"items":[{},]}"#,
        r#"{,}"#,
        r#"{"items" []}"#,
        r#"{"items":[],}"#,
        r#"{"metadata":{},"metadata":{}}"#,
        r#"{"items":null,"items":[]}"#,
        r#"{"metadata":{"resourceVersion":7}}"#,
    ] {
        let out = read_list([text.as_bytes()]);
        assert!(out.iter().any(|line| line.contains("fatal=true")), "{text}: {out:?}");
    }
}

#[test]
fn an_item_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(LIST.as_bytes());
    let mut decoder = ListDecoder::<Pod>::new(Codec::Json, pods());
    decoder.push(chunk.clone());
    let item = decoder.next_item().unwrap().unwrap();
    let range = chunk.as_ptr_range();
    assert!(range.contains(&item.raw().unwrap().as_ptr()));
    let chunk = Bytes::from_static(WATCH.as_bytes());
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
    decoder.push(chunk.clone());
    let Some(WatchEvent::Added(pod)) = decoder.next_event().unwrap() else { panic!() };
    assert!(chunk.as_ptr_range().contains(&pod.raw().unwrap().as_ptr()));
}

#[test]
fn wch_002_events_are_concatenated_values_with_any_space_between() {
    let out = read_watch([WATCH.as_bytes()]);
    assert_eq!(
        out[..5],
        [
            "Added(Obj<Pod>(Pod a @1))",
            "Modified(Obj<Pod>(Pod a @2))",
            "Deleted(Obj<Pod>(Pod a @3))",
            "Bookmark { resource_version: \"4\", initial_events_end: true }",
            "Bookmark { resource_version: \"5\", initial_events_end: false }",
        ]
    );
    assert_eq!(out.last().unwrap(), "clean");
}

#[test]
fn wch_005_types_are_upper_case_and_nothing_else() {
    for event in ["added", "", "UNKNOWN"] {
        let text = format!(r#"{{"type":"{event}","object":{{"metadata":{{"name":"a"}}}}}}"#);
        let out = read_watch([text.as_bytes()]);
        assert_eq!(out[0], format!("stream at byte 0: got invalid watch event type: {event:?} fatal=false"));
    }
    assert!(read_watch([br#"{"object":{}}"# as &[u8]])[0].contains("invalid watch event type"));
}

#[test]
fn wch_011_errors_of_the_server_are_events() {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
    decoder.push(WATCH.into());
    let mut last = None;
    loop {
        match decoder.next_event() {
            Ok(None) => break,
            Ok(event) => last = event,
            Err(error) => assert!(!error.is_fatal(), "{error}"),
        }
    }
    let Some(WatchEvent::Error(status)) = last else { panic!("{last:?}") };
    assert!(status.is_expired() && status.code == 410);
    let out = read_watch([br#"{"type":"ERROR","object":{"kind":"Pod"}}"# as &[u8]]);
    assert!(out[0].contains("error event without a status"), "{}", out[0]);
}

#[test]
fn the_path_of_an_event_error_does_not_depend_on_member_order() {
    let at = |text: &str| {
        let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
        decoder.push(Bytes::copy_from_slice(text.as_bytes()));
        let StreamError::Object { offset, source: crate::DecodeError::Json { source, .. }, .. } =
            decoder.next_event().unwrap_err()
        else {
            panic!("{text}")
        };
        assert!(text[offset as usize..].starts_with('{'), "{text}");
        assert!(text[source.offset() as usize..].starts_with("7}"), "{text}: {source}");
        source.path().to_owned()
    };
    assert_eq!(at(r#"  {"type":"ADDED","object":{"metadata":{"name":7}}}"#), "object.metadata.name");
    assert_eq!(at(r#"  {"object":{"metadata":{"name":7}},"type":"ADDED"}"#), "object.metadata.name");
}

#[test]
fn wch_013_a_cut_stream_is_not_a_clean_end() {
    let whole = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"4"}}}"#;
    assert_eq!(read_watch([whole.as_bytes()]).last().unwrap(), "clean");
    for end in 1..whole.len() {
        let out = read_watch([&whole.as_bytes()[..end]]);
        assert_eq!(out, [format!("stream ended at byte {end} in the middle of an event")]);
    }
    assert_eq!(read_watch([b" \n\t" as &[u8]]), ["clean"]);
}

#[test]
fn wls_002_only_the_text_true_ends_the_initial_events() {
    for (value, expected) in
        [("\"true\"", true), ("\"True\"", false), ("\"false\"", false), ("\"\"", false), ("1", false)]
    {
        let text = format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"annotations":{{"k8s.io/initial-events-end":{value}}}}}}}}}"#
        );
        assert!(read_watch([text.as_bytes()])[0].contains(&format!("initial_events_end: {expected}")), "{value}");
    }
}

#[test]
fn sec_41_an_event_over_the_limit_is_an_error_before_it_is_buffered() {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods()).max_event_bytes(1000);
    decoder.push(br#"{"type":"ADDED","object":{"metadata":{"name":"a"#.as_slice().into());
    let chunk = Bytes::from(vec![b'a'; 400]);
    let mut pushed = 0;
    let error = loop {
        decoder.push(chunk.clone());
        pushed += 1;
        match decoder.next_event() {
            Ok(event) => assert!(event.is_none() && pushed < 4),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StreamError::TooLarge { offset: 0, limit: 1000, .. }), "{error}");
    assert_eq!(pushed, 3);
    decoder.push(chunk);
    assert!(decoder.next_event().unwrap().is_none(), "a fatal error ends the stream");
    assert!(decoder.finish().is_err());
}

#[test]
fn an_item_over_the_limit_is_an_error_even_in_one_chunk() {
    let list = format!(r#"{{"items":[{{"metadata":{{"name":"{}"}}}}]}}"#, "a".repeat(100));
    let mut decoder = ListDecoder::<Pod>::new(Codec::Json, pods()).max_item_bytes(64);
    decoder.push(list.into());
    let error = decoder.next_item().unwrap_err();
    assert!(matches!(&error, StreamError::TooLarge { offset: 10, path, limit: 64 } if path == "items[0]"), "{error}");
}

#[test]
fn sec_43_depth_is_limited_while_the_value_arrives() {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
    let mut text = String::from(r#"{"type":"ADDED","object":"#);
    let _ = write!(text, "{}", "[".repeat(200));
    decoder.push(text.into());
    let error = decoder.next_event().unwrap_err();
    let StreamError::Json(source) = &error else { panic!("{error:?}") };
    assert_eq!(source.kind(), &JsonErrorKind::TooDeep { limit: 128 });
    assert!(source.path().starts_with("event.object[0][0]"), "{}", source.path());
}

#[test]
fn sec_5_debug_of_a_decoder_shows_no_bytes() {
    let mut list = ListDecoder::<Pod>::new(Codec::Json, pods());
    list.push(br#"{"items":[{"secret":"hunter2"#.as_slice().into());
    assert!(list.next_item().unwrap().is_none());
    let mut watch = WatchDecoder::<Pod>::new(Codec::Json, pods());
    watch.push(br#"{"type":"hunter2"#.as_slice().into());
    for text in [format!("{list:?}"), format!("{watch:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("secret"), "{text}");
    }
}

#[test]
fn an_item_that_spans_chunks_has_its_exact_size() {
    let mut decoder = ListDecoder::<Pod>::new(Codec::Json, pods());
    let item = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "a".repeat(1000));
    let list = format!(r#"{{"items":[{item}]}}"#);
    let mut read = None;
    for chunk in list.as_bytes().chunks(100) {
        decoder.push(Bytes::copy_from_slice(chunk));
        read = read.or(decoder.next_item().unwrap());
    }
    let raw = read.unwrap().raw().unwrap();
    assert_eq!(raw, item);
    assert_eq!(raw.try_into_mut().map_or(item.len(), |bytes| bytes.capacity()), item.len());
}

#[test]
fn one_byte_at_a_time_gives_the_same_as_all_at_once() {
    assert_eq!(read_list(LIST.as_bytes().chunks(1)), read_list([LIST.as_bytes()]));
    assert_eq!(read_watch(WATCH.as_bytes().chunks(1)), read_watch([WATCH.as_bytes()]));
}

#[test]
fn chunks_may_be_pushed_ahead_of_the_reader() {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
    let half = WATCH.len() / 2;
    let (mut events, mut cuts) = (0, WATCH.as_bytes().chunks(7));
    for chunk in cuts.by_ref().take(half / 7) {
        decoder.push(Bytes::copy_from_slice(chunk));
        decoder.push(Bytes::new());
    }
    events += usize::from(decoder.next_event().unwrap().is_some());
    for chunk in cuts {
        decoder.push(Bytes::copy_from_slice(chunk));
    }
    loop {
        match decoder.next_event() {
            Ok(None) => break,
            Ok(Some(_)) => events += 1,
            Err(error) => assert!(!error.is_fatal(), "{error}"),
        }
    }
    assert_eq!(events, 6);
    decoder.finish().unwrap();
}

/// Splits a text at the given positions.
fn cut<'a>(text: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    places.sort_unstable();
    let mut chunks = Vec::new();
    let mut start = 0;
    for place in places {
        chunks.push(&text[start..place]);
        start = place;
    }
    chunks.push(&text[start..]);
    chunks
}

fn mutate(text: &str, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (place, how, byte) in changes {
        if bytes.is_empty() {
            break;
        }
        let at = place.index(bytes.len());
        match how % 3 {
            0 => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    let byte = prop_oneof![prop::sample::select(br#"{}[]",:\ 1tn"#.to_vec()), any::<u8>()];
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), byte), 0..4)
}

fn places() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..12)
}

proptest! {
    #[test]
    fn fuz_10_watches_read_the_same_however_they_are_cut(changes in changes(), places in places()) {
        let bytes = mutate(WATCH, &changes);
        prop_assert_eq!(read_watch(cut(&bytes, &places)), read_watch([bytes.as_slice()]));
    }

    #[test]
    fn lists_read_the_same_however_they_are_cut(changes in changes(), places in places()) {
        let bytes = mutate(LIST, &changes);
        prop_assert_eq!(read_list(cut(&bytes, &places)), read_list([bytes.as_slice()]));
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), places in places()) {
        let _ = (read_list(cut(&bytes, &places)), read_watch(cut(&bytes, &places)));
    }

    #[test]
    fn every_item_of_a_list_is_decoded(names in prop::collection::vec("[a-z\"\\\\{}\\[\\]é]{1,8}", 0..8), places in places()) {
        let items: Vec<serde_json::Value> = names.iter().map(|name| serde_json::json!({"metadata": {"name": name}})).collect();
        let list = serde_json::to_vec(&serde_json::json!({"kind": "PodList", "items": items})).unwrap();
        let mut decoder = ListDecoder::<Pod>::new(Codec::Json, pods());
        let mut read = Vec::new();
        for chunk in cut(&list, &places) {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = decoder.next_item().unwrap() {
                read.push(item.key().name().to_owned());
            }
        }
        decoder.finish().unwrap();
        prop_assert_eq!(read, names);
    }
}

#[test]
fn the_error_of_an_item_names_its_index_and_key() {
    let list = r#"{"items":[{"metadata":{"name":"a"}},{"metadata":{"namespace":"ns","name":"b","labels":{"x":1}}},{"metadata":{}}]}"#;
    let out = read_list([list.as_bytes()]);
    assert!(
        out[1].contains(", ns/b: cannot decode Pod") && out[1].contains("(items[1].metadata.labels.x)"),
        "{}",
        out[1]
    );
    assert!(out[2].contains(", items[2]: object has no meta: Pod has no metadata.name"), "{}", out[2]);
    let out = read_watch([br#"{"type":"ADDED","object":{"metadata":{"name":"b","finalizers":1}}}"# as &[u8]]);
    assert!(out[0].starts_with("stream at byte 0, b: cannot decode Pod"), "{}", out[0]);
}

/// Reads a list of these pods or Foos and returns its error.
fn kind_error(info: ResourceInfo, list: &str) -> Option<String> {
    let mut decoder = ListDecoder::<crate::Untyped>::new(Codec::Json, info.into());
    decoder.push(list.to_owned().into());
    loop {
        match decoder.next_item() {
            Ok(Some(_)) => {}
            Ok(None) => return decoder.finish().err().map(|error| error.to_string()),
            Err(error) => {
                assert!(error.is_fatal() && matches!(decoder.next_item(), Ok(None)), "{error}");
                assert!(matches!(decoder.finish(), Err(StreamError::Closed)));
                return Some(error.to_string());
            }
        }
    }
}

#[test]
fn ref_026_a_list_of_another_kind_is_an_error() {
    let pods = || ResourceInfo::new("", "v1", "Pod", "pods", true);
    let secrets = "expected v1 PodList, found v1 SecretList";
    for list in [
        r#"{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[]}"#,
        r#"{"items":[{"metadata":{"name":"a"}}],"kind":"SecretList","apiVersion":"v1"}"#,
    ] {
        assert_eq!(kind_error(pods(), list).as_deref(), Some(secrets), "{list}");
    }
    let other_version = r#"{"kind":"PodList","apiVersion":"v2","items":[]}"#;
    assert_eq!(kind_error(pods(), other_version).as_deref(), Some("expected v1 PodList, found v2 PodList"));
    let long = format!(r#"{{"kind":"{}","apiVersion":"v1\n","items":[]}}"#, "x".repeat(10_000));
    let error = kind_error(pods(), &long).unwrap();
    assert!(error.len() < 400 && !error.contains('\n'), "{error}");
    for list in [
        r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#,
        r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}"#,
    ] {
        assert_eq!(kind_error(pods(), list), None, "{list}");
    }
}

#[test]
fn ref_026_the_list_kind_of_a_custom_resource_may_be_any() {
    let foos = || ResourceInfo::new("example.com", "v1", "Foo", "foos", true);
    assert_eq!(kind_error(foos(), r#"{"kind":"FooCollection","apiVersion":"example.com/v1","items":[]}"#), None);
    let error = kind_error(foos(), r#"{"kind":"SecretList","apiVersion":"v1","items":[]}"#);
    assert_eq!(error.as_deref(), Some("expected example.com/v1 FooList, found v1 SecretList"));
}

#[test]
fn ref_043_a_bookmark_of_another_kind_is_an_error() {
    let event = |object: &str| {
        let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, pods());
        decoder
            .push(format!(r#"{{"type":"BOOKMARK","object":{{{object}"metadata":{{"resourceVersion":"4"}}}}}}"#).into());
        decoder.next_event()
    };
    let error = event(r#""kind":"Secret","apiVersion":"v1","#).unwrap_err();
    assert!(!error.is_fatal() && error.to_string().ends_with("expected v1 Pod, found v1 Secret"), "{error}");
    for object in [
        "",
        r#""kind":"Pod","#,
        r#""kind":"Pod","apiVersion":"v1","#,
        r#""kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
    ] {
        assert!(matches!(event(object), Ok(Some(WatchEvent::Bookmark { .. }))), "{object}");
    }
}
