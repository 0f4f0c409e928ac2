//! A controller whose replicas divide the objects (WRK-13).

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::client::Patch;
use evenkeel::helpers::set_controller_reference;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel::queue::limiter::Exponential;
use evenkeel::ring::Ring;
use evenkeel_sim::{ClusterState, Fault, Process, Scenario, Workload};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Outcome;

/// The names of the invariants.
const ONE_REPLICA: &str = "one replica per key";
const EPOCHS_RISE: &str = "epochs of a key rise";
const WRITES_ARE_SEEN: &str = "writes of the previous owner are seen";

const RING: &str = "sim";
/// Names whose places are far from each other.
const NAMESPACES: [&str; 8] = ["amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "harbour"];
const MAPS: [&str; 2] = ["one", "two"];
const REPLICAS: [&str; 4] = ["a", "b", "c", "d"];
const STATE: &str = "state";
/// The label of the state that a child is for.
const FOR_STATE: &str = "for-state";
/// Three lease durations, 12 s, and the drain limit: how long a slice has no owner after the last fault.
const OWNED_WITHIN: Duration = Duration::from_secs(3 * 15 + 12 + 30);
/// How long a request hangs at most: the last fault ends with it.
const HANGS: Duration = Duration::from_secs(60);
/// The longest reconcile, and the longest backoff of its key.
const LONGEST_WORK: Duration = Duration::from_secs(40);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Which replicas run. The workload scales them.
#[derive(Debug)]
struct Scale(watch::Sender<u8>);

impl Default for Scale {
    fn default() -> Self {
        Scale(watch::Sender::new(0b0011))
    }
}

impl Scale {
    /// Waits until a replica is to run, or is to stop.
    async fn wants(&self, replica: u8, is_wanted: bool) {
        let mut wanted = self.0.subscribe();
        // The sender is a field of `self`.
        let _ = wanted.wait_for(|wanted| (wanted & replica != 0) == is_wanted).await;
    }
}

/// What all replicas have done, by key.
#[derive(Debug, Default)]
struct History(Mutex<HistoryState>);

#[derive(Debug, Default)]
struct HistoryState {
    last_visit: u64,
    keys: BTreeMap<String, KeyHistory>,
    /// Who has created the child of a state of an object, and has received the response.
    children: BTreeMap<(String, String), Arc<str>>,
}

#[derive(Debug, Default)]
struct KeyHistory {
    /// The last replica that has started a reconcile, and its epoch.
    last: Option<(Arc<str>, u64)>,
    visits: Vec<VisitState>,
}

/// A reconcile that was started and not dropped.
#[derive(Debug)]
struct VisitState {
    number: u64,
    replica: Arc<str>,
    /// Another replica that has polled a reconcile of the key since this one was started.
    overlapped_by: Option<Arc<str>>,
}

impl History {
    fn lock(&self) -> MutexGuard<'_, HistoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run of the controller.
#[derive(Clone)]
struct Replica {
    process: Process,
    /// The process, its life, and the number of the run in it.
    name: Arc<str>,
    history: Arc<History>,
}

/// One reconcile, in the history of its key.
struct Visit {
    replica: Replica,
    key: String,
    number: u64,
}

impl Visit {
    /// Starts a reconcile. Its epoch is higher than those of all other owners before it.
    fn start(replica: &Replica, ctx: &Context) -> Self {
        let (key, process) = (ctx.key().to_string(), &replica.process);
        // Read in the poll that follows the check of the guard.
        let epoch = ctx.fence().map_or(0, |fence| fence.epoch);
        process.note(format!("reconciles {key} in epoch {epoch}"));
        let mut state = replica.history.lock();
        state.last_visit += 1;
        let number = state.last_visit;
        let of_key = state.keys.entry(key.clone()).or_default();
        let before = of_key.last.replace((Arc::clone(&replica.name), epoch));
        of_key.visits.push(VisitState { number, replica: Arc::clone(&replica.name), overlapped_by: None });
        drop(state);
        let (before, last) = before.unwrap_or_else(|| (Arc::clone(&replica.name), 0));
        if last > epoch || epoch == 0 || (last == epoch && before != replica.name) {
            let name = &replica.name;
            process.fail(EPOCHS_RISE, format!("{name} has {key} in epoch {epoch}, and {before} had it in {last}"));
        }
        Visit { replica: replica.clone(), key, number }
    }

    /// Notes that the reconcile is polled. Between its first and its last poll no other replica polls one of this key. A process that is
    /// paused, or has crashed, polls nothing, and one that continues drops what it may not poll.
    fn note_poll(&self) {
        let mut state = self.replica.history.lock();
        let mut overlap = None;
        for visit in &mut state.keys.entry(self.key.clone()).or_default().visits {
            if visit.number == self.number {
                overlap.clone_from(&visit.overlapped_by);
            } else if visit.replica != self.replica.name {
                visit.overlapped_by = Some(Arc::clone(&self.replica.name));
            }
        }
        drop(state);
        if let Some(other) = overlap {
            let (key, name) = (&self.key, &self.replica.name);
            self.replica.process.fail(ONE_REPLICA, format!("{key} is reconciled by {name} and {other} at once"));
        }
    }

    /// Runs the work of the reconcile.
    async fn run<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.note_poll();
            work.as_mut().poll(context)
        })
        .await
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(of_key) = self.replica.history.lock().keys.get_mut(&self.key) {
            of_key.visits.retain(|visit| visit.number != self.number);
        }
    }
}

