//! Lists, watches and single objects in protobuf: whole, byte by byte, cut at random, mutated and oversized.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::codec::{ListDecoder, WatchDecoder};
use crate::obj::Obj;
use crate::resource::ResourceInfo;
use crate::stream::WatchEvent;

const POD: ApiKind<'_> = ApiKind { api_version: "v1", kind: "Pod" };

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Pod>())
}

fn message(kind: &str) -> &'static Message {
    Message::of_kind("v1", kind).unwrap()
}

fn pod(value: &Value) -> Vec<u8> {
    to_vec(message("Pod"), value).unwrap()
}

fn named(name: &str) -> Vec<u8> {
    pod(&json!({"metadata": {"name": name}}))
}

/// One field of a message that holds bytes.
fn field(number: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::protobuf::put_varint(&mut out, u64::from(number) << 3 | 2);
    crate::protobuf::put_varint(&mut out, contents.len() as u64);
    out.extend_from_slice(contents);
    out
}

/// An object whose fields after the name are broken.
fn broken(name: &str) -> Vec<u8> {
    let metadata = [field(1, name.as_bytes()), field(3, b"ns"), vec![0x38 | 2, 1, 0]].concat();
    field(1, &metadata)
}

fn list_meta() -> Vec<u8> {
    field(1, &[field(2, b"9"), field(3, b"t"), vec![0x20, 5]].concat())
}

fn item(name: &str) -> Vec<u8> {
    field(2, &named(name))
}

fn list_of(parts: &[Vec<u8>]) -> Vec<u8> {
    wrap_envelope("v1", "PodList", &parts.concat())
}

fn list() -> Vec<u8> {
    let first = pod(&json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "n"}}));
    list_of(&[list_meta(), field(2, &first), item("é"), field(2, &broken("b")), field(2, &field(1, &[])), item("c")])
}

fn frame(event: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, event.as_bytes()), field(2, &field(1, object))].concat();
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

fn object(version: &str) -> Vec<u8> {
    wrap_envelope("v1", "Pod", &pod(&json!({"metadata": {"name": "a", "resourceVersion": version}})))
}

fn bookmark(version: &str, annotations: &Value) -> Vec<u8> {
    let pod = pod(&json!({"metadata": {"resourceVersion": version, "annotations": annotations}}));
    frame("BOOKMARK", &wrap_envelope("v1", "Pod", &pod))
}

fn status() -> Vec<u8> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version: 1 (5)", "details": {"retryAfterSeconds": 3},
    });
    wrap_envelope("v1", "Status", &to_vec(message("Status"), &status).unwrap())
}

fn watch() -> Vec<u8> {
    [
        frame("ADDED", &object("1")),
        frame("MODIFIED", &object("2")),
        frame("DELETED", &object("3")),
        bookmark("4", &json!({"k8s.io/initial-events-end": "true"})),
        bookmark("5", &json!({})),
        frame("added", &object("6")),
        frame("ADDED", &wrap_envelope("v1", "Pod", &broken("b"))),
        frame("ADDED", b"nonsense"),
        frame("ADDED", &wrap_envelope("example.com/v1", "Foo", &[])),
        frame("ERROR", &status()),
    ]
    .concat()
}

/// Prints the results of decoding a list, to compare two runs.
fn read_list<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = ListDecoder::<Pod>::new(Codec::Protobuf, pods());
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_item() {
                Ok(Some(item)) => out.push(format!("{item:?} {:x}", item.raw().unwrap())),
                Ok(None) => break,
                Err(error) => out.push(format!("{error} fatal={}", error.is_fatal())),
            }
        }
    }
    out.push(decoder.finish().map_or_else(|error| error.to_string(), |meta| format!("{meta:?}")));
    out
}

fn read_watch<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Protobuf, pods());
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

