//! The stage that looks on: a watch, turned into ledger entries, that survives its connection.

use evenkeel_client::{Api, Error, WatchParams};
use evenkeel_core::{Obj, WatchEvent};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc::Sender;

use super::ledger::{Change, Entry};

/// What the watch tells.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Something happened to an object.
    Event(Entry),
    /// The watch has ended and goes on from this resource version.
    Break { revision: String },
}

/// What ends the looking on.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Watches until nobody listens any more. `RetryWatcher` would do this by itself, but then the breaks could not be shown.
pub(crate) async fn watch(
    objects: Api<ConfigMap>,
    mut revision: String,
    observed: Sender<Seen>,
) -> Result<(), Failure> {
    loop {
        let mut events = objects.watch(&WatchParams::from_version(&*revision)).await?;
        while let Some(event) = events.next().await {
            let (change, object) = match event? {
                WatchEvent::Added(object) => (Change::Added, object),
                WatchEvent::Modified(object) => (Change::Modified, object),
                WatchEvent::Deleted(object) => (Change::Deleted, object),
                WatchEvent::Bookmark { resource_version, .. } => {
                    revision = resource_version.to_string();
                    continue;
                }
                WatchEvent::Error(status) => return Err(status),
            };
            revision = object.resource_version().to_owned();
            if observed.send(Seen::Event(entry(change, &object))).await.is_err() {
                return Ok(());
            }
        }
        // However it ended: what was not seen yet comes when we ask again.
        if observed.send(Seen::Break { revision: revision.clone() }).await.is_err() {
            return Ok(());
        }
    }
}

/// The version from which a watch sees everything that is yet to come.
pub(crate) async fn revision(objects: &Api<ConfigMap>) -> Result<String, Error> {
    let list = objects.list(&Default::default()).await?;
    Ok(list.meta.resource_version.to_string())
}

fn entry(change: Change, object: &Obj<ConfigMap>) -> Entry {
    let value = object.path("data.value").ok().flatten().map(|value| value.text().into_owned());
    Entry { change, name: object.key().name().to_owned(), value: value.unwrap_or_default() }
}