/// Takes between no time and longer than the drain limit. Some work ends early when the key moves.
async fn work(process: &Process, ctx: &Context) {
    let milliseconds = match process.choose(8) {
        0..=2 => 0,
        3 | 4 => process.choose(100),
        5 | 6 => process.choose(5_000),
        _ => process.choose(u32::try_from(LONGEST_WORK.as_millis()).unwrap_or(u32::MAX)),
    };
    let work = sleep(Duration::from_millis(u64::from(milliseconds)));
    if process.choose(2) == 0 {
        return work.await;
    }
    tokio::select! {
        biased;
        () = work => {}
        () = ctx.cancelled() => {}
    }
}

fn state_of(map: &Obj<ConfigMap>) -> Result<String, ReconcileError> {
    Ok(map.typed()?.data.as_ref().and_then(|data| data.get(STATE).cloned()).unwrap_or_default())
}

/// Creates one child with a generated name for each state of an object. It looks at its cache, and relies on that it shows its own
/// writes and those of the previous owner.
async fn create_child(replica: &Replica, map: Obj<ConfigMap>, ctx: &Context) -> Result<Next, ReconcileError> {
    let Replica { process, name: own, history } = replica;
    let (namespace, name) = (map.key().namespace().unwrap_or_default(), map.key().name());
    let state = state_of(&map)?;
    work(process, ctx).await;
    let has_child = ctx.lister::<Secret>()?.list_all().iter().any(|child| {
        child.controller().is_some_and(|owner| owner.uid == map.uid()) && child.label(FOR_STATE) == Some(&*state)
    });
    if has_child {
        return Ok(Next::done());
    }
    // The child of an object that only a stale cache still shows would be collected as garbage, and created again, without end.
    match ctx.api::<ConfigMap>().namespace(namespace).get(name).await {
        Ok(current) if current.uid() == map.uid() => {}
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => return Ok(Next::after(Duration::from_secs(5))),
    }
    let of = (map.uid().to_owned(), state.clone());
    // A creation whose response was lost, or that was sent before a crash, is not in the history, and may have its effect later.
    if let Some(creator) = history.lock().children.get(&of).cloned() {
        let message =
            format!("{own} does not see the child of {} for state {state} that {creator} has created", map.key());
        process.fail(WRITES_ARE_SEEN, message);
    }
    let mut child = Secret::default();
    child.metadata.generate_name = Some(format!("{name}-"));
    child.metadata.namespace = Some(namespace.to_owned());
    child.metadata.labels = Some(BTreeMap::from([(FOR_STATE.to_owned(), state)]));
    set_controller_reference(&mut child, &map)?;
    ctx.api::<Secret>().namespace(namespace).create(&child).await?;
    history.lock().children.insert(of, Arc::clone(own));
    work(process, ctx).await;
    Ok(Next::done())
}

/// Runs the controller until it is to stop.
async fn replicate(replica: Replica, stop: impl Future<Output = ()> + Send) -> Outcome {
    let client = replica.process.client();
    let ring = Ring::new(client, RING).identity(replica.process.name()).namespace("default");
    let controller = Controller::<ConfigMap>::new(client)
        .owns::<Secret>()
        .concurrency(4)
        .limiter(Exponential::new(Duration::from_millis(5), LONGEST_BACKOFF))
        // A cache may be late for longer than the usual limit.
        .own_writes(Duration::from_secs(3600))
        .sharded_in(ring);
    let reconcile = move |map: Obj<ConfigMap>, ctx: Context| {
        let replica = replica.clone();
        async move { Visit::start(&replica, &ctx).run(create_child(&replica, map, &ctx)).await }
    };
    Ok(controller.run(stop, reconcile).await?)
}

