//! [`InformerBuilder`]: what an informer is made of.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{Obj, ResourceInfo, Untyped};

use super::SharedInformer;
use super::metrics::Identity;
use super::observe::{InformerEvent, Notify};
use super::process_loop::ProcessLoop;
use super::processor::Processor;
use super::shared::{InformerShared, Parts, StopMode, TaskGuard};
use crate::delta::{DeltaFifo, DeltaQueue, ListMode, OrderedQueue};
use crate::reflector::{Backoff, OnTransformError, Reflector, ReflectorBuilder, ReflectorFailure};
use crate::source::{BoxError, ListerWatcher};
use crate::store::{Index, NAMESPACE_INDEX, Table};

/// Which queue lies between reflector and store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueKind {
    /// Everything in the order in which it came; a list replaces the contents of the store in one step. client-go's informers
    /// do so since 1.36.
    #[default]
    Ordered,
    /// Everything in the order in which it came; a list is applied object by object. Versions of lists and bookmarks do not
    /// reach the store, so that [`at_least`](crate::Indexer::at_least) may wait until an object of that version comes. This is
    /// what client-go's informers did from 1.33 to 1.35.
    OrderedPerItem,
    /// By object: what came for one object while others were being applied is applied together. This is client-go's
    /// `DeltaFIFO`, which its informers used before 1.33. Versions of lists and bookmarks do not reach the store here either.
    Keyed,
}

/// Makes a [`SharedInformer`].
#[must_use = "nothing is made until `build` is called"]
pub struct InformerBuilder<K> {
    info: Arc<ResourceInfo>,
    name: Option<String>,
    resync: Duration,
    queue: QueueKind,
    indexes: Vec<Index<Untyped>>,
    reflector: ReflectorBuilder,
    kind: PhantomData<fn() -> K>,
}

impl<K> SharedInformer<K> {
    /// An informer of what this source has, which is of this kind.
    pub fn builder(source: impl ListerWatcher, info: &Arc<ResourceInfo>) -> InformerBuilder<K> {
        InformerBuilder {
            info: Arc::clone(info),
            name: None,
            resync: Duration::ZERO,
            queue: QueueKind::default(),
            indexes: Vec::new(),
            reflector: Reflector::builder(Arc::new(source), Arc::clone(info)),
            kind: PhantomData,
        }
    }
}

