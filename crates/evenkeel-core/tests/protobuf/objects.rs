//! Compares objects decoded from protobuf with the same objects decoded from JSON, one of every kind of the Kubernetes
//! API.
//!
//! The objects are not part of the project. They are read from the folder that `EVENKEEL_FIXTURES` names, or beside
//! the project; without them the tests are skipped with a message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::json::JsonPaths;
use evenkeel_core::protobuf::{unwrap_envelope, wrap_envelope};
use evenkeel_core::{DecodeError, Obj, ResourceInfo};
use kube_core::DynamicObject;
use serde_json::Value;

struct Fixture {
    name: String,
    json: Vec<u8>,
    protobuf: Vec<u8>,
}

fn fixtures() -> Vec<Fixture> {
    let beside = || {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/api-1.36");
        beside.is_dir().then_some(beside)
    };
    let Some(folder) = std::env::var_os("EVENKEEL_FIXTURES").map(PathBuf::from).or_else(beside) else {
        println!("there are no fixtures: nothing to compare with");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    paths.sort();
    assert!(!paths.is_empty(), "the folder contains no fixtures");
    let read = |path: PathBuf| Fixture {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        json: std::fs::read(path.with_extension("json")).unwrap(),
        protobuf: std::fs::read(&path).unwrap(),
    };
    paths.into_iter().map(read).collect()
}

fn info() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("", "v1", "Any", "anys", true))
}

type Pair = (String, Obj<DynamicObject>, Obj<DynamicObject>);

/// Returns every named object in both forms, protobuf first. Objects without a name are rejected in both.
fn pairs() -> Vec<Pair> {
    let info = info();
    let mut pairs = Vec::new();
    for fixture in fixtures() {
        let decode = |codec: Codec, bytes: Vec<u8>| Obj::<DynamicObject>::decode(codec, &info, bytes.into());
        match (decode(Codec::Protobuf, fixture.protobuf), decode(Codec::Json, fixture.json)) {
            (Ok(protobuf), Ok(json)) => pairs.push((fixture.name, protobuf, json)),
            (Err(protobuf), Err(json)) => {
                assert!(matches!(json, DecodeError::NoMetadata { .. } | DecodeError::NoName { .. }), "{json}");
                // The envelope of a watch event states no kind.
                let is_event = fixture.name.ends_with(".WatchEvent");
                assert!(is_event || protobuf.to_string() == json.to_string(), "{}: {protobuf}; {json}", fixture.name);
            }
            (protobuf, json) => panic!("{}: {protobuf:?} {json:?}", fixture.name),
        }
    }
    pairs
}

fn value_of(obj: &Obj<DynamicObject>) -> Value {
    serde_json::from_slice(&obj.json().unwrap()).unwrap()
}

/// Returns all paths of a value, to leaves and to inner values.
fn paths_of(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                paths_of(value, format!("{path}[{name}]"), out);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                paths_of(value, format!("{path}[{index}]"), out);
            }
        }
        _ => {}
    }
    out.push(path);
}

#[test]
fn pb_090_headers_and_json_are_the_same() {
    let pairs = pairs();
    println!("{} objects", pairs.len());
    for (name, protobuf, json) in pairs {
        let (left, right) = (protobuf.header(), json.header());
        assert_eq!((left.kind(), left.api_version(), left.key()), (right.kind(), right.api_version(), right.key()));
        assert_eq!((left.uid(), left.resource_version()), (right.uid(), right.resource_version()), "{name}");
        assert_eq!(left.generation(), right.generation(), "{name}");
        assert_eq!(left.creation_timestamp(), right.creation_timestamp(), "{name}");
        assert_eq!(left.deletion_timestamp(), right.deletion_timestamp(), "{name}");
        assert!(left.labels().eq(right.labels()) && left.finalizers().eq(right.finalizers()), "{name}");
        assert!(left.owner_references().eq(right.owner_references()), "{name}");
        assert_eq!(value_of(&protobuf), value_of(&json), "{name}");
        assert_eq!(protobuf.typed().unwrap().types, json.typed().unwrap().types, "{name}");
        assert_eq!(protobuf.typed().unwrap().data, json.typed().unwrap().data, "{name}");
        let annotations = value_of(&json)["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        for key in annotations.keys() {
            assert_eq!(protobuf.annotation(key).unwrap(), json.annotation(key).unwrap(), "{name} {key}");
        }
    }
}

