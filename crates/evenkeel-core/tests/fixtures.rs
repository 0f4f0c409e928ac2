//! Headers and lists against one object of every kind of the Kubernetes API.
//!
//! The objects are not part of the project. Set the folder of the fixtures, one `<group>.<version>.<Kind>.json` each, in
//! `EVENKEEL_FIXTURES`; without it the test is skipped with a message.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and talk")]

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_core::codec::{Codec, ListDecoder};
use evenkeel_core::{Obj, ResourceInfo};
use kube_core::DynamicObject;
use serde_json::Value;

fn fixtures() -> Vec<(PathBuf, Vec<u8>)> {
    let Some(folder) = std::env::var_os("EVENKEEL_FIXTURES") else {
        println!("EVENKEEL_FIXTURES is not set: nothing to compare with");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    assert!(!paths.is_empty(), "the folder contains no fixtures");
    paths
        .into_iter()
        .map(|path| {
            let json = std::fs::read(&path).unwrap();
            (path, json)
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn headers_agree_with_a_full_parse() {
    for (path, json) in fixtures() {
        let value: Value = serde_json::from_slice(&json).unwrap();
        let meta = &value["metadata"];
        let info = Arc::new(ResourceInfo::new("", "v1", "", "", true));
        let object = match Obj::<DynamicObject>::from_json(&info, json) {
            Ok(object) => object,
            Err(error) => {
                assert!(text(&meta["name"]).is_empty(), "{}: {error}", path.display());
                continue;
            }
        };
        let header = object.header();
        assert_eq!(header.kind(), value["kind"].as_str());
        assert_eq!(header.api_version(), value["apiVersion"].as_str());
        assert_eq!(header.key().name(), text(&meta["name"]));
        assert_eq!(header.key().namespace(), meta["namespace"].as_str().filter(|namespace| !namespace.is_empty()));
        assert_eq!(header.uid(), text(&meta["uid"]));
        assert_eq!(header.resource_version(), text(&meta["resourceVersion"]));
        assert_eq!(header.generation(), meta["generation"].as_i64());
        assert_eq!(header.creation_timestamp(), meta["creationTimestamp"].as_str());
        assert_eq!(header.deletion_timestamp(), meta["deletionTimestamp"].as_str());
        let labels = meta["labels"].as_object().cloned().unwrap_or_default();
        assert_eq!(header.labels().len(), labels.len());
        assert!(labels.iter().all(|(key, value)| header.label(key) == value.as_str()));
        let owners = meta["ownerReferences"].as_array().cloned().unwrap_or_default();
        assert_eq!(header.owner_references().len(), owners.len());
        for (owner, value) in header.owner_references().zip(&owners) {
            assert_eq!((owner.uid, owner.name), (text(&value["uid"]), text(&value["name"])));
            assert_eq!(owner.controller, value["controller"] == true);
        }
        let finalizers = meta["finalizers"].as_array().cloned().unwrap_or_default();
        assert!(header.finalizers().eq(finalizers.iter().map(text)));
    }
}

#[test]
fn a_list_of_all_kinds_decodes_from_chunks_of_any_size() {
    let info = Arc::new(ResourceInfo::new("", "v1", "Any", "anys", true));
    let objects: Vec<Vec<u8>> = fixtures()
        .into_iter()
        .map(|(_, json)| json)
        .filter(|json| Obj::<DynamicObject>::from_json(&info, json.clone()).is_ok())
        .collect();
    let list = [b"{\"items\":[", objects.join(b",".as_slice()).as_slice(), b"]}"].concat();
    for size in [1, 7, 1000, 16_384, list.len()] {
        let mut decoder = ListDecoder::<DynamicObject>::new(Codec::Json, Arc::clone(&info));
        let mut read = Vec::new();
        for chunk in list.chunks(size) {
            decoder.push(chunk.to_vec().into());
            while let Some(item) = decoder.next_item().unwrap() {
                item.typed().unwrap();
                read.push(item.raw().unwrap().trim_ascii().to_vec());
            }
        }
        decoder.finish().unwrap();
        assert!(read.iter().map(Vec::as_slice).eq(objects.iter().map(|json| json.trim_ascii())), "chunks of {size}");
    }
}
