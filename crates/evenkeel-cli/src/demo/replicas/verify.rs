//! Compares the objects on the server: every Foo must have its ConfigMap, and nothing else may be there.

use std::collections::BTreeMap;

use evenkeel::client::{Client, Error, ListParams};
use evenkeel::core::Obj;
use evenkeel_sample_controller as sample;
use k8s_openapi::api::core::v1 as core;

use super::fleet::{BY, REPLICAS};

/// A Foo, or the ConfigMap of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) key: String,
    /// The uid of the Foo.
    pub(super) uid: String,
    pub(super) replicas: String,
}

/// Reads Foos and ConfigMaps at one version. `None`: that version was compacted meanwhile.
pub(super) async fn read(client: &Client) -> Result<Option<(Vec<Found>, Vec<Found>)>, Error> {
    let foos = client.api::<sample::Foo>().list(&ListParams::default()).await?;
    let same = ListParams::default().labels(BY).exactly_at(foos.meta.resource_version.to_string());
    let maps = match client.api::<core::ConfigMap>().list(&same).await {
        Ok(maps) => maps,
        Err(error) if error.is_expired() => return Ok(None),
        Err(error) => return Err(error),
    };
    let foo = |foo: &Obj<sample::Foo>| Found {
        key: foo.key().to_string(),
        uid: foo.uid().to_owned(),
        replicas: text(foo, "spec.replicas"),
    };
    let map = |map: &Obj<core::ConfigMap>| Found {
        key: map.key().to_string(),
        uid: map.controller().map(|owner| owner.uid.to_owned()).unwrap_or_default(),
        replicas: text(map, &format!("data.{REPLICAS}")),
    };
    Ok(Some((foos.iter().map(foo).collect(), maps.iter().map(map).collect())))
}

fn text<K>(object: &Obj<K>, path: &str) -> String {
    object.path(path).ok().flatten().map(|value| value.text().into_owned()).unwrap_or_default()
}

/// Returns what is wrong, by key.
pub(super) fn mismatches(objects: usize, foos: &[Found], maps: &[Found]) -> BTreeMap<String, String> {
    let mut wrong = BTreeMap::new();
    if foos.len() != objects {
        wrong.insert(String::from("Foos"), format!("{} instead of {objects}", foos.len()));
    }
    let mut maps: BTreeMap<&str, &Found> = maps.iter().map(|map| (map.key.as_str(), map)).collect();
    for foo in foos {
        let problem = match maps.remove(foo.key.as_str()) {
            None => "it has no ConfigMap".to_owned(),
            Some(map) if map.uid != foo.uid => "its ConfigMap has another owner".to_owned(),
            Some(map) if map.replicas != foo.replicas => {
                format!("its ConfigMap says {:?} replicas instead of {}", map.replicas, foo.replicas)
            }
            Some(_) => continue,
        };
        wrong.insert(foo.key.clone(), problem);
    }
    wrong.extend(maps.into_keys().map(|key| (key.to_owned(), "a ConfigMap without its Foo".to_owned())));
    wrong
}

#[cfg(test)]
mod tests;
