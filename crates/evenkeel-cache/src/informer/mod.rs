//! [`SharedInformer`]: one reflector, one store, any number of handlers.

mod builder;
mod core;
mod listener;
pub(crate) mod metrics;
pub mod observe;
mod process_loop;
mod processor;
mod registration;
mod resync;
mod status;
mod subscription;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod weak;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel_core::{ResourceInfo, ResourceVersion};

use self::builder::Ended;
use self::core::{Core, Order, Phase, User};
use self::listener::{Callback, Listener};
use self::metrics::HandlerMetrics;
use self::observe::{Observer, ObserverGuard};
use self::processor::HandlerRunner;
use crate::handler::{Handler, HandlerOptions};
use crate::source::BoxFuture;
use crate::store::{Index, IndexError};
use crate::wait::DoneChecker;
use crate::{Event, Indexer};

pub use self::builder::{InformerBuilder, QueueKind};
pub use self::listener::Lag;
pub use self::registration::{Registration, Stopped};
pub use self::status::InformerStatus;
pub use self::subscription::Subscription;
pub use self::weak::WeakInformer;

/// A copy of what the API server has of one kind, kept up to date, for any number of handlers.
///
/// # What may be assumed
///
/// - Handlers are told of an object in the order of its changes, one call at a time. Between handlers there is no order.
/// - The store is written before anybody is told: a handler that looks into the [`indexer`](Self::indexer) finds what it was
///   told, or something newer.
/// - A handler that is added late is first told of everything that is there, as if it had just come (`initial`), then of what
///   happens. Nothing is left out and nothing comes twice.
/// - A slow handler holds up nobody: each has a task and a queue of its own. See
///   [`Delivery`](crate::handler::Delivery) for what that costs.
/// - After a lost watch the informer goes on from where it was; if the server no longer knows that place, it lists again and
///   tells of the difference. Changes in between may then be told as one, and of an object that went meanwhile only the last
///   known state is known: [`Deleted::Missed`](crate::Deleted::Missed).
///
/// # What is not promised
///
/// - That every state of an object is told: the server does not send them all either.
/// - That an update is a change: relists and resyncs tell of objects that have not changed. Compare resource versions.
///
/// # How it begins and ends
///
/// It does nothing before it is [started](Self::start), begins once, and ends when it is [stopped](Self::stop), or when the
/// last handle, [`Lister`](crate::Lister), [`Subscription`] and handler is gone. A handle that is cloned is the same informer.
/// Afterwards the store still has what it had.
pub struct SharedInformer<K> {
    user: Arc<User>,
    kind: PhantomData<fn() -> K>,
}

impl<K> SharedInformer<K> {
    fn core(&self) -> &Arc<Core> {
        &self.user.0
    }

    pub(crate) fn stopped(&self, what: &'static str) -> Stopped {
        Stopped::new(self.name(), what)
    }

    /// What the informer is called in logs and metrics.
    pub fn name(&self) -> &str {
        &self.core().name
    }

    /// The kind of the objects.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.core().info
    }

    /// The objects. They can be read at any time; they are complete once the informer [has synced](Self::has_synced). Keeping
    /// this does not keep the informer running.
    pub fn indexer(&self) -> Indexer<K> {
        Indexer::over(Arc::clone(&self.core().table))
    }

    /// Adds indexes; objects that are there already are found by them at once.
    ///
    /// # Errors
    /// If there is an index of that name, or if the informer has ended; none is added then.
    pub fn add_indexes(&self, indexes: impl IntoIterator<Item = Index<K>>) -> Result<(), IndexError> {
        if self.is_stopped() {
            return Err(IndexError::Stopped { informer: self.name().to_owned() });
        }
        self.indexer().add_indexes(indexes)
    }

    /// Begins, in a task of the runtime that this is called in. Does nothing if it has begun already, but for a warning.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        // Whoever wants to know how it ended asks `run`.
        drop(self.launch());
    }

    /// Begins, and waits until it has ended, handlers included. If this is dropped, the informer ends. Returns at once if it
    /// has begun already.
    ///
    /// # Panics
    /// If a function that was given to the informer panics (an index, a transform, an error handler), with that panic.
    /// Handlers' panics are contained.
    pub async fn run(&self) {
        let Some(driver) = self.launch() else { return };
        let end = EndOnDrop(self.core());
        let outcome = driver.await;
        self.core().idle().await;
        drop(end);
        if let Err(error) = outcome
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }

    fn launch(&self) -> Option<tokio::task::JoinHandle<()>> {
        let runtime = tokio::runtime::Handle::current();
        let Some(guard) = self.core().begin(&self.user, &runtime) else {
            tracing::warn!(informer = self.name(), "the informer has begun or ended already; it begins only once");
            return None;
        };
        Some(runtime.spawn(builder::drive(Ended { core: Arc::clone(self.core()), _task: guard })))
    }

    /// Ends it. Calls of handlers that are being made run to their ends; nothing more is told. Returns at once;
    /// [`ended`](Self::ended) waits.
    pub fn stop(&self) {
        self.core().stop(Order::Stop);
    }

    /// Ends it in an orderly way: nothing more is heard from the server, handlers are told what waits for them, and when this
    /// returns no task of the informer is left. A handler that never comes to its end keeps this waiting; [`stop`](Self::stop)
    /// then cuts it short.
    pub async fn shutdown(&self) {
        self.core().stop(Order::Drain);
        self.ended().await;
    }

    /// Waits until the informer has been stopped and none of its tasks is left.
    pub async fn ended(&self) {
        let mut life = self.core().lives();
        // The sender lives as long as this handle.
        let _ = life.wait_for(|life| life.phase == Phase::Stopped).await;
        self.core().idle().await;
    }

    /// Whether it has begun.
    pub fn is_started(&self) -> bool {
        self.core().has_begun()
    }

    /// Whether it has ended: nothing more comes.
    pub fn is_stopped(&self) -> bool {
        self.core().life().phase == Phase::Stopped
    }

    /// Whether the store has been filled with everything that there was when the informer began. Once it has, it stays so.
    pub fn has_synced(&self) -> bool {
        self.core().life().synced
    }

    /// Waits until it [has synced](Self::has_synced).
    ///
    /// # Errors
    /// If it ends before.
    pub async fn synced(&self) -> Result<(), Stopped> {
        let mut lives = self.core().lives();
        let life = lives.wait_for(|life| life.synced || life.phase == Phase::Stopped).await.map(|life| *life);
        match life {
            Ok(life) if life.synced => Ok(()),
            _ => Err(Stopped::new(self.name(), "it did not sync")),
        }
    }

    /// The version of the last list or event that came from the server; empty before there was one. What readers see may be
    /// a moment behind: [`Indexer::resource_version`] says how far the store is.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.core().last_sync_resource_version()
    }

    /// Has somebody told what becomes of each object, from now until what this answers with is dropped. There may be several.
    /// An informer that nobody observes pays one load for it at each event, notification and call.
    ///
    /// ```
    /// use evenkeel_cache::SharedInformer;
    /// use evenkeel_cache::informer::observe::{Observer, InformerEvent};
    ///
    /// struct Printer;
    ///
    /// impl Observer for Printer {
    ///     fn event(&self, event: InformerEvent<'_>) {
    ///         if let InformerEvent::Received { change, object } = event {
    ///             println!("{change:?} {}", object.key());
    ///         }
    ///     }
    /// }
    ///
    /// fn print_events<K>(informer: &SharedInformer<K>) -> impl Sized + use<K> {
    ///     informer.observe(Printer)
    /// }
    /// ```
    pub fn observe(&self, observer: impl Observer) -> ObserverGuard {
        self.core().observers.register(Box::new(observer))
    }

    /// How the informer is doing.
    pub fn status(&self) -> InformerStatus {
        self.core().status()
    }
}

