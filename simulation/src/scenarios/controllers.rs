//! Controllers of the usual kinds (WRK-2 to WRK-5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::client::create_or_update;
use evenkeel::helpers::{Finalized, Finalizers, controller_reference, set_controller_reference};
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel_sim::{ClusterState, Fault, Process, Scenario, Workload};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Outcome;

type Reconciled = Result<Next, ReconcileError>;

const NAMESPACE: &str = "default";
/// The name of the invariant of what controllers write (INV-14).
const INTENDED: &str = "exactly the intended effect";
/// How often owners are reconciled without a change: a child that was created and deleted while the watch was silent is in no event.
const RESYNC: Duration = Duration::from_secs(5 * 60);

fn scenario(name: &str) -> Scenario {
    Scenario::new(name).rough_for(Duration::from_secs(2 * 60)).compare_final_state(false)
}

async fn some_seconds(workload: &Workload) {
    sleep(Duration::from_millis(u64::from(workload.choose(10_000)))).await;
}

fn is_owned_by(object: &Value, owner: &Value) -> bool {
    object["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
}

/// Keeps one Secret with the name and the colour of a ConfigMap.
async fn mirror(map: Obj<ConfigMap>, ctx: Context) -> Reconciled {
    // The child of an object that only a stale cache still shows would be collected as garbage, and created again, without end.
    match ctx.api::<ConfigMap>().namespace(NAMESPACE).get(map.key().name()).await {
        Ok(current) if current.uid() == map.uid() => {}
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => return Ok(Next::after(Duration::from_secs(5))),
    }
    let colour = map.typed()?.data.as_ref().and_then(|data| data.get("colour").cloned()).unwrap_or_default();
    let owner = controller_reference(&map)?;
    let mut named = Secret::default();
    named.metadata.name = Some(map.key().name().to_owned());
    let secrets = ctx.api::<Secret>().namespace(NAMESPACE);
    let written = create_or_update(&secrets, &named, |secret| {
        // An owner before it was another object of this name, which does not exist any more.
        secret.metadata.owner_references = Some(vec![owner.clone()]);
        secret.metadata.annotations.get_or_insert_default().insert("colour".to_owned(), colour.clone());
    });
    written.await?;
    Ok(Next::done())
}

/// Deletes the Secret of a ConfigMap that does not exist.
async fn unmirror(key: ObjectKey, ctx: Context) -> Reconciled {
    if let Some(secret) = ctx.lister::<Secret>()?.get(&key)
        && secret.controller().is_some_and(|owner| owner.name == key.name())
        && let Err(error) = ctx.api::<Secret>().namespace(NAMESPACE).delete(key.name()).only_uid(secret.uid()).await
        && !error.is_not_found()
        && !error.is_conflict()
    {
        return Err(error.into());
    }
    Ok(Next::done())
}

/// Creates, changes and deletes ConfigMaps, and does to their Secrets what users do.
async fn change_mirrored(workload: Workload) -> Outcome {
    let (maps, secrets) =
        (workload.client().core_v1().config_maps(NAMESPACE), workload.client().core_v1().secrets(NAMESPACE));
    for _ in 0..15 {
        let name = format!("map-{}", workload.choose(3));
        let colour = ["red", "green", "blue"].get(workload.choose(3) as usize).copied().unwrap_or_default();
        match workload.choose(6) {
            0 => drop(maps.delete(&name).await),
            1 => drop(secrets.delete(&name).await),
            2 => {
                let other = Patch::merge(&json!({"metadata": {"annotations": {"colour": "black"}}}));
                drop(secrets.patch(&name, &other).await);
            }
            3 => {
                let secret = json!({"metadata": {"name": name}});
                // Exists before its ConfigMap, or after all.
                if maps.get(&name).await.is_err() {
                    drop(secrets.create(&serde_json::from_value(secret)?).await);
                    maps.create(&serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
                }
            }
            _ => {
                if maps.patch(&name, &Patch::merge(&json!({"data": {"colour": colour}}))).await.is_err() {
                    let map = json!({"metadata": {"name": name}, "data": {"colour": colour}});
                    maps.create(&serde_json::from_value(map)?).await?;
                }
            }
        }
        some_seconds(&workload).await;
    }
    Ok(())
}

fn is_mirrored(state: &ClusterState) -> Result<(), String> {
    let key = |object: &Value| format!("{NAMESPACE}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
    for map in state.objects("configmaps") {
        let secret = state.object("secrets", &key(map)).ok_or_else(|| format!("{} has no secret", key(map)))?;
        let colour = map["data"]["colour"].as_str().unwrap_or_default();
        if secret["metadata"]["annotations"]["colour"] != colour || !is_owned_by(secret, map) {
            return Err(format!("the secret of {} is {}", key(map), secret["metadata"]));
        }
    }
    let is_left = |secret: &&Value| {
        let is_owned = !secret["metadata"]["ownerReferences"].is_null();
        is_owned && state.object("configmaps", &key(secret)).is_none()
    };
    let left = state.objects("secrets").find(is_left);
    left.map_or(Ok(()), |secret| Err(format!("{} has no config map", key(secret))))
}

/// One child for each object, with equal contents (WRK-2).
pub fn mirrors() -> Scenario {
    scenario("mirror")
        .process("controller", |process: Process| async move {
            let controller =
                Controller::<ConfigMap>::new(process.client()).owns::<Secret>().on_deleted(unmirror).resync(RESYNC);
            Ok(controller.run(process.shutdown(), mirror).await?)
        })
        .workload(change_mirrored)
        .finally(INTENDED, is_mirrored)
}

const REPLICAS: usize = 3;

/// Keeps three Secrets with generated names for a ConfigMap. It looks at its cache, and relies on that it shows its own writes.
async fn replicate(map: Obj<ConfigMap>, ctx: Context, creator: Arc<str>) -> Reconciled {
    let secrets = ctx.api::<Secret>().namespace(NAMESPACE);
    let mut children = ctx.lister::<Secret>()?.list_all();
    children.retain(|child| child.controller().is_some_and(|owner| owner.uid == map.uid()));
    children.sort_by(|one, other| one.key().cmp(other.key()));
    for _ in children.len()..REPLICAS {
        let mut child = Secret::default();
        child.metadata.generate_name = Some(format!("{}-", map.key().name()));
        child.metadata.namespace = Some(NAMESPACE.to_owned());
        child.metadata.labels = Some(BTreeMap::from([("creator".to_owned(), creator.to_string())]));
        set_controller_reference(&mut child, &map)?;
        secrets.create(&child).await?;
    }
    for surplus in children.iter().skip(REPLICAS) {
        if let Err(error) = secrets.delete(surplus.key().name()).only_uid(surplus.uid()).await
            && !error.is_not_found()
        {
            return Err(error.into());
        }
    }
    Ok(Next::done())
}

/// Creates ConfigMaps, and deletes some of their Secrets.
async fn delete_replicas(workload: Workload) -> Outcome {
    let (maps, secrets) =
        (workload.client().core_v1().config_maps(NAMESPACE), workload.client().core_v1().secrets(NAMESPACE));
    for number in 0..8 {
        if number % 4 == 0 {
            let map = json!({"metadata": {"name": format!("set-{number}")}});
            maps.create(&serde_json::from_value(map)?).await?;
        }
        some_seconds(&workload).await;
        let listed = secrets.list(&ListParams::default()).await?;
        let count = u32::try_from(listed.len()).unwrap_or_default();
        let chosen = workload.choose(count.max(1)) as usize;
        if let Some(secret) = listed.into_iter().nth(chosen) {
            secrets.delete(secret.key().name()).await?;
        }
    }
    Ok(())
}

fn children_by<'a>(state: &'a ClusterState, group: impl Fn(&'a Value) -> Value) -> BTreeMap<String, usize> {
    state.objects("secrets").fold(BTreeMap::new(), |mut counts, child| {
        *counts.entry(group(child).to_string()).or_default() += 1;
        counts
    })
}

fn no_incarnation_creates_too_many(state: &ClusterState) -> Result<(), String> {
    let of = |child: &Value| {
        json!([child["metadata"]["labels"]["creator"], child["metadata"]["ownerReferences"][0]["name"]])
    };
    let counts = children_by(state, of);
    let most = counts.iter().find(|(_, count)| **count > REPLICAS);
    most.map_or(Ok(()), |(group, count)| Err(format!("{count} children of {group}, and {REPLICAS} are wanted")))
}

fn all_are_replicated(state: &ClusterState) -> Result<(), String> {
    for map in state.objects("configmaps") {
        let count = state.objects("secrets").filter(|child| is_owned_by(child, map)).count();
        if count != REPLICAS {
            return Err(format!("{} has {count} children", map["metadata"]["name"]));
        }
    }
    Ok(())
}

/// Three children for each object, with generated names (WRK-3).
///
/// A creation without an answer would leave a child that the owner does not know, so there is none: names are generated, and a second creation
/// makes a second child.
pub fn replica_sets() -> Scenario {
    let is_clear = |fault: &Fault| !matches!(fault, Fault::ResponseLost | Fault::Partition);
    scenario("replica-sets")
        .faults(Fault::ALL.into_iter().filter(is_clear))
        .process("controller", |process: Process| async move {
            let creator: Arc<str> = format!("life-{}", process.life()).into();
            let reconcile = move |map: Obj<ConfigMap>, ctx: Context| replicate(map, ctx, Arc::clone(&creator));
            // A cache may be late for longer than the usual limit.
            let controller = Controller::<ConfigMap>::new(process.client())
                .owns::<Secret>()
                .own_writes(Duration::from_secs(3600))
                .resync(RESYNC);
            Ok(controller.run(process.shutdown(), reconcile).await?)
        })
        .workload(delete_replicas)
        .always(INTENDED, no_incarnation_creates_too_many)
        .finally("every object has its children", all_are_replicated)
}

const FINALIZER: &str = "example.com/external";

/// Returns the entry of an object in the external table, which is a Secret that no one watches.
fn external(map: &Obj<ConfigMap>, state: &str) -> Secret {
    let mut entry = Secret::default();
    entry.metadata.name = Some(format!("external-{}", map.uid()));
    entry.metadata.annotations = Some(BTreeMap::from([("state".to_owned(), state.to_owned())]));
    entry
}

fn finalizers() -> Result<Finalizers<ConfigMap>, Box<dyn std::error::Error + Send + Sync>> {
    let mut finalizers = Finalizers::new();
    finalizers.register(FINALIZER, |map, ctx: Context| async move {
        let (table, entry) = (ctx.api::<Secret>().namespace(NAMESPACE), external(&map, "released"));
        // If there is no entry, one is made, so that an allocation that is still on its way comes too late.
        let released = create_or_update(&table, &entry, |entry| {
            entry.metadata.annotations.get_or_insert_default().insert("state".to_owned(), "released".to_owned());
        });
        released.await?;
        Ok(())
    })?;
    Ok(finalizers)
}

/// Allocates an external resource for each object, and releases it before the object is removed.
async fn allocate(finalizers: Arc<Finalizers<ConfigMap>>, map: Obj<ConfigMap>, ctx: Context) -> Reconciled {
    let Finalized::Live { object: map, .. } = finalizers.finalize(&ctx, &map).await? else { return Ok(Next::done()) };
    let table = ctx.api::<Secret>().namespace(NAMESPACE);
    let entry = external(&map, "allocated");
    let name = entry.metadata.name.clone().unwrap_or_default();
    match table.get(&name).await {
        Err(error) if error.is_not_found() => {
            if let Err(error) = table.create(&entry).await
                && !error.is_already_exists()
            {
                return Err(error.into());
            }
        }
        found => drop(found?),
    }
    Ok(Next::done())
}

async fn create_and_delete(workload: Workload) -> Outcome {
    let maps = workload.client().core_v1().config_maps(NAMESPACE);
    for _ in 0..12 {
        let name = format!("map-{}", workload.choose(3));
        match maps.get(&name).await {
            Ok(_) => drop(maps.delete(&name).await?),
            Err(_) => {
                maps.create(&serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
            }
        }
        some_seconds(&workload).await;
    }
    Ok(())
}

fn released_with_their_objects(state: &ClusterState) -> Result<(), String> {
    for entry in state.objects("secrets") {
        let name = entry["metadata"]["name"].as_str().unwrap_or_default();
        let uid = name.trim_start_matches("external-");
        let map = state.objects("configmaps").find(|map| map["metadata"]["uid"] == uid);
        let is_released = entry["metadata"]["annotations"]["state"] == "released";
        match map {
            None if !is_released => return Err(format!("{name} is left behind")),
            Some(map) if is_released && map["metadata"]["deletionTimestamp"].is_null() => {
                return Err(format!("{name} is released, and its object is in use"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn all_have_entries(state: &ClusterState) -> Result<(), String> {
    for map in state.objects("configmaps") {
        let uid = map["metadata"]["uid"].as_str().unwrap_or_default();
        if state.object("secrets", &format!("{NAMESPACE}/external-{uid}")).is_none() {
            return Err(format!("{} has no external resource", map["metadata"]["name"]));
        }
    }
    Ok(())
}

/// An external resource for each object, which is released before the object is removed (WRK-4).
pub fn finalizer() -> Scenario {
    scenario("finalizer")
        .process("controller", |process: Process| async move {
            let finalizers = Arc::new(finalizers()?);
            let reconcile = move |map, ctx| allocate(Arc::clone(&finalizers), map, ctx);
            Ok(Controller::<ConfigMap>::new(process.client()).run(process.shutdown(), reconcile).await?)
        })
        .workload(create_and_delete)
        .always(INTENDED, released_with_their_objects)
        .finally("every object has its external resource", all_have_entries)
}

/// Writes into the status which generation was seen.
async fn observe(deployment: Obj<Deployment>, ctx: Context) -> Reconciled {
    let generation = deployment.typed()?.metadata.generation;
    let observed = deployment.typed()?.status.as_ref().and_then(|status| status.observed_generation);
    if observed != generation {
        let patch = Patch::merge(&json!({"status": {"observedGeneration": generation}}));
        ctx.api::<Deployment>().namespace(NAMESPACE).status().patch(deployment.key().name(), &patch).await?;
    }
    Ok(Next::done())
}

/// Changes the spec, or only an annotation.
async fn scale(workload: Workload) -> Outcome {
    let deployments = workload.client().apps_v1().deployments(NAMESPACE);
    for round in 0..15 {
        let patch = match workload.choose(3) {
            0 => json!({"metadata": {"annotations": {"round": round.to_string()}}}),
            replicas => json!({"spec": {"replicas": replicas}}),
        };
        deployments.patch("web", &Patch::merge(&patch)).await?;
        some_seconds(&workload).await;
    }
    Ok(())
}

fn no_future_is_observed(state: &ClusterState) -> Result<(), String> {
    for deployment in state.objects("deployments") {
        let (generation, observed) =
            (&deployment["metadata"]["generation"], &deployment["status"]["observedGeneration"]);
        if observed.as_u64() > generation.as_u64() {
            return Err(format!("generation {observed} is observed, and {generation} is the last one"));
        }
    }
    Ok(())
}

fn last_generation_is_observed(state: &ClusterState) -> Result<(), String> {
    for deployment in state.objects("deployments") {
        let (generation, observed) =
            (&deployment["metadata"]["generation"], &deployment["status"]["observedGeneration"]);
        if observed != generation {
            return Err(format!("generation {observed} is observed, and {generation} is the last one"));
        }
    }
    Ok(())
}

/// A status that follows the spec, and is not written if it is right (WRK-5).
pub fn status_only() -> Scenario {
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    scenario("status-only")
        .object(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                       "metadata": {"name": "web", "namespace": NAMESPACE},
                       "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}}))
        .process("controller", |process: Process| async move {
            Ok(Controller::<Deployment>::new(process.client()).run(process.shutdown(), observe).await?)
        })
        .workload(scale)
        .always(INTENDED, no_future_is_observed)
        .finally("the last generation is observed", last_generation_is_observed)
}
