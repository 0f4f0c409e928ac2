//! The replicas of the demo, their server and their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::apiserver::ApiServer;
use evenkeel::client::{Client, Error, Patch};
use evenkeel::core::{Obj, ObjectKey};
use evenkeel::helpers::controller_reference;
use evenkeel::inspect::Inspector;
use evenkeel::ring::{Ring, RingHandle};
use evenkeel::{Context, Controller, Next, ReconcileError};
use evenkeel_sample_controller::{CRD, Foo, FooSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::super::environment::{connect, explain};
use super::division::Division;
use super::plan;
use super::record::{ReconcileRecord, ReplicaId};
use crate::Failure;

/// Name of the ring.
pub(super) const RING: &str = "demo";
/// Namespace of its Leases.
pub(super) const NAMESPACE: &str = "default";
/// The label of ConfigMaps: the replica that wrote them.
pub(super) const BY: &str = "written-by";
/// The field of ConfigMaps that follows the Foo.
pub(super) const REPLICAS: &str = "replicas";
/// Number of workers of each replica.
const WORKERS: usize = 8;
/// Duration of a reconcile beside its writes, so that one that is not stopped in time would be seen.
const WORK: Duration = Duration::from_millis(10);
/// Number of tasks that change objects, and the pause between two changes of one of them.
const WRITERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(40);
/// The numbers of changes end here; then they start again.
const MOST_CHANGES: i64 = 1000;
/// Time limit of a replica that leaves.
const LONGEST_LEAVE: Duration = Duration::from_secs(20);

/// Settings of the ring: short, so that a crash costs seconds.
fn ring(client: &Client, identity: &str, build: &str) -> Ring {
    let seconds = Duration::from_secs;
    Ring::new(client, RING)
        .namespace(NAMESPACE)
        .identity(identity)
        .build(build)
        .lease_duration(seconds(5))
        .renew_deadline(seconds(3))
        .heartbeat(seconds(1))
        .grace(seconds(1))
        .settle(seconds(1))
        .drain_limit(seconds(3))
}

/// The record of all reconciles, and the time in it.
#[derive(Clone, Debug)]
pub(super) struct SharedRecord {
    record: Arc<Mutex<ReconcileRecord>>,
    start: Instant,
}

impl SharedRecord {
    fn new() -> Self {
        SharedRecord { record: Arc::default(), start: Instant::now() }
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ReconcileRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, key: &ObjectKey, replica: ReplicaId) -> RunningReconcile {
        self.lock().enter(key, replica);
        RunningReconcile { record: self.clone(), key: key.clone(), replica }
    }
}

/// A reconcile that runs. It ends when this is dropped, also with the tasks of a crashed replica.
struct RunningReconcile {
    record: SharedRecord,
    key: ObjectKey,
    replica: ReplicaId,
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.record.lock().exit(&self.key, self.replica);
    }
}

/// A replica: a controller with a client and a membership of its own.
pub(super) struct Replica {
    pub(super) id: ReplicaId,
    pub(super) identity: String,
    ring: RingHandle,
    quit: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), Failure>>,
}

/// Everything that runs. [`stop`](Self::stop) stops it in order.
pub(super) struct Fleet {
    pub(super) server: ApiServer,
    pub(super) client: Client,
    pub(super) inspector: Inspector,
    pub(super) record: SharedRecord,
    pub(super) replicas: Vec<Replica>,
    pub(super) leaving: Option<String>,
    pub(super) crashed: BTreeSet<String>,
    /// Number of replicas that were started.
    started: usize,
    objects: Vec<ObjectKey>,
    writers: JoinSet<Result<(), Error>>,
    are_writers_stopping: Arc<AtomicBool>,
}