impl<K: 'static> SharedInformer<K> {
    /// Adds a handler. Adding the same one again is another registration, which hears everything too.
    ///
    /// What [`Handler::options`] says of resyncs, delivery and panics is taken at its word once, now.
    ///
    /// # Errors
    /// If the informer has ended: the handler was not added.
    pub fn add_handler(&self, mut handler: impl Handler<K>) -> Result<Registration, Stopped> {
        let options = handler.options();
        let name = options.name.clone().unwrap_or_else(|| handler.name().into_owned().into()).into_owned();
        let listener = self.listener(name, &options);
        let callback: Callback = Box::new(move |event: Event<evenkeel_core::Untyped>| handler.handle(event.cast()));
        self.join(&listener, &options, Some(HandlerRunner { callback, blocking: options.blocking }))?;
        Ok(Registration::new(self.core(), &listener))
    }

    /// Tells of everything as a stream, for those who would rather await than be called: what there is, then what happens.
    /// Dropping it is the end of it.
    ///
    /// # Errors
    /// If the informer has ended.
    pub fn subscribe(&self, options: HandlerOptions) -> Result<Subscription<K>, Stopped> {
        let number = self.core().subscriptions.fetch_add(1, Ordering::Relaxed) + 1;
        let name = options.name.clone().unwrap_or_else(|| format!("subscription-{number}").into()).into_owned();
        let listener = self.listener(name, &options);
        self.join(&listener, &options, None)?;
        Ok(Subscription::new(Arc::clone(&self.user), listener))
    }

    fn listener(&self, name: String, options: &HandlerOptions) -> Arc<Listener> {
        let metrics = HandlerMetrics::new(&self.core().identity, &name);
        let observers = Arc::clone(&self.core().observers);
        Arc::new(Listener::new(name, options.delivery, options.on_panic, metrics, observers))
    }

    fn join(
        &self,
        listener: &Arc<Listener>,
        options: &HandlerOptions,
        runner: Option<HandlerRunner>,
    ) -> Result<(), Stopped> {
        if self.core().join(&self.user, listener, options.resync, runner) {
            return Ok(());
        }
        Err(Stopped::new(self.name(), "a handler was not added to the informer"))
    }
}

/// Ends the informer when `run` is given up.
struct EndOnDrop<'a>(&'a Core);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop(Order::Stop);
    }
}

impl<K> DoneChecker for SharedInformer<K> {
    fn name(&self) -> Cow<'_, str> {
        format!("informer {}", self.name()).into()
    }

    fn is_done(&self) -> bool {
        self.has_synced()
    }

    fn done(&self) -> BoxFuture<'static, ()> {
        let mut lives = self.core().lives();
        Box::pin(async move {
            if lives.wait_for(|life| life.synced).await.is_err() {
                std::future::pending().await
            }
        })
    }
}

impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        SharedInformer { user: Arc::clone(&self.user), kind: PhantomData }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = self.core().life();
        f.debug_struct("SharedInformer")
            .field("name", &self.name())
            .field("phase", &life.phase)
            .field("has_synced", &life.synced)
            .field("observers", &self.core().observers.len())
            .finish_non_exhaustive()
    }
}