#[test]
fn ctn_020_the_envelope_states_the_kind() {
    let obj = Obj::<Pod>::decode(Codec::Protobuf, &pods(), object("7").into()).unwrap();
    assert_eq!((obj.header().kind(), obj.header().api_version()), (Some("Pod"), Some("v1")));
    assert_eq!(
        (obj.key().as_str(), obj.resource_version(), obj.media_type()),
        ("a", "7", Codec::Protobuf.media_type())
    );
    for (bytes, problem) in [
        (Vec::new(), "0-length"),
        (b"{}".to_vec(), "6b 38 73 00"),
        (b"k8s\0".to_vec(), "nothing follows the prefix"),
        (wrap_envelope("v1", "", &named("a")), "expected the kind"),
        (wrap_envelope("", "Pod", &named("a")), "expected the version"),
        (wrap_envelope("example.com/v1", "Foo", &named("a")), "no protobuf schema for example.com/v1 Foo; use JSON"),
        (wrap_envelope("v1", "Pod", &[]), "Pod has no metadata"),
        (wrap_envelope("v1", "Pod", &field(1, &[])), "Pod has no metadata.name"),
        (list(), "PodList has no metadata.name"),
        (status(), "Status has no metadata.name"),
    ] {
        let error = Obj::<Pod>::decode(Codec::Protobuf, &pods(), bytes.into()).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn ctn_020_empty_fields_of_the_envelope_may_be_absent() {
    let whole = object("7");
    let bare = whole.strip_suffix(&[0x1a, 0, 0x22, 0]).unwrap().to_vec();
    let obj = Obj::<Pod>::decode(Codec::Protobuf, &pods(), bare.into()).unwrap();
    assert_eq!(obj.resource_version(), "7");
}

#[test]
fn an_object_is_not_copied_out_of_its_envelope() {
    let bytes = Bytes::from(object("7"));
    let obj = Obj::<Pod>::decode(Codec::Protobuf, &pods(), bytes.clone()).unwrap();
    assert!(bytes.as_ptr_range().contains(&obj.raw().unwrap().as_ptr()));
}

#[test]
fn ctn_022_a_kind_without_protobuf_is_an_error() {
    let value = json!({"kind": "Foo", "metadata": {"name": "a"}});
    let error = Codec::Protobuf.encode(&value, ApiKind { api_version: "example.com/v1", kind: "Foo" }).unwrap_err();
    assert!(
        error.needs_json() && error.to_string().contains("no protobuf schema for example.com/v1 Foo; use JSON"),
        "{error}"
    );
    assert!(error.to_string().contains(Codec::Protobuf.media_type()), "{error}");
    let error = Codec::Protobuf.encode(&json!({"metadata": {"name": "a"}, "shoes": 2}), POD).unwrap_err();
    assert!(error.needs_json() && error.to_string().contains("shoes"), "{error}");
    let error = Codec::Protobuf.encode(&json!({"metadata": {"name": 7}}), POD).unwrap_err();
    assert!(!error.needs_json() && error.to_string().contains("metadata.name"), "{error}");
}

#[test]
fn pb_080_encoded_messages_round_trip() {
    let mut value = Pod::default();
    value.metadata.name = Some("a".into());
    let bytes = Codec::Protobuf.encode(&value, POD).unwrap();
    assert!(bytes.starts_with(b"k8s\0") && bytes.ends_with(&[0x1a, 0, 0x22, 0]));
    let obj = Obj::<Pod>::decode(Codec::Protobuf, &pods(), bytes.into()).unwrap();
    assert_eq!(obj.typed().unwrap().metadata, value.metadata);
}

#[test]
fn res_005_a_status_states_its_kind() {
    let read = Codec::Protobuf.decode_status(&status()).unwrap();
    assert!(read.is_expired() && read.code == 410 && read.details.unwrap().retry_after_seconds == 3);
    for other in [object("1"), wrap_envelope("v2", "Status", &[]), b"k8s\0".to_vec(), Vec::new(), b"{}".to_vec()] {
        assert!(Codec::Protobuf.decode_status(&other).is_none());
    }
}

#[test]
fn pb_039_a_list_is_decoded_item_by_item() {
    let out = read_list([list().as_slice()]);
    assert_eq!(out.len(), 6, "{out:#?}");
    assert!(out[0].starts_with("Obj<Pod>(Pod ns/a @) "), "{}", out[0]);
    assert!(out[1].starts_with("Obj<Pod>(Pod é @)"), "{}", out[1]);
    assert!(out[2].contains("items[2], ns/b: cannot decode Pod") && out[2].ends_with("fatal=false"), "{}", out[2]);
    assert!(out[2].contains("metadata.generation"), "{}", out[2]);
    assert!(out[3].contains("items[3]: object has no meta: Pod has no metadata.name"), "{}", out[3]);
    assert!(out[4].starts_with("Obj<Pod>(Pod c @)"), "{}", out[4]);
    for part in ["PodList", "api_version: \"v1\"", "\"9\"", r#"continue_token: "t""#, "Some(5)"] {
        assert!(out[5].contains(part), "{} lacks {part}", out[5]);
    }
}

#[test]
fn pb_021_items_do_not_state_their_kind() {
    let mut decoder = ListDecoder::<Pod>::new(Codec::Protobuf, pods());
    decoder.push(list().into());
    let item = decoder.next_item().unwrap().unwrap();
    assert_eq!((item.header().kind(), item.header().api_version()), (None, None));
    assert_eq!((item.kind(), item.api_version()), ("Pod", "v1"), "it is known all the same");
    assert_eq!(item.path("kind").unwrap(), None);
    assert_eq!(item.typed().unwrap().spec.as_ref().unwrap().node_name.as_deref(), Some("n"));
}

#[test]
fn pb_014_metadata_decodes_the_same_way() {
    let info = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
    let one = field(1, &field(1, b"a"));
    let bytes = wrap_envelope("meta.k8s.io/v1", "PartialObjectMetadataList", &[list_meta(), field(2, &one)].concat());
    let mut decoder = ListDecoder::<kube_core::PartialObjectMeta<Pod>>::new(Codec::Protobuf, Arc::clone(&info));
    decoder.push(bytes.into());
    let item = decoder.next_item().unwrap().unwrap();
    assert_eq!(item.key().as_str(), "a");
    assert_eq!(item.typed().unwrap().metadata.name.as_deref(), Some("a"));
    assert!(decoder.next_item().unwrap().is_none());
    assert_eq!(decoder.finish().unwrap().kind, "PartialObjectMetadataList");
    let obj: Obj<Pod> =
        Obj::decode(Codec::Protobuf, &info, wrap_envelope("meta.k8s.io/v1", "PartialObjectMetadata", &one).into())
            .unwrap();
    assert_eq!((obj.key().as_str(), obj.kind()), ("a", "PartialObjectMetadata"));
}

#[test]
fn metadata_may_precede_or_follow_the_items() {
    for parts in [[list_meta(), item("a")], [item("a"), list_meta()]] {
        let out = read_list([list_of(&parts).as_slice()]);
        assert!(out.len() == 2 && out[1].contains("\"9\""), "{out:?}");
    }
    let out = read_list([list_of(&[]).as_slice()]);
    assert!(out.len() == 1 && out[0].starts_with("ListMeta"), "{out:?}");
}

#[test]
fn pb_036_unknown_fields_are_skipped_anywhere() {
    let mut group = vec![7 << 3 | 3];
    group.extend([field(1, b"x"), vec![2 << 3 | 3, 2 << 3 | 4], vec![7 << 3 | 4]].concat());
    let unknown = [field(9, b"12345"), vec![0x40, 0x96, 0x01], [&[0x39][..], &[0; 8]].concat(), group.clone()].concat();
    let inside = [unknown.clone(), item("a"), unknown.clone(), list_meta(), unknown.clone()].concat();
    let mut bytes = wrap_envelope("v1", "PodList", &inside);
    bytes.extend(unknown);
    for chunks in [1, 3, bytes.len()] {
        let out = read_list(bytes.chunks(chunks));
        assert!(out.len() == 2 && out[0].starts_with("Obj<Pod>(Pod a") && out[1].contains("\"9\""), "{out:?}");
    }
}

#[test]
fn a_body_that_is_not_a_list_is_an_error() {
    let read = |bytes: &[u8]| read_list([bytes]).concat();
    assert!(read(&status()).starts_with("expected a list, found Status fatal=true"));
    assert!(read(&object("1")).starts_with("expected a list, found Pod fatal=true"));
    assert!(read(&wrap_envelope("v1", "FooList", &[])).contains("no protobuf schema for v1 FooList"));
    assert_eq!(read(b""), "stream ended at byte 0 in the middle of the list");
    for bad in [
        b"{\"items\":[]}".to_vec(),
        wrap_envelope("v1", "", &[]),
        // Lists whose length is too short, and too long, for their contents.
        wrap_envelope("v1", "PodList", &[0x12, 5, 0]),
        wrap_envelope("v1", "PodList", &[0x12, 0x80]),
        // Metadata and items that are not messages.
        wrap_envelope("v1", "PodList", &[0x08, 1]),
        wrap_envelope("v1", "PodList", &[0x10, 1]),
        // Field 0, an endless varint, a group without a start, an unknown wire type.
        wrap_envelope("v1", "PodList", &[0x02, 0]),
        wrap_envelope("v1", "PodList", &[0xff; 11]),
        wrap_envelope("v1", "PodList", &[0x0c]),
        wrap_envelope("v1", "PodList", &[0x0f]),
        wrap_envelope("v1", "PodList", &[0x43; 200]),
        [list_of(&[]), field(2, &item("a"))].concat(),
        [b"k8s\0".to_vec(), field(2, &item("a"))].concat(),
    ] {
        let out = read_list([bad.as_slice()]);
        assert!(out.iter().any(|line| line.contains("fatal=true")), "{bad:x?}: {out:?}");
        assert!(out.iter().all(|line| !line.starts_with("ListMeta")), "{bad:x?}: {out:?}");
    }
}

#[test]
fn wch_013_a_cut_list_is_not_a_clean_end() {
    let whole = list_of(&[list_meta(), item("a"), item("b")]);
    // Two empty fields follow the list; it is complete without them.
    let end = whole.len() - 4;
    for length in 0..whole.len() {
        let out = read_list([&whole[..length]]);
        let is_whole = [end, end + 2].contains(&length);
        assert_eq!(out.last().unwrap().starts_with("ListMeta"), is_whole, "{length}: {out:?}");
        if !is_whole {
            assert!(out.last().unwrap().starts_with(&format!("stream ended at byte {length}")), "{out:?}");
        }
    }
    let out = read_list([&whole[..end - 1]]);
    assert!(out.last().unwrap().ends_with("in the middle of items[1]"), "{out:?}");
}

#[test]
fn pb_070_a_watch_is_decoded_event_by_event() {
    let out = read_watch([watch().as_slice()]);
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
    assert!(out[5].ends_with("got invalid watch event type: \"added\" fatal=false"), "{}", out[5]);
    assert!(out[6].contains(", ns/b: cannot decode Pod") && out[6].ends_with("fatal=false"), "{}", out[6]);
    assert!(out[7].contains("6b 38 73 00") && out[7].ends_with("fatal=false"), "{}", out[7]);
    assert!(
        out[8].contains("no protobuf schema for example.com/v1 Foo") && out[8].ends_with("fatal=false"),
        "{}",
        out[8]
    );
    assert!(out[9].starts_with("Error(") && out[9].contains("410"), "{}", out[9]);
    assert_eq!(out[10], "clean");
}

#[test]
fn wch_003_frames_have_a_length_of_four_bytes_and_any_number_of_chunks() {
    let bytes = frame("ADDED", &object("1"));
    assert_eq!(bytes[..4], u32::try_from(bytes.len() - 4).unwrap().to_be_bytes());
    for size in 1..bytes.len() {
        assert_eq!(read_watch(bytes.chunks(size)), ["Added(Obj<Pod>(Pod a @1))", "clean"], "{size}");
    }
    let empty = [0; 4];
    assert!(read_watch([&empty[..]])[0].contains("got invalid watch event type: \"\" fatal=false"));
}

#[test]
fn wch_005_types_are_upper_case_and_nothing_else() {
    for event in ["added", "", "UNKNOWN"] {
        let out = read_watch([frame(event, &object("1")).as_slice()]);
        assert_eq!(out[0], format!("stream at byte 0: got invalid watch event type: {event:?} fatal=false"));
    }
}

#[test]
fn wch_011_errors_of_the_server_are_events() {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Protobuf, pods());
    decoder.push(frame("ERROR", &status()).into());
    let Some(WatchEvent::Error(status)) = decoder.next_event().unwrap() else { panic!() };
    assert!(status.is_expired() && status.code == 410);
    let out = read_watch([frame("ERROR", &object("1")).as_slice()]);
    assert!(out[0].contains("error event without a status: it is v1 Pod fatal=false"), "{}", out[0]);
}

#[test]
fn wch_013_a_cut_watch_is_not_a_clean_end() {
    let whole = bookmark("4", &json!({}));
    assert_eq!(read_watch([whole.as_slice()]).last().unwrap(), "clean");
    for end in 1..whole.len() {
        let out = read_watch([&whole[..end]]);
        assert_eq!(out, [format!("stream ended at byte {end} in the middle of an event")]);
    }
    assert_eq!(read_watch([]), ["clean"]);
}

#[test]
fn wls_002_only_the_text_true_ends_the_initial_events() {
    for (value, expected) in [("true", true), ("True", false), ("false", false), ("", false)] {
        let bytes = bookmark("1", &json!({"k8s.io/initial-events-end": value}));
        assert!(read_watch([bytes.as_slice()])[0].contains(&format!("initial_events_end: {expected}")), "{value}");
    }
}

#[test]
fn pb_027_the_object_of_an_event_may_be_json() {
    let pod = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"8"}}"#;
    let mark = br#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let bad = br#"{"metadata":{"name":"a","labels":1}}"#;
    let error = br#"{"kind":"Status","apiVersion":"v1","code":410}"#;
    let bytes = [frame("ADDED", pod), frame("BOOKMARK", mark), frame("ADDED", bad), frame("ERROR", error)].concat();
    let out = read_watch([bytes.as_slice()]);
    assert_eq!(out[0], "Added(Obj<Pod>(Pod a @8))");
    assert_eq!(out[1], "Bookmark { resource_version: \"9\", initial_events_end: true }");
    assert!(out[2].contains(", a: cannot decode Pod") && out[2].ends_with("fatal=false"), "{}", out[2]);
    assert!(out[3].starts_with("Error(") && out[3].contains("410"), "{}", out[3]);
}