impl Fleet {
    /// Starts the server and creates the objects.
    pub(super) async fn start(listen: SocketAddr, objects: u32) -> Result<Self, Failure> {
        let server = ApiServer::builder().listen(listen).sharded_lists(true).start().await.map_err(explain)?;
        server.install_crds([CRD]).await?;
        let client = connect(&server, "writer", Arc::default())?;
        for name in plan::namespaces(objects) {
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            client.api::<Namespace>().create(&Namespace { metadata, ..Namespace::default() }).await?;
        }
        let record = SharedRecord::new();
        let mut keys = Vec::new();
        for (namespace, name) in plan::objects(objects) {
            let key = ObjectKey::namespaced(&namespace, &name);
            let mut foo = Foo::new(&name, FooSpec { deployment_name: name.clone(), replicas: 0 });
            foo.metadata.namespace = Some(namespace.clone());
            record.lock().changed(&key, 0, record.now());
            client.api::<Foo>().namespace(&namespace).create(&foo).await?;
            keys.push(key);
        }
        Ok(Fleet {
            server,
            client,
            inspector: Inspector::new(),
            record,
            replicas: Vec::new(),
            leaving: None,
            crashed: BTreeSet::new(),
            started: 0,
            objects: keys,
            writers: JoinSet::new(),
            are_writers_stopping: Arc::default(),
        })
    }

    /// Starts to change the objects, over and over.
    pub(super) fn start_writers(&mut self) {
        self.are_writers_stopping = Arc::default();
        for part in 0..WRITERS.min(self.objects.len()) {
            let objects = self.objects.iter().skip(part).step_by(WRITERS).cloned().collect();
            let is_stopping = Arc::clone(&self.are_writers_stopping);
            self.writers.spawn(change(self.client.clone(), self.record.clone(), objects, is_stopping));
        }
    }

    /// Stops the writers after the change that each of them has in flight: whether a dropped request was applied is not known.
    pub(super) async fn stop_writers(&mut self) {
        self.are_writers_stopping.store(true, Ordering::Relaxed);
        let ended = async { while self.writers.join_next().await.is_some() {} };
        if timeout(LONGEST_LEAVE, ended).await.is_err() {
            self.writers.shutdown().await;
        }
    }

    /// Starts a replica, which joins the ring.
    pub(super) fn start_replica(&mut self, build: &str) -> Result<String, Failure> {
        self.started += 1;
        let id = self.started;
        let identity = format!("replica-{id}");
        let client = connect(&self.server, &identity, Arc::default())?;
        let ring = ring(&client, &identity, build);
        let handle = ring.handle();
        let controller = Controller::<Foo>::new(&client)
            .named(&*identity)
            .owns::<ConfigMap>()
            .concurrency(WORKERS)
            .inspector(&self.inspector)
            .sharded_in(ring);
        let (record, name) = (self.record.clone(), identity.clone());
        let (quit, stop) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            let reconcile = move |foo, context| reconcile(foo, context, record.clone(), id, name.clone());
            // The fleet was dropped; the error is expected.
            controller.run(async move { drop(stop.await) }, reconcile).await.map_err(Failure::from)
        });
        self.replicas.push(Replica { id, identity: identity.clone(), ring: handle, quit, ended });
        Ok(identity)
    }

    /// Drops the tasks of the youngest replica. Its Lease stays as it is.
    pub(super) async fn crash(&mut self) -> Option<String> {
        let replica = self.replicas.pop()?;
        replica.ended.abort();
        // It was cancelled, which is an error.
        let _ = replica.ended.await;
        self.crashed.insert(replica.identity.clone());
        Some(replica.identity)
    }

    /// Returns a replica that is about to [leave](Replica::leave).
    pub(super) fn leave(&mut self, index: usize) -> Replica {
        let replica = self.replicas.remove(index);
        self.leaving = Some(replica.identity.clone());
        replica
    }

    /// Returns the identities of the replicas that run and stay.
    pub(super) fn live(&self) -> BTreeSet<String> {
        self.replicas.iter().map(|replica| replica.identity.clone()).collect()
    }

    /// Returns the identities of the replicas that run.
    pub(super) fn working(&self) -> BTreeSet<String> {
        self.live().into_iter().chain(self.leaving.clone()).collect()
    }

    /// Returns the number of objects.
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Returns the newest table that a replica has.
    pub(super) fn division(&self) -> Option<Division> {
        let tables = self.replicas.iter().filter_map(|replica| replica.ring.table());
        tables.max_by_key(|table| table.revision).map(|table| Division::of(&table))
    }

    /// Returns the error of what has ended although nothing stopped it.
    pub(super) async fn failure(&mut self) -> Option<Failure> {
        if let Some(ended) = self.writers.try_join_next() {
            let why = match ended {
                Ok(Ok(())) => "no reason".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            return Some(format!("a change of an object failed: {why}").into());
        }
        let index = self.replicas.iter().position(|replica| replica.ended.is_finished())?;
        let replica = self.replicas.remove(index);
        Some(match replica.ended.await {
            Ok(Err(error)) => format!("{} has ended: {error}", replica.identity).into(),
            _ => format!("{} has ended", replica.identity).into(),
        })
    }

    /// Stops everything in order: writers, replicas, server.
    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        self.stop_writers().await;
        let mut leaving: JoinSet<_> = self.replicas.drain(..).map(Replica::leave).collect();
        let mut outcome = Ok(());
        while let Some(left) = leaving.join_next().await {
            outcome = outcome.and(left.map_err(Failure::from).flatten());
        }
        self.server.shutdown().await;
        outcome
    }
}

