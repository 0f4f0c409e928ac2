//! Informers of one factory and their handlers (WRK-8).

mod history;
mod watched;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::cache::handler::OnPanic;
use evenkeel::cache::informer::QueueKind;
use evenkeel::cache::source::BoxError;
use evenkeel::cache::{Event, Registration, Subscription, transform};
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel::{Delivery, Handler, HandlerOptions};
use evenkeel_base::task::scheduled;
use evenkeel_sim::{Process, Scenario, Workload};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::history::History;
use self::watched::{Expected, Watched};
use super::Outcome;

/// The objects, of which some exist.
const NAMES: u32 = 5;
/// The label that the indexes are about.
const GROUP: &str = "group";
/// What the transforms remove: a key of the data and an annotation.
const NOISE: &str = "noise";

const BOUNDED: &str = "bounded memory";
const STOP: &str = "stop means stop";

/// How long the informers may take to stop. No handler of theirs is slow.
const STOP_WITHIN: Duration = Duration::from_secs(1);
/// How often a handler is added late, or removed again.
const LATE_CHANGES: u32 = 8;

/// Creates, changes and deletes objects that enter and leave selections and change their index values.
async fn churn(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps("default");
    for round in 0..30 {
        let name = format!("map-{}", workload.choose(NAMES));
        let selected = if workload.choose(3) == 0 { "no" } else { "yes" };
        let metadata = json!({"labels": {"selected": selected, GROUP: format!("g{}", workload.choose(3))},
                              "annotations": {"kept": "yes", NOISE: format!("{round}")}});
        let mut map = json!({"metadata": metadata, "data": {"round": format!("{round}"), NOISE: "long"}});
        match workload.choose(4) {
            0 => drop(maps.delete(&name).await),
            _ => {
                if maps.patch(&name, &Patch::merge(&map)).await.is_err() {
                    map["metadata"]["name"] = name.into();
                    maps.create(&serde_json::from_value(map)?).await?;
                }
            }
        }
        sleep(Duration::from_millis(u64::from(workload.choose(8_000)))).await;
    }
    Ok(())
}

/// The tasks that the scenario itself runs in the process.
#[derive(Clone, Default)]
struct OwnTasks(Arc<AtomicUsize>);

impl OwnTasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let count = Arc::clone(&self.0);
        drop(tokio::spawn(scheduled(async move {
            task.await;
            count.fetch_sub(1, Ordering::Relaxed);
        })));
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A handler that checks its notifications, and may panic.
fn checked<K: 'static>(watched: &Watched<K>, history: &History, panics: bool) -> impl Handler<K> + use<K> {
    let (watched, history) = (watched.clone(), history.clone());
    move |event: Event<K>| {
        history.observe(&event);
        watched.check_event(&event);
        if panics {
            watched.process.may_panic();
        }
    }
}

/// As [`checked`], for a handler that is removed when it panics.
fn removed_by_panic<K: 'static>(watched: &Watched<K>, history: &History) -> impl Handler<K> + use<K> {
    let (mut handler, history) = (checked(watched, history, true), history.clone());
    let options = HandlerOptions::new().on_panic(OnPanic::Remove);
    let handler = move |event: Event<K>| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler.handle(event))) {
            history.stop();
            resume_unwind(panic);
        }
    };
    handler.with(options)
}

/// Takes notifications and needs this long for each, until the end of the run.
async fn consume<K: 'static>(process: Process, mut events: Subscription<K>, history: History, pause: Duration) {
    let mut shutdown = Box::pin(process.shutdown());
    loop {
        let event = tokio::select! {
            biased;
            () = &mut shutdown => return,
            event = events.next() => event,
        };
        let Some(event) = event else { return };
        history.observe(&event);
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = sleep(pause) => {}
        }
    }
}

/// A handler and its history.
struct Registered {
    registration: Registration,
    history: History,
}