#[test]
fn a_message_in_one_chunk_is_not_copied() {
    let chunk = Bytes::from(list());
    let mut decoder = ListDecoder::<Pod>::new(Codec::Protobuf, pods());
    decoder.push(chunk.clone());
    let item = decoder.next_item().unwrap().unwrap();
    assert!(chunk.as_ptr_range().contains(&item.raw().unwrap().as_ptr()));
    let chunk = Bytes::from(watch());
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Protobuf, pods());
    decoder.push(chunk.clone());
    let Some(WatchEvent::Added(pod)) = decoder.next_event().unwrap() else { panic!() };
    assert!(chunk.as_ptr_range().contains(&pod.raw().unwrap().as_ptr()));
}

#[test]
fn an_item_that_spans_chunks_has_its_exact_size() {
    let object = named(&"a".repeat(1000));
    let bytes = list_of(&[field(2, &object)]);
    let mut decoder = ListDecoder::<Pod>::new(Codec::Protobuf, pods());
    let mut read = None;
    for chunk in bytes.chunks(100) {
        decoder.push(Bytes::copy_from_slice(chunk));
        read = read.or(decoder.next_item().unwrap());
    }
    let raw = read.unwrap().raw().unwrap();
    assert_eq!(raw, object);
    assert_eq!(raw.try_into_mut().map_or(object.len(), |bytes| bytes.capacity()), object.len());
}