impl Replica {
    /// Stops the replica, which leaves the ring.
    pub(super) async fn leave(self) -> Result<(), Failure> {
        // It may have ended with an error, which is returned below.
        let _ = self.quit.send(());
        let identity = self.identity;
        match timeout(LONGEST_LEAVE, self.ended).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(format!("{identity} did not leave in order: {error}").into()),
            Ok(Err(error)) => Err(format!("{identity} did not leave in order: {error}").into()),
            Err(_) => Err(format!("{identity} did not leave within {LONGEST_LEAVE:?}").into()),
        }
    }
}

/// Makes the ConfigMap of a Foo follow it.
async fn reconcile(
    foo: Obj<Foo>,
    context: Context,
    record: SharedRecord,
    id: ReplicaId,
    identity: String,
) -> Result<Next, ReconcileError> {
    let key = foo.key().clone();
    let _running = record.enter(&key, id);
    let number = foo.typed()?.spec.replicas;
    let wanted = number.to_string();
    let maps = context.api::<ConfigMap>().namespace(key.namespace().unwrap_or_default());
    match context.lister::<ConfigMap>()?.get(&key) {
        None => {
            let metadata = ObjectMeta {
                name: Some(key.name().to_owned()),
                labels: Some(BTreeMap::from([(BY.to_owned(), identity)])),
                owner_references: Some(vec![controller_reference(&foo)?]),
                ..ObjectMeta::default()
            };
            let data = Some(BTreeMap::from([(REPLICAS.to_owned(), wanted)]));
            maps.create(&ConfigMap { metadata, data, ..ConfigMap::default() }).await?;
        }
        Some(map) if map.typed()?.data.as_ref().and_then(|data| data.get(REPLICAS)) != Some(&wanted) => {
            let patch = json!({
                "metadata": {"resourceVersion": map.resource_version(), "labels": {BY: identity}},
                "data": {REPLICAS: wanted},
            });
            maps.patch(key.name(), &Patch::merge(&patch)).await?;
        }
        Some(_) => {}
    }
    sleep(WORK).await;
    record.lock().finish(&key, id, number.into(), record.now());
    Ok(Next::done())
}

/// Changes objects, one after the other, except those whose last change is not reconciled.
async fn change(
    client: Client,
    record: SharedRecord,
    objects: Vec<ObjectKey>,
    is_stopping: Arc<AtomicBool>,
) -> Result<(), Error> {
    let mut pace = interval(PAUSE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        number = (number + 1) % MOST_CHANGES;
        for key in &objects {
            pace.tick().await;
            if is_stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            if record.lock().is_pending(key) {
                continue;
            }
            record.lock().changed(key, number, record.now());
            let patch = Patch::merge(&json!({"spec": {"replicas": number}}));
            client.api::<Foo>().namespace(key.namespace().unwrap_or_default()).patch(key.name(), &patch).await?;
        }
    }
}