/// Runs the controller whenever the workload wants this replica.
async fn run(process: Process) -> Outcome {
    let (scale, history) = (process.shared::<Scale>(), process.shared::<History>());
    let number = REPLICAS.iter().position(|name| *name == process.name()).unwrap_or_default();
    let replica = 1_u8 << number;
    for run in 1.. {
        tokio::select! {
            biased;
            () = process.shutdown() => break,
            () = scale.wants(replica, true) => {}
        }
        let stop = async {
            tokio::select! {
                biased;
                () = process.shutdown() => {}
                () = scale.wants(replica, false) => {}
            }
        };
        let name = format!("{}.{}.{run}", process.name(), process.life()).into();
        replicate(Replica { process: process.clone(), name, history: Arc::clone(&history) }, stop).await?;
    }
    Ok(())
}

fn map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {STATE: "0"}})
}

/// Changes, deletes and creates objects, and scales the replicas.
async fn change(workload: Workload) -> Outcome {
    let scale = workload.shared::<Scale>();
    let some_seconds = || sleep(Duration::from_millis(u64::from(1 + workload.choose(6_000))));
    scale.0.send_replace([0b0011, 0b0111, 0b1111][workload.choose(3) as usize]);
    for round in 1..=14_u32 {
        some_seconds().await;
        let namespace = NAMESPACES[workload.choose(NAMESPACES.len() as u32) as usize];
        let name = MAPS[workload.choose(MAPS.len() as u32) as usize];
        let maps = workload.client().core_v1().config_maps(namespace);
        match workload.choose(8) {
            0..=3 => {
                let changed = Patch::merge(&json!({"data": {STATE: round.to_string()}}));
                maps.patch(name, &changed).await?;
            }
            4 => {
                maps.delete(name).await?;
                some_seconds().await;
                maps.create(&serde_json::from_value(map(namespace, name))?).await?;
            }
            // Replicas are added or removed.
            5 | 6 => {
                scale.0.send_replace([0b0001, 0b0011, 0b0111, 0b1111, 0b1100, 0b1010][workload.choose(6) as usize]);
            }
            // A rolling replacement.
            _ => {
                let wanted = *scale.0.borrow();
                for replica in (0..REPLICAS.len()).map(|number| 1_u8 << number).filter(|replica| wanted & replica != 0)
                {
                    scale.0.send_replace(wanted & !replica);
                    some_seconds().await;
                    scale.0.send_replace(wanted);
                    some_seconds().await;
                }
            }
        }
    }
    // Few heartbeats make the rest of the run cheap.
    scale.0.send_replace([0b0011, 0b0001][workload.choose(2) as usize]);
    Ok(())
}

fn all_have_their_child(state: &ClusterState) -> Result<(), String> {
    for map in state.objects("configmaps") {
        let is_child = |child: &Value| {
            child["metadata"]["ownerReferences"][0]["uid"] == map["metadata"]["uid"]
                && child["metadata"]["labels"][FOR_STATE] == map["data"][STATE]
        };
        if !state.objects("secrets").any(is_child) {
            let (namespace, name) = (&map["metadata"]["namespace"], &map["metadata"]["name"]);
            return Err(format!("{namespace}/{name} has no child for state {}", map["data"][STATE]));
        }
    }
    Ok(())
}

fn scenario(name: &str) -> Scenario {
    let namespaces =
        NAMESPACES.iter().map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let maps = NAMESPACES.iter().flat_map(|namespace| MAPS.iter().map(|name| map(namespace, name)));
    let scenario = namespaces.chain(maps).fold(Scenario::new(name), Scenario::object);
    REPLICAS
        .iter()
        .fold(scenario, |scenario, replica| scenario.process(*replica, run))
        .workload(change)
        .rough_for(Duration::from_secs(90))
        .stable_for(Duration::ZERO)
        .compare_final_state(false)
        .finally("every object has its child", all_have_their_child)
}

/// Faults of requests, processes and the network: those of watches can hide an object for as long as a watch lasts.
const FAULTS: [Fault; 15] = [
    Fault::TooManyRequests,
    Fault::ServerError,
    Fault::Refused,
    Fault::Unauthenticated,
    Fault::Slow,
    Fault::Hangs,
    Fault::Compaction,
    Fault::ServerRestarts,
    Fault::ResponseLost,
    Fault::WriteLost,
    Fault::Rival,
    Fault::ClockJumps,
    Fault::Partition,
    Fault::Crash,
    Fault::Pause,
];

/// Replicas that divide the objects, are scaled, and are replaced. After the last fault every object is soon reconciled.
pub fn sharded() -> Scenario {
    scenario("sharded").faults(FAULTS).settle_within(OWNED_WITHIN + HANGS + LONGEST_WORK + LONGEST_BACKOFF)
}

/// The same with all faults, also of watches.
pub fn sharded_caches() -> Scenario {
    scenario("sharded-caches")
}