#[test]
fn sec_41_an_oversized_frame_is_rejected_before_it_is_buffered() {
    let mut decoder = WatchDecoder::<Pod>::new(Codec::Protobuf, pods()).max_event_bytes(1000);
    decoder.push(Bytes::from_static(&[0, 0, 3, 0xe9]));
    let error = decoder.next_event().unwrap_err();
    assert!(matches!(error, StreamError::TooLarge { offset: 0, limit: 1000, .. }), "{error}");
    decoder.push(frame("ADDED", &object("1")).into());
    assert!(decoder.next_event().unwrap().is_none(), "a fatal error ends the stream");
    assert!(matches!(decoder.finish(), Err(StreamError::Closed)));

    let bytes = list_of(&[item("a"), field(2, &[0; 200])]);
    let mut decoder = ListDecoder::<Pod>::new(Codec::Protobuf, pods()).max_item_bytes(64);
    decoder.push(Bytes::copy_from_slice(&bytes[..bytes.len() - 200]));
    assert!(decoder.next_item().unwrap().is_some());
    let error = decoder.next_item().unwrap_err();
    assert!(matches!(&error, StreamError::TooLarge { path, limit: 64, .. } if path == "items[1]"), "{error}");
    assert!(matches!(decoder.finish(), Err(StreamError::Closed)));
}

