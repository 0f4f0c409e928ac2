//! Controllers whose replicas divide the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{Namespace, Node};

use super::*;
use crate::ring::{Ring, RingError, ShardBy};

const NAMESPACES: usize = 24;

/// Which replica reconciles which key, and what was seen so far.
#[derive(Clone, Default)]
struct Watched(Arc<WatchedInner>);

#[derive(Default)]
struct WatchedInner {
    active: Mutex<BTreeMap<String, &'static str>>,
    overlaps: AtomicUsize,
    done: Mutex<Vec<(&'static str, String)>>,
}

/// A reconcile that runs. It ends when this is dropped.
struct Active(Watched, String);

impl Watched {
    fn enter(&self, replica: &'static str, key: &ObjectKey) -> Active {
        let other = self.0.active.lock().unwrap().insert(key.to_string(), replica);
        if other.is_some() {
            self.0.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        Active(self.clone(), key.to_string())
    }

    fn finish(&self, replica: &'static str, key: &ObjectKey) {
        self.0.done.lock().unwrap().push((replica, key.to_string()));
    }

    /// Returns the replicas that have reconciled each key since the last call.
    fn take(&self) -> BTreeMap<String, BTreeSet<&'static str>> {
        let mut by_key: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
        for (replica, key) in self.0.done.lock().unwrap().drain(..) {
            by_key.entry(key).or_default().insert(replica);
        }
        by_key
    }

    fn overlaps(&self) -> usize {
        self.0.overlaps.load(Ordering::Relaxed)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.0.active.lock().unwrap().remove(&self.1);
    }
}

async fn namespaced_parents(client: &Client) {
    for number in 0..NAMESPACES {
        let name = format!("team-{number}");
        let namespace: Namespace = value(json!({"metadata": {"name": name}}));
        client.api::<Namespace>().create(&namespace).await.unwrap();
        let maps = client.api::<ConfigMap>().namespace(&name);
        maps.create(&value(json!({"metadata": {"name": "a"}}))).await.unwrap();
    }
}

async fn touch_all(client: &Client, text: &str) {
    for number in 0..NAMESPACES {
        let patch = evenkeel_client::Patch::merge(&json!({"data": {"touched": text}}));
        client.api::<ConfigMap>().namespace(&format!("team-{number}")).patch("a", &patch).await.unwrap();
    }
}

/// Starts a replica whose reconciles take some time.
fn replica(client: &Client, ring: Ring, name: &'static str, took: Duration, watched: &Watched) -> Running {
    let watched = watched.clone();
    let built = Controller::<ConfigMap>::new(client)
        .fields("metadata.name=a")
        .owns::<Secret>()
        .concurrency(8)
        .named("divided")
        .sharded_in(ring);
    start(built, move |map, ctx| {
        let watched = watched.clone();
        async move {
            let _active = watched.enter(name, map.key());
            assert!(ctx.fence().is_some());
            pass(took).await;
            watched.finish(name, map.key());
            Ok(Next::done())
        }
    })
}

fn ring(client: &Client, identity: &str) -> Ring {
    Ring::new(client, "divided").identity(identity).namespace("default")
}

/// Returns how many keys each replica reconciles now, after checking that all keys are, each by one.
async fn shares(client: &Client, watched: &Watched, text: &str) -> BTreeMap<&'static str, usize> {
    watched.take();
    touch_all(client, text).await;
    pass(secs(5)).await;
    let by_key = watched.take();
    let mut shares = BTreeMap::new();
    for (key, replicas) in &by_key {
        assert_eq!(replicas.len(), 1, "{key}: {replicas:?}");
        *shares.entry(*replicas.first().unwrap()).or_default() += 1;
    }
    assert_eq!(by_key.len(), NAMESPACES, "{shares:?}");
    shares
}

