//! The stage that looks on: a watch, turned into ledger entries, that survives its connection.

use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo, WatchDecoder, WatchEvent};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc::Sender;

use super::client::{ConfigMaps, Error};
use super::ledger::{Change, Entry};

/// What the watch tells.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Something happened to an object.
    Event(Entry),
    /// The watch has ended and goes on from this resource version.
    Break { revision: String },
}

/// Watches until nobody listens any more.
pub(crate) async fn watch(objects: ConfigMaps, mut revision: String, observed: Sender<Seen>) -> Result<(), Error> {
    let info = Arc::new(ResourceInfo::of::<ConfigMap>());
    loop {
        let mut decoder = WatchDecoder::<ConfigMap>::new(Arc::clone(&info));
        let mut body = objects.watch(&revision).await?;
        // A stream that breaks is over just as one that ends.
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            decoder.push(data);
            while let Some(event) = decoder.next_event()? {
                let (change, object) = match event {
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
        }
        if observed.send(Seen::Break { revision: revision.clone() }).await.is_err() {
            return Ok(());
        }
    }
}

fn entry(change: Change, object: &Obj<ConfigMap>) -> Entry {
    let value = object.path("data.value").map(|value| value.text().into_owned());
    Entry { change, name: object.key().name().to_owned(), value: value.unwrap_or_default() }
}
