//! The store's contract, a naive model beside it, and readers beside writers.

mod contract;
mod indexes;
mod model;
mod threads;
mod transactions;

use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo, ResourceVersion, Untyped};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::Store;
use crate::Object;

/// A config map whose data has a `group`, by which tests index.
fn object(key: &str, version: &str, group: &str) -> Obj<ConfigMap> {
    let key: evenkeel_core::ObjectKey = key.parse().unwrap();
    let json = json!({
        "metadata": {"namespace": key.namespace(), "name": key.name(), "resourceVersion": version},
        "data": {"group": group},
    });
    Obj::from_json(&Arc::new(ResourceInfo::of::<ConfigMap>()), json.to_string()).unwrap()
}

fn untyped(key: &str, version: &str, group: &str) -> Object {
    object(key, version, group).cast::<Untyped>()
}

fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

/// Keys and versions of objects, sorted.
fn texts<K>(objects: impl IntoIterator<Item = Obj<K>>) -> Vec<String> {
    let mut all: Vec<String> =
        objects.into_iter().map(|object| format!("{}@{}", object.key(), object.resource_version())).collect();
    all.sort();
    all
}

fn all<K>(store: &Store<K>) -> Vec<String> {
    texts(store.list())
}

/// Returns a group of objects by the group index.
fn group(store: &Store<ConfigMap>, value: &str) -> Vec<String> {
    texts(store.by_index("group", value).unwrap())
}