#[test]
fn a_claimed_length_allocates_no_memory() {
    let mut buffer = buffer::ProtobufBuffer::new(usize::MAX);
    buffer.push(Bytes::from_static(b"x"));
    assert!(buffer.next_slice(1 << 40).is_none(), "the bytes have not arrived");
}

#[test]
fn sec_5_debug_of_a_decoder_shows_no_bytes() {
    let mut list = ListDecoder::<Pod>::new(Codec::Protobuf, pods());
    let bytes = list_of(&[item("hunter2")]);
    list.push(Bytes::copy_from_slice(&bytes[..bytes.len() - 6]));
    assert!(list.next_item().unwrap().is_none());
    let mut watch = WatchDecoder::<Pod>::new(Codec::Protobuf, pods());
    watch.push(Bytes::from_static(b"\0\0\0\x20hunter2"));
    assert!(watch.next_event().unwrap().is_none());
    for text in [format!("{list:?}"), format!("{watch:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("104, 117, 110"), "{text}");
    }
}

#[test]
fn one_byte_at_a_time_gives_the_same_as_all_at_once() {
    assert_eq!(read_list(list().chunks(1)), read_list([list().as_slice()]));
    assert_eq!(read_watch(watch().chunks(1)), read_watch([watch().as_slice()]));
}

/// Splits bytes at the given positions.
fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut start = 0;
    let mut chunks: Vec<&[u8]> = Vec::new();
    for place in places {
        chunks.push(&bytes[start..place]);
        start = place;
    }
    chunks.push(&bytes[start..]);
    chunks
}