#[test]
fn pb_090_every_path_finds_the_same_value_in_both_formats() {
    let mut count = 0;
    for (name, protobuf, json) in pairs() {
        let mut paths = Vec::new();
        paths_of(&value_of(&json), String::new(), &mut paths);
        for path in &paths {
            let value = |obj: &Obj<DynamicObject>| -> Option<Value> {
                obj.path(path).unwrap().map(|value| serde_json::from_str(value.json()).unwrap())
            };
            // The order of members is not the same.
            if !path.is_empty() {
                assert_eq!(value(&protobuf), value(&json), "{name} {path}");
                count += 1;
            }
        }
    }
    println!("{count} paths");
}

#[test]
fn pb_072_pruning_is_equal_in_both_formats() {
    for (name, protobuf, json) in pairs() {
        let mut paths = Vec::new();
        paths_of(&value_of(&json), String::new(), &mut paths);
        let step = paths.len() / 40 + 1;
        for path in paths.iter().filter(|path| !path.is_empty()).step_by(step).map(String::as_str).chain([
            "metadata.managedFields",
            "[*]",
            "[*][*][*]",
        ]) {
            let paths = JsonPaths::new([path]).unwrap();
            let keep = JsonPaths::new([path, "metadata.name"]).unwrap();
            for (left, right) in
                [(protobuf.without(&paths), json.without(&paths)), (protobuf.only(&keep), json.only(&keep))]
            {
                match (left, right) {
                    (Ok(left), Ok(right)) => {
                        let (mut left, mut right) = (value_of(&left), value_of(&right));
                        drop_empty(&mut left);
                        drop_empty(&mut right);
                        assert_eq!(left, right, "{name} {path}");
                    }
                    (Err(left), Err(right)) => assert_eq!(left.to_string(), right.to_string(), "{name} {path}"),
                    (left, right) => panic!("{name} {path}: {left:?} {right:?}"),
                }
            }
        }
    }
}

/// Removes empty values: protobuf has neither empty lists nor empty maps.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(drop_empty);
            members.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[test]
fn pb_039_a_list_of_every_kind_survives_any_size_of_chunk() {
    for (name, protobuf, _) in pairs() {
        let list_kind = format!("{}List", protobuf.kind());
        let item = protobuf.raw().unwrap();
        let mut field = vec![0x12];
        let mut length = item.len();
        while length >= 0x80 {
            field.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        field.push(length as u8);
        field.extend_from_slice(&item);
        let list = wrap_envelope(protobuf.api_version(), &list_kind, &field.repeat(3));
        assert_eq!(unwrap_envelope(&list).unwrap().kind, list_kind);
        if !Codec::Protobuf
            .supports(evenkeel_core::codec::ApiKind { api_version: protobuf.api_version(), kind: &list_kind })
        {
            // There are no lists of some, such as reviews.
            continue;
        }
        let (group, version) = protobuf.api_version().split_once('/').unwrap_or(("", protobuf.api_version()));
        let info = Arc::new(ResourceInfo::new(group, version, protobuf.kind(), "any", true));
        for size in [1, 100, list.len()] {
            let mut decoder = ListDecoder::<DynamicObject>::new(Codec::Protobuf, Arc::clone(&info));
            let mut read = Vec::new();
            for chunk in list.chunks(size) {
                decoder.push(chunk.to_vec().into());
                while let Some(item) = decoder.next_item().unwrap() {
                    read.push(item);
                }
            }
            decoder.finish().unwrap();
            assert_eq!(read.len(), 3, "{name}");
            assert!(read.iter().all(|read| read.raw().unwrap() == item && read.key() == protobuf.key()), "{name}");
        }
    }
}
