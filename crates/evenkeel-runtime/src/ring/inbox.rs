//! [`Inbox`]: the newest states of the ring's Leases, from informers to the driver.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{Deleted, Event, InformerOptions, RunningInformers, SharedInformer};
use evenkeel_core::Obj;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::Notify;

use super::lease_store::{LeaseStore, NAME_LABEL};

#[derive(Debug)]
pub(super) enum LeaseChange {
    Present(Obj<Lease>),
    Deleted(Obj<Lease>),
    /// A relist does not have it.
    Missed,
}

/// Unread changes, at most one per Lease.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    changes: Mutex<BTreeMap<String, LeaseChange>>,
    pub(super) arrived: Notify,
}

impl Inbox {
    pub(super) fn take(&self) -> BTreeMap<String, LeaseChange> {
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, event: Event<Lease>) {
        let (name, change) = match event {
            Event::Add { object, .. } | Event::Update { new: object, .. } => {
                (object.key().name().to_owned(), LeaseChange::Present(object))
            }
            Event::Delete(Deleted::Observed(object)) => (object.key().name().to_owned(), LeaseChange::Deleted(object)),
            Event::Delete(Deleted::Missed { key, .. }) => (key.name().to_owned(), LeaseChange::Missed),
            Event::Delete(Deleted::OutOfScope { object } | Deleted::Moved { object }) => {
                (object.key().name().to_owned(), LeaseChange::Missed)
            }
        };
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).insert(name, change);
        self.arrived.notify_one();
    }

    /// Watches the table, until the returned handle is dropped.
    pub(super) fn watch_table(self: &Arc<Self>, store: &LeaseStore) -> RunningInformers {
        let name = store.table_name();
        self.watch(ApiSource::new(store.api.clone()).fields(format_args!("metadata.name={name}")))
    }

    /// Watches all Leases of the ring, until the returned handle is dropped.
    pub(super) fn watch_ring(self: &Arc<Self>, store: &LeaseStore) -> RunningInformers {
        self.watch(ApiSource::new(store.api.clone()).labels(format_args!("{NAME_LABEL}={}", store.ring)))
    }

    fn watch(
        self: &Arc<Self>,
        source: ApiSource<Lease, impl evenkeel_client::api::scope::Scope + 'static>,
    ) -> RunningInformers {
        let info = Arc::clone(source.resource());
        let informer = SharedInformer::<Lease>::new(source, &info, InformerOptions::new());
        let inbox = Arc::clone(self);
        // A new informer has not stopped.
        let _ = informer.add_handler(move |event: Event<Lease>| inbox.put(event));
        informer.start()
    }
}
