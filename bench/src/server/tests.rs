//! The server's output, read as clients read it.

use std::sync::Arc;

use evenkeel_core::codec::{Codec, ListDecoder, WatchDecoder};
use evenkeel_core::protobuf::{Message, from_slice, wrap_envelope};
use evenkeel_core::{ResourceInfo, Untyped, WatchEvent};

use serde_json::Value;

use super::*;

const KIND: Kind = Kind { path: "/api/v1/pods", api_version: "v1", kind: "Pod", has_protobuf: true };
const NAMED: &str = r#""metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":{"nodeName":"x"}"#;

fn info() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true))
}

/// Returns the bodies of chunks.
fn chunks(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        let (body, rest) = bytes[end + 2..].split_at(length);
        assert_eq!(&rest[..2], b"\r\n");
        out.push(body);
        bytes = &rest[2..];
    }
    out
}

/// Returns the fields of a message: numbers with their bytes, or with their varints.
fn fields(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let varint = |bytes: &mut &[u8]| {
        let mut number = 0;
        for shift in 0.. {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            number |= usize::from(byte & 0x7f) << (7 * shift);
            if *byte < 0x80 {
                break;
            }
        }
        number
    };
    let mut out = Vec::new();
    while let Some((tag, rest)) = bytes.split_first() {
        bytes = rest;
        let number = varint(&mut bytes);
        let value =
            if tag & 7 == 2 { bytes.split_off(..number).unwrap().to_vec() } else { number.to_le_bytes().to_vec() };
        out.push((tag >> 3, value));
    }
    out
}

/// Returns the kind and the message of an envelope.
fn opened(bytes: &[u8]) -> (String, Vec<u8>) {
    let parts = fields(bytes.strip_prefix(b"k8s\0").unwrap());
    let [(1, meta), (2, raw), (3, encoding), (4, content)] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(encoding.is_empty() && content.is_empty());
    let names: Vec<String> = fields(meta).into_iter().map(|(_, name)| String::from_utf8(name).unwrap()).collect();
    (names.join(" "), raw.clone())
}

/// Returns the type and the object of the event in a frame.
fn event(frame: &[u8]) -> (String, Vec<u8>) {
    let (length, message) = frame.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, message.len());
    let parts = fields(message);
    let [(1, name), (2, extension)] = parts.as_slice() else { panic!("{parts:?}") };
    let inner = fields(extension);
    let [(1, object)] = inner.as_slice() else { panic!("{inner:?}") };
    let object = object.clone();
    (String::from_utf8(name.clone()).unwrap(), object)
}

#[test]
fn events_in_json_are_read_by_our_own_decoder() {
    let wire = Wire::Json;
    let mut bytes = Vec::new();
    wire.event(&mut bytes, "MODIFIED", &KIND, NAMED).unwrap();
    let mut item = Vec::new();
    wire.item(&mut item, &KIND, NAMED).unwrap();
    wire.event_head(&mut bytes, "ADDED", &KIND, wire.of_item(&item).len());
    bytes.extend_from_slice(wire.of_item(&item));
    bytes.extend_from_slice(wire.event_tail());
    bytes.extend(wire.bookmark(&KIND, 9, true));
    bytes.extend(wire.expired());
    let mut decoder = WatchDecoder::<Untyped>::new(Codec::Json, info());
    let lines = chunks(&bytes);
    assert_eq!(lines.len(), 4, "each event has a chunk");
    decoder.push(lines.concat().into());
    let mut events = std::iter::from_fn(|| decoder.next_event().unwrap());
    let Some(WatchEvent::Modified(pod)) = events.next() else { panic!("no update") };
    assert_eq!((pod.key().as_str(), pod.resource_version(), pod.kind()), ("n/a", "7", "Pod"));
    let Some(WatchEvent::Added(pod)) = events.next() else { panic!("nothing was added") };
    assert_eq!((pod.key().as_str(), pod.path("spec.nodeName").unwrap().unwrap().text().as_ref()), ("n/a", "x"));
    let Some(WatchEvent::Bookmark { resource_version, initial_events_end }) = events.next() else { panic!("no end") };
    assert_eq!((resource_version.as_str(), initial_events_end), ("9", true));
    let Some(WatchEvent::Error(status)) = events.next() else { panic!("no error") };
    assert!(status.is_expired());
}

#[test]
fn lists_in_json_are_read_by_our_own_decoder() {
    let wire = Wire::Json;
    for count in 0..3 {
        let mut items = Vec::new();
        for _ in 0..count {
            wire.item(&mut items, &KIND, NAMED).unwrap();
        }
        items.truncate(items.len().saturating_sub(wire.surplus()));
        let metadata = ListMetadata { version: 12, next: Some(2), remaining: Some(40), selector: None };
        let head = wire.list_head(&KIND, &metadata, items.len());
        let mut decoder = ListDecoder::<Untyped>::new(Codec::Json, info());
        decoder.push([head.as_slice(), &items, wire.list_tail()].concat().into());
        let found = std::iter::from_fn(|| decoder.next_item().unwrap()).count();
        let meta = decoder.finish().unwrap();
        assert_eq!((found, meta.resource_version.as_str(), meta.continue_token.as_str()), (count, "12", "2"));
    }
}