/// Everything that one life of the process has.
struct Handlers {
    process: Process,
    own: OwnTasks,
    all: Watched<ConfigMap>,
    selected: Watched<ConfigMap>,
    metadata: Watched<PartialMetadata>,
    /// Handlers that must know all of the cache in the end.
    of_all: Vec<Registered>,
    of_selected: Vec<Registered>,
    of_metadata: Vec<Registered>,
    /// The handler that is removed when it panics.
    fragile: Registered,
    /// The slow subscription, whose pending notifications are bounded.
    slow: Registration,
    late: Option<Registered>,
}

type PartialMetadata = evenkeel::PartialObjectMetadata;

impl Handlers {
    fn new(process: &Process, factory: &InformerFactory) -> Result<Self, BoxError> {
        let all = Watched::new(process, "all", factory.of::<ConfigMap>());
        let selected = factory.selecting::<ConfigMap>("selected=yes", "").of::<ConfigMap>();
        let selected = Watched::new(process, "selected", selected);
        let metadata = Watched::new(process, "metadata", factory.metadata::<ConfigMap>());
        let own = OwnTasks::default();
        let add = |handler: &'static str, panics: bool, watched: &Watched<ConfigMap>| {
            watched.register(&own, handler, |history| checked(watched, history, panics))
        };
        let of_all = vec![add("plain", false, &all)?];
        let of_selected = vec![add("selecting", false, &selected)?, add("panicking", true, &selected)?];
        let of_metadata = vec![metadata.register(&own, "of metadata", |history| checked(&metadata, history, false))?];
        let fragile = all.register(&own, "removed by its panic", |history| removed_by_panic(&all, history))?;
        let slow = Self::subscribe(&own, &all, "slow", Delivery::Latest, 10_000 + process.choose(50_000))?;
        Self::subscribe(&own, &selected, "steady", Delivery::Every, process.choose(2_000))?;
        let process = process.clone();
        let late = None;
        Ok(Handlers { process, own, all, selected, metadata, of_all, of_selected, of_metadata, fragile, slow, late })
    }

    /// Starts a consumer that needs so many milliseconds for each notification.
    fn subscribe(
        own: &OwnTasks,
        watched: &Watched<ConfigMap>,
        handler: &'static str,
        delivery: Delivery,
        milliseconds: u32,
    ) -> Result<Registration, BoxError> {
        let subscription = watched.informer.subscribe(HandlerOptions::new().delivery(delivery))?;
        let registration = subscription.registration();
        let process = watched.process.clone();
        let history = match delivery {
            Delivery::Every => History::new(&process, handler),
            Delivery::Latest => History::merging(&process, handler),
        };
        own.spawn(consume(process, subscription, history, Duration::from_millis(u64::from(milliseconds))));
        Ok(registration)
    }

    /// Adds a handler to an informer that runs, or removes it.
    async fn change_late(&mut self) -> Outcome {
        if let Some(Registered { registration, history }) = self.late.take() {
            self.process.note("removes the late handler");
            registration.shutdown().await;
            history.stop();
            return Ok(());
        }
        self.process.note("adds a late handler");
        let (all, resync) = (&self.all, Duration::from_secs(u64::from(30 + self.process.choose(60))));
        let handler = |history: &History| checked(all, history, false).with(HandlerOptions::new().resync(resync));
        self.late = Some(all.register(&self.own, "late", handler)?);
        Ok(())
    }

    fn registered(&self) -> impl Iterator<Item = &Registered> {
        self.of_all.iter().chain(&self.of_selected).chain(&self.of_metadata).chain(&self.late)
    }

    /// Checks what is bounded at any time.
    fn check_bounds(&self) {
        self.all.check_bounds();
        self.selected.check_bounds();
        self.metadata.check_bounds();
        let pending = self.slow.lag().pending;
        // The one in progress counts, too.
        if pending > NAMES as usize + 1 {
            self.process.fail(BOUNDED, format!("{pending} notifications of {NAMES} objects are pending"));
        }
        // The process, three informers, and each handler.
        let handlers = self.registered().count() + usize::from(self.fragile.registration.is_active());
        let (expected, tasks) = (1 + 3 + handlers + self.own.count(), self.process.task_count());
        if tasks != expected {
            self.process.fail(BOUNDED, format!("{tasks} tasks instead of {expected}"));
        }
    }

    /// Checks caches and handlers when nothing has changed for long.
    async fn check_settled(&self) -> Outcome {
        for (name, queued) in [self.all.queued(), self.selected.queued(), self.metadata.queued()] {
            if queued > 0 {
                self.process.fail("liveness", format!("{name}: {queued} deltas are still queued"));
            }
        }
        for Registered { registration, .. } in self.registered().filter(|entry| !entry.registration.is_active()) {
            self.process.fail("panic isolation", format!("{} is not active any more", registration.name()));
        }
        let expected = Expected::read(self.process.client()).await?;
        self.all.check_converged(&expected.all);
        self.selected.check_converged(&expected.selected);
        self.metadata.check_converged(&expected.metadata);
        let cached = self.all.cached();
        self.of_all.iter().chain(&self.late).for_each(|entry| entry.history.check_complete(&cached));
        if self.fragile.registration.is_active() {
            self.fragile.history.check_complete(&cached);
        }
        let cached = self.selected.cached();
        self.of_selected.iter().for_each(|entry| entry.history.check_complete(&cached));
        let cached = self.metadata.cached();
        self.of_metadata.iter().for_each(|entry| entry.history.check_complete(&cached));
        Ok(())
    }

    fn histories(&self) -> impl Iterator<Item = &History> {
        self.registered().chain([&self.fragile]).map(|entry| &entry.history)
    }
}