fn mutate(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    for (place, how, byte) in changes {
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
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 0..4)
}

fn places() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..12)
}

proptest! {
    #[test]
    fn fuz_10_watches_read_the_same_however_they_are_cut(changes in changes(), places in places()) {
        let bytes = mutate(watch(), &changes);
        prop_assert_eq!(read_watch(cut(&bytes, &places)), read_watch([bytes.as_slice()]));
    }

    #[test]
    fn lists_read_the_same_however_they_are_cut(changes in changes(), places in places()) {
        let bytes = mutate(list(), &changes);
        prop_assert_eq!(read_list(cut(&bytes, &places)), read_list([bytes.as_slice()]));
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), places in places()) {
        let inside = wrap_envelope("v1", "PodList", &bytes);
        let _ = (read_list(cut(&bytes, &places)), read_list(cut(&inside, &places)), read_watch(cut(&bytes, &places)));
    }

    #[test]
    fn every_item_of_a_list_is_decoded(names in prop::collection::vec("[a-zé]{1,300}", 0..8), places in places()) {
        let items: Vec<Vec<u8>> = names.iter().map(|name| item(name)).collect();
        let bytes = list_of(&items);
        let mut decoder = ListDecoder::<Pod>::new(Codec::Protobuf, pods());
        let mut read = Vec::new();
        for chunk in cut(&bytes, &places) {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = decoder.next_item().unwrap() {
                read.push(item.key().name().to_owned());
            }
        }
        decoder.finish().unwrap();
        prop_assert_eq!(read, names);
    }
}