#[tokio::test(start_paused = true)]
async fn shr_068_replicas_divide_the_objects_and_take_over_from_each_other() {
    let server = server().await;
    let client = server.client();
    namespaced_parents(&client).await;
    let watched = Watched::default();
    let first = replica(&client, ring(&client, "a"), "a", ms(200), &watched);
    pass(secs(30)).await;
    assert_eq!(shares(&client, &watched, "alone").await, BTreeMap::from([("a", NAMESPACES)]));

    // A replica joins. While slices move, objects change.
    let second = replica(&client, ring(&client, "b"), "b", ms(200), &watched);
    for round in 0..30 {
        touch_all(&client, &format!("joining {round}")).await;
        pass(secs(1)).await;
    }
    let divided = shares(&client, &watched, "two").await;
    assert!(divided.get("a").is_some_and(|&share| share > 0), "{divided:?}");
    assert!(divided.get("b").is_some_and(|&share| share > 0), "{divided:?}");

    // One leaves, the other has everything at once.
    first.end().await.unwrap();
    pass(secs(3)).await;
    assert_eq!(shares(&client, &watched, "left").await, BTreeMap::from([("b", NAMESPACES)]));

    // One crashes: the other waits until its Lease has expired.
    let third = replica(&client, ring(&client, "c"), "c", ms(200), &watched);
    pass(secs(60)).await;
    second.ended.abort();
    pass(secs(40)).await;
    assert_eq!(shares(&client, &watched, "crashed").await, BTreeMap::from([("c", NAMESPACES)]));
    third.end().await.unwrap();
    assert_eq!(watched.overlaps(), 0, "a key was reconciled by two replicas at once");
}

#[tokio::test(start_paused = true)]
async fn shr_033_a_slow_reconcile_ends_before_its_key_moves() {
    let server = server().await;
    let client = server.client();
    namespaced_parents(&client).await;
    let watched = Watched::default();
    let first = replica(&client, ring(&client, "a"), "a", secs(8), &watched);
    pass(secs(60)).await;
    let second = replica(&client, ring(&client, "b"), "b", secs(8), &watched);
    for round in 0..20 {
        touch_all(&client, &round.to_string()).await;
        pass(secs(4)).await;
    }
    pass(secs(60)).await;
    let by_key = watched.take();
    assert_eq!(by_key.len(), NAMESPACES);
    assert!(by_key.values().any(|replicas| replicas.contains("b")), "slices have moved");
    assert_eq!(watched.overlaps(), 0);
    first.end().await.unwrap();
    second.end().await.unwrap();
}

/// The caches of a replica have the objects of its namespaces only, in all kinds that follow the ring.
#[tokio::test(start_paused = true)]
async fn shr_049_and_shm_008_caches_have_the_objects_of_a_replica() {
    let server = server().await;
    let client = server.client();
    namespaced_parents(&client).await;
    for number in 0..NAMESPACES {
        let secrets = client.api::<Secret>().namespace(&format!("team-{number}"));
        secrets.create(&value(json!({"metadata": {"name": "s"}}))).await.unwrap();
    }
    client.api::<Node>().create(&value(json!({"metadata": {"name": "n"}}))).await.unwrap();
    let seen: Arc<Mutex<BTreeMap<&'static str, [usize; 4]>>> = Arc::default();
    let started = ["a", "b"].map(|name| {
        let seen = Arc::clone(&seen);
        let built = Controller::<ConfigMap>::new(&client)
            .fields("metadata.name=a")
            .owns::<Secret>()
            .reads::<Node>()
            .source(Source::<k8s_openapi::api::core::v1::ServiceAccount>::of().everywhere())
            .named("caches")
            .sharded_in(ring(&client, name));
        start(built, move |map, ctx| {
            let seen = Arc::clone(&seen);
            async move {
                let namespace = map.key().namespace().unwrap_or_default().to_owned();
                assert!(ctx.lister::<Secret>()?.get(ObjectKey::namespaced(&namespace, "s")).is_some());
                let sizes = [
                    ctx.lister::<ConfigMap>()?.list_all().len(),
                    ctx.lister::<Secret>()?.list_all().len(),
                    ctx.lister::<Node>()?.list_all().len(),
                    ctx.lister::<k8s_openapi::api::core::v1::ServiceAccount>()?.list_all().len(),
                ];
                seen.lock().unwrap().insert(name, sizes);
                Ok(Next::done())
            }
        })
    });
    pass(secs(120)).await;
    touch_all(&client, "settled").await;
    pass(secs(5)).await;
    let seen = seen.lock().unwrap().clone();
    let [[maps_a, secrets_a, nodes_a, accounts_a], [maps_b, secrets_b, nodes_b, accounts_b]] =
        ["a", "b"].map(|name| seen[name]);
    assert_eq!(maps_a + maps_b, NAMESPACES, "{seen:?}");
    assert_eq!((maps_a, maps_b), (secrets_a, secrets_b), "owned objects are where their namespace is");
    assert!(maps_a > 0 && maps_b > 0, "{seen:?}");
    assert_eq!((nodes_a, nodes_b), (1, 1), "kinds without a namespace are everywhere");
    assert!(accounts_a >= NAMESPACES && accounts_a == accounts_b, "{seen:?}");
    for running in started {
        running.end().await.unwrap();
    }
}