/// Runs three informers and their handlers, and adds and removes one of them meanwhile.
async fn watch(process: Process) -> Outcome {
    let drop_data = transform::drop_paths([format!("data.{NOISE}")])?;
    let drop_annotation = transform::drop_annotations([NOISE])?;
    let factory = InformerFactory::builder(process.client())
        .resync(Duration::from_secs(60))
        .configure::<ConfigMap>(|maps| {
            let maps = maps.transform(move |map| Ok::<_, BoxError>(drop_data(map.cast())?.cast()));
            maps.index(Index::label(GROUP))
        })
        .configure_metadata(&process.client().resource::<ConfigMap>(), |metadata| {
            let metadata = metadata.queue(QueueKind::Keyed).resync(Duration::from_secs(45));
            let metadata = metadata.transform(move |map| Ok::<_, BoxError>(drop_annotation(map.cast())?.cast()));
            metadata.index(Index::label(GROUP))
        })
        .build();
    let mut handlers = Handlers::new(&process, &factory)?;
    let running = factory.start();
    let mut shutdown = Box::pin(process.shutdown());
    let mut changes = 0;
    loop {
        let pause = if changes < LATE_CHANGES { 1_000 + process.choose(30_000) } else { 60_000 };
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = sleep(Duration::from_millis(u64::from(pause))) => {}
        }
        handlers.check_bounds();
        if changes < LATE_CHANGES {
            changes += 1;
            handlers.change_late().await?;
        }
    }
    handlers.check_bounds();
    handlers.check_settled().await?;
    let stopped = Instant::now();
    running.stop().await;
    handlers.histories().for_each(History::stop);
    if stopped.elapsed() > STOP_WITHIN {
        process.fail(STOP, format!("the informers took {:?} to stop", stopped.elapsed()));
    }
    // Tasks that end now have a moment for it.
    sleep(STOP_WITHIN).await;
    if process.task_count() > 1 {
        process.fail(STOP, format!("{} tasks run after the informers have stopped", process.task_count() - 1));
    }
    Ok(())
}

/// Informers with different selectors, transforms and indexes, and handlers that are added late, removed, slow, or panic.
pub fn handlers() -> Scenario {
    Scenario::new("handlers")
        .process("handlers", watch)
        .workload(churn)
        .compare_final_state(false)
        .rough_for(Duration::from_secs(3 * 60))
        .stable_for(Duration::ZERO)
}