impl<K: 'static> InformerBuilder<K> {
    /// What the informer is called in logs and metrics; the plural of its kind unless said. If another informer of the same
    /// name and kind lives, metrics have a number behind the name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often handlers that do not say otherwise are told of all objects again; zero, which is the default, for never.
    /// No request is made for that.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// Another index, besides the one by namespace that every informer has.
    pub fn index(mut self, index: Index<K>) -> Self {
        self.indexes.push(index.cast());
        self
    }

    /// Which queue lies between reflector and store.
    pub fn queue(mut self, kind: QueueKind) -> Self {
        self.queue = kind;
        self
    }

    /// Changes objects before they are stored: store and handlers only ever see what this made of them. It is run once per
    /// state of an object, must not change names, and should not depend on anything but the object.
    pub fn transform<E: Into<BoxError>>(
        self,
        transform: impl Fn(Obj<K>) -> Result<Obj<K>, E> + Send + Sync + 'static,
    ) -> Self {
        self.reflector(|reflector| {
            reflector.transform(move |object: Obj<Untyped>| transform(object.cast()).map(Obj::cast).map_err(Into::into))
        })
    }

    /// Whether objects rest [packed](evenkeel_core::pack), in a fraction of their memory; they do, unless this says no. It
    /// costs a few microseconds per object that comes, and about one each time a payload is looked at.
    pub fn pack(self, pack: bool) -> Self {
        self.reflector(|reflector| reflector.pack(pack))
    }

    /// What happens to an object that cannot be transformed.
    pub fn on_transform_error(self, policy: OnTransformError) -> Self {
        self.reflector(|reflector| reflector.on_transform_error(policy))
    }

    /// Hears of every failure to list or to watch, instead of the log.
    pub fn on_error(self, handler: impl Fn(&ReflectorFailure) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_error(handler))
    }

    /// Whether to ask for a watch that begins with all objects, rather than for a list and a watch; it does, unless said. A
    /// server that does not know of it is listed.
    pub fn watch_list(self, ask: bool) -> Self {
        self.reflector(|reflector| reflector.watch_list(ask))
    }

    /// How many objects to a page of a list; chosen as client-go does unless said.
    pub fn page_size(self, objects: u32) -> Self {
        self.reflector(|reflector| reflector.page_size(objects))
    }

    /// How long it waits after failures.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.reflector(|reflector| reflector.backoff(backoff))
    }

    /// Anything else that can be said of the [`Reflector`].
    pub fn reflector(mut self, change: impl FnOnce(ReflectorBuilder) -> ReflectorBuilder) -> Self {
        self.reflector = change(self.reflector);
        self
    }

    /// The same, for objects that are decoded as `L`.
    #[cfg(feature = "client")]
    pub(crate) fn cast<L>(self) -> InformerBuilder<L> {
        let Self { info, name, resync, queue, indexes, reflector, kind: PhantomData } = self;
        InformerBuilder { info, name, resync, queue, indexes, reflector, kind: PhantomData }
    }

    /// The informer. It does nothing before it is [started](SharedInformer::start).
    pub fn build(self) -> SharedInformer<K> {
        let name = self.name.unwrap_or_else(|| self.info.plural().to_owned());
        let queue: DeltaQueue = match self.queue {
            QueueKind::Ordered => OrderedQueue::new(ListMode::Atomic).into(),
            QueueKind::OrderedPerItem => OrderedQueue::new(ListMode::PerItem).into(),
            QueueKind::Keyed => DeltaFifo::new().into(),
        };
        let mut indexes = self.indexes;
        if indexes.iter().any(|index| index.name() == NAMESPACE_INDEX) {
            tracing::warn!(
                informer = name,
                "every informer has an index {NAMESPACE_INDEX:?}; the one that was given is left out"
            );
        }
        // Of indexes with the same name the last counts, and listers count on this one.
        indexes.push(Index::namespace());
        let table = Arc::new(Table::new(indexes));
        let identity = Identity::new(&name, &self.info);
        let reflector = self.reflector.name(identity.name());
        let parts = Parts { reflector, queue };
        let shared = InformerShared::new(name, identity, self.info, table, Processor::new(self.resync), parts);
        SharedInformer { shared: Arc::new(shared), kind: PhantomData }
    }
}

/// Runs the reflector until the informer is stopped.
pub(super) async fn drive(guard: DriverGuard) {
    let shared = Arc::clone(&guard.shared);
    let Some(Parts { reflector, queue }) = shared.take_parts() else { return };
    let observers = Arc::clone(&shared.observers);
    let reflector = reflector.observe_errors(move |failure| observers.notify(InformerEvent::Failed(failure)));
    let mut reflector = reflector.resync_period(shared.processor().check_period()).build();
    shared.watch_reflector(reflector.status());
    let mut process_loop = ProcessLoop::new(Arc::clone(&shared), queue);
    let mut stop_mode = shared.watch_stop_mode();
    tokio::select! {
        biased;
        _ = stop_mode.wait_for(|mode| *mode != StopMode::KeepRunning) => {}
        () = reflector.run(&mut process_loop) => {}
    }
}

/// Marks the informer as stopped when the driver ends, also if it panicked or was dropped before it ran.
pub(super) struct DriverGuard {
    pub(super) shared: Arc<InformerShared>,
    pub(super) _task: TaskGuard,
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let informer = self.shared.name.as_str();
            tracing::error!(informer, "list and watch source panicked; informer stopped");
        }
        self.shared.set_stopped();
    }
}