/// A replica that gains a key sees what the previous one wrote.
#[tokio::test(start_paused = true)]
async fn shr_036_the_next_owner_sees_what_the_previous_one_wrote() {
    let server = server().await;
    let client = server.client();
    namespaced_parents(&client).await;
    let made = Arc::new(AtomicUsize::new(0));
    let replica = |name: &str| {
        let made = Arc::clone(&made);
        let built = Controller::<ConfigMap>::new(&client)
            .fields("metadata.name=a")
            .owns::<Secret>()
            .concurrency(4)
            .named("children")
            .sharded_in(ring(&client, name));
        start(built, move |map, ctx| {
            let made = Arc::clone(&made);
            async move {
                let namespace = map.key().namespace().unwrap_or_default().to_owned();
                let touched = map.typed()?.data.clone().unwrap_or_default().remove("touched").unwrap_or_default();
                let secrets = ctx.lister::<Secret>()?.list_all();
                let has_child = secrets.iter().any(|secret| {
                    secret.key().namespace() == Some(&namespace) && secret.label("for") == Some(&touched)
                });
                if !has_child {
                    made.fetch_add(1, Ordering::Relaxed);
                    let child: Secret = value(
                        json!({"metadata": {"generateName": "c-", "labels": {"for": touched}, "ownerReferences": [owner(&map)]}}),
                    );
                    ctx.api::<Secret>().namespace(&namespace).create(&child).await?;
                }
                Ok(Next::done())
            }
        })
    };
    let mut replicas = vec![replica("a")];
    pass(secs(30)).await;
    let rounds = 24;
    for round in 0..rounds {
        if round == 4 || round == 8 {
            replicas.push(replica(["b", "c"][round / 8]));
        }
        if round == 16 {
            replicas.remove(0).end().await.unwrap();
        }
        touch_all(&client, &round.to_string()).await;
        // Reconciles of the last change are under way while slices move.
        pass(ms(50)).await;
        pass(secs(3)).await;
    }
    pass(secs(60)).await;
    let expected: usize = {
        let secrets = client.api::<Secret>().list(&Default::default()).await.unwrap();
        let pairs: BTreeSet<(String, String)> = secrets
            .iter()
            .filter_map(|secret| Some((secret.key().namespace()?.to_owned(), secret.label("for")?.to_owned())))
            .collect();
        assert_eq!(
            pairs.len(),
            secrets.iter().filter(|secret| secret.label("for").is_some()).count(),
            "a child was made twice"
        );
        pairs.len()
    };
    assert_eq!(made.load(Ordering::Relaxed), expected);
    for running in replicas {
        running.end().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn shr_032_a_moved_key_cancels_its_reconcile_at_half_of_the_drain_limit() {
    let server = server().await;
    let client = server.client();
    namespaced_parents(&client).await;
    let cancelled = Arc::new(AtomicUsize::new(0));
    let patient = {
        let cancelled = Arc::clone(&cancelled);
        let built = Controller::<ConfigMap>::new(&client)
            .fields("metadata.name=a")
            .concurrency(NAMESPACES)
            .named("patient")
            .sharded_in(ring(&client, "a"));
        start(built, move |_, ctx| {
            let cancelled = Arc::clone(&cancelled);
            async move {
                ctx.cancelled().await;
                assert!(ctx.is_cancelled());
                cancelled.fetch_add(1, Ordering::Relaxed);
                Ok(Next::done())
            }
        })
    };
    pass(secs(30)).await;
    assert_eq!(cancelled.load(Ordering::Relaxed), 0);
    let watched = Watched::default();
    let second = replica(&client, ring(&client, "b"), "b", ms(1), &watched);
    pass(secs(60)).await;
    let moved = watched.take().len();
    assert!(moved > 0 && cancelled.load(Ordering::Relaxed) >= moved, "{moved} moved");
    patient.end().await.unwrap();
    second.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shr_045_keys_without_a_place_are_refused_and_cluster_scoped_kinds_divide_by_key() {
    let server = server().await;
    let client = server.client();
    let by_uid = Controller::<ConfigMap>::new(&client).sharded_in(ring(&client, "a").shard_by(ShardBy::Uid));
    let refused = by_uid.standby().unwrap_err().to_string();
    assert!(refused.contains("ShardBy::Key"), "{refused}");
    let refused = Controller::<Node>::new(&client).sharded("nodes").standby().unwrap_err().to_string();
    assert!(refused.contains("ShardBy::Key"), "{refused}");

    for number in 0..16 {
        client.api::<Node>().create(&value(json!({"metadata": {"name": format!("n{number}")}}))).await.unwrap();
    }
    let log = Log::new();
    let nodes = ["a", "b"].map(|name| {
        let built =
            Controller::<Node>::new(&client).named("nodes").sharded_in(ring(&client, name).shard_by(ShardBy::Key));
        recording(built, &log)
    });
    pass(secs(60)).await;
    let reconciled: BTreeSet<String> = log.take().into_iter().collect();
    assert_eq!(reconciled.len(), 16);
    for running in nodes {
        running.end().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn shr_071_a_refused_replica_returns_the_reason() {
    let server = server().await;
    let client = server.client();
    let log = Log::new();
    let first = recording(Controller::<ConfigMap>::new(&client).named("refused").sharded_in(ring(&client, "a")), &log);
    pass(secs(30)).await;
    let other = ring(&client, "b").lease_duration(secs(20));
    let second = Controller::<ConfigMap>::new(&client).named("refused").sharded_in(other);
    let refused = recording(second, &log).ended.await.unwrap().unwrap_err();
    let ControllerError::RingLost { ring, error, .. } = &refused else { panic!("{refused}") };
    assert_eq!(ring, "divided");
    assert!(matches!(&**error, RingError::Refused { .. }), "{refused}");
    first.end().await.unwrap();
}

#[tokio::test]
async fn shr_002_the_permissions_include_the_leases_of_the_ring() {
    let client = Client::disconnected();
    let rules = Controller::<ConfigMap>::new(&client).sharded_in(ring(&client, "a").namespace("rings")).permissions();
    let [leases] = &rules.namespaces["rings"][..] else { panic!("{:?}", rules.namespaces) };
    assert_eq!(leases.resources, Some(vec!["leases".to_owned()]));
    let verbs: BTreeSet<&str> = leases.verbs.iter().map(String::as_str).collect();
    assert_eq!(verbs, BTreeSet::from(["create", "delete", "get", "list", "update", "watch"]));
}

/// Namespaces whose names differ at the end have places beside each other: equal slices would give all of them to one replica.
#[tokio::test(start_paused = true)]
async fn she_006_namespaces_with_a_common_prefix_are_divided_by_their_number() {
    let server = server().await;
    let client = server.client();
    namespaced_parents(&client).await;
    let watched = Watched::default();
    let started = ["a", "b", "c"].map(|name| replica(&client, ring(&client, name), name, ms(10), &watched));
    // Balancing is slow on purpose.
    pass(secs(1800)).await;
    let divided = shares(&client, &watched, "divided").await;
    let fair = NAMESPACES / 3;
    for name in ["a", "b", "c"] {
        let share = divided.get(name).copied().unwrap_or_default();
        assert!(share > 0 && share <= fair * 2, "{divided:?}");
    }
    for running in started {
        running.end().await.unwrap();
    }
    assert_eq!(watched.overlaps(), 0);
}