#[test]
fn events_in_protobuf_are_frames_of_events_of_envelopes() {
    let wire = Wire::Protobuf;
    // Long enough for lengths of several bytes.
    for object in [vec![], vec![b'o'; 200], vec![b'o'; 70_000]] {
        let mut bytes = Vec::new();
        wire.event_head(&mut bytes, "ADDED", &KIND, object.len());
        bytes.extend_from_slice(&object);
        bytes.extend_from_slice(wire.event_tail());
        let [frame] = chunks(&bytes).try_into().unwrap();
        let (name, wrapped) = event(frame);
        assert_eq!((name.as_str(), opened(&wrapped)), ("ADDED", ("v1 Pod".to_owned(), object)));
    }
    let bookmark = wire.bookmark(&KIND, 1_234, true);
    let (name, wrapped) = event(chunks(&bookmark)[0]);
    let (kind, pod) = opened(&wrapped);
    assert_eq!((name.as_str(), kind.as_str()), ("BOOKMARK", "v1 Pod"));
    let pod = fields(&pod);
    let [(1, metadata)] = pod.as_slice() else { panic!("{pod:?}") };
    let metadata = fields(metadata);
    let [(6, version), (12, annotation)] = metadata.as_slice() else { panic!("{metadata:?}") };
    assert_eq!(version, b"1234");
    let annotation: Vec<Vec<u8>> = fields(annotation).into_iter().map(|(_, text)| text).collect();
    assert_eq!(annotation, [b"k8s.io/initial-events-end".to_vec(), b"true".to_vec()]);
    let expired = wire.expired();
    let (name, wrapped) = event(chunks(&expired)[0]);
    let (kind, status) = opened(&wrapped);
    assert_eq!((name.as_str(), kind.as_str()), ("ERROR", "v1 Status"));
    assert_eq!(fields(&status).last().unwrap(), &(6, 410_usize.to_le_bytes().to_vec()));
}

#[test]
fn objects_are_equal_in_protobuf_and_json() {
    for data in [Data::Pods, Data::Secrets, Data::Endpointslices, Data::Kinds] {
        for (kind, objects) in data.kinds(40) {
            let message = Message::of_kind(kind.api_version, kind.kind).unwrap();
            for number in 0..objects.len() {
                let mut members = String::new();
                objects.write(&mut members, number);
                let (mut item, mut frame) = (Vec::new(), Vec::new());
                Wire::Protobuf.item(&mut item, &kind, &members).unwrap();
                Wire::Protobuf.event(&mut frame, "MODIFIED", &kind, &members).unwrap();
                let (name, wrapped) = event(chunks(&frame)[0]);
                let object = Wire::Protobuf.of_item(&item);
                assert_eq!(
                    (name.as_str(), &wrapped),
                    ("MODIFIED", &wrap_envelope(kind.api_version, kind.kind, object))
                );
                let read: Value = from_slice(message, object).unwrap();
                let written: Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
                assert_eq!(without_empty(read), without_empty(written), "{}", kind.kind);
            }
        }
    }
}

/// Removes empty values, which one format writes and the other does not.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, without_empty(value)));
            let is_set = |value: &Value| {
                !(value.is_null()
                    || value == &json!({})
                    || value == &json!("")
                    || value == &json!([])
                    || value == &json!(0)
                    || value == &json!(false))
            };
            Value::Object(members.filter(|(_, value)| is_set(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        value => value,
    }
}

#[test]
fn lists_in_protobuf_are_an_envelope_with_metadata_and_items() {
    let wire = Wire::Protobuf;
    let items = [&[0x12, 3, 1, 2, 3][..], &[0x12, 1, 9]].concat();
    for rest in [None, Some((500, 300))] {
        let (next, remaining) = rest.unzip();
        let head = wire.list_head(&KIND, &ListMetadata { version: 12, next, remaining, selector: None }, items.len());
        let (kind, list) = opened(&[head.as_slice(), &items, wire.list_tail()].concat());
        assert_eq!(kind, "v1 PodList");
        let parts = fields(&list);
        assert_eq!(parts[1..], [(2, vec![1, 2, 3]), (2, vec![9])]);
        let metadata = fields(&parts[0].1);
        assert_eq!(metadata[1], (2, b"12".to_vec()));
        let next = rest.map_or(String::new(), |(next, _)| next.to_string());
        assert_eq!(metadata[2], (3, next.into_bytes()));
        let remaining = metadata.get(3).map(|(number, value)| (*number, value.clone()));
        assert_eq!(remaining, rest.map(|(_, remaining)| (4, remaining.to_le_bytes().to_vec())));
    }
    assert_eq!(wire.of_item(&[0x12, 3, 1, 2, 3]), [1, 2, 3]);
    assert_eq!(wire.of_item(&[&[0x12, 0xc8, 0x01][..], &[7; 200]].concat()), [7; 200]);
}

#[test]
fn protobuf_is_used_if_preferred_and_supported() {
    let go = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(Wire::accepted(go, &KIND), Wire::Protobuf);
    assert_eq!(Wire::accepted(go, &Kind { has_protobuf: false, ..KIND }), Wire::Json);
    for json in ["", "*/*", "application/json", "application/json, application/vnd.kubernetes.protobuf"] {
        assert_eq!(Wire::accepted(json, &KIND), Wire::Json);
    }
}
