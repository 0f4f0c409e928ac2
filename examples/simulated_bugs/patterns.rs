//! The controllers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::helpers::set_controller_reference;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Reconciled = Result<Next, ReconcileError>;

const NAMESPACE: &str = "default";

fn wish(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}})
}

/// A scenario with two ConfigMaps, one of which appears late.
fn scenario<F>(name: &str, reconcile: fn(Obj<ConfigMap>, Context) -> F) -> Scenario
where
    F: Future<Output = Reconciled> + Send + 'static,
{
    Scenario::new(name)
        .object(wish("first"))
        .process("controller", move |process: Process| async move {
            let controller = Controller::<ConfigMap>::new(process.client()).owns::<Secret>();
            Ok(controller.run(process.shutdown(), reconcile).await?)
        })
        .workload(|workload: Workload| async move {
            workload.pause().await;
            create_wish(&workload, "second").await
        })
        .finally("every wish has one secret", one_secret_each)
}

async fn create_wish(workload: &Workload, name: &str) -> Outcome {
    workload.client().core_v1().config_maps(NAMESPACE).create(&serde_json::from_value(wish(name))?).await?;
    Ok(())
}

fn one_secret_each(state: &ClusterState) -> Result<(), String> {
    for wish in state.objects("configmaps").filter(|wish| wish["metadata"]["namespace"] == NAMESPACE) {
        let name = &wish["metadata"]["name"];
        let owned = |secret: &&Value| secret["metadata"]["ownerReferences"][0]["name"] == *name;
        match state.objects("secrets").filter(owned).count() {
            1 => {}
            count => return Err(format!("{name} has {count}")),
        }
    }
    Ok(())
}

/// A Secret of a wish, with its name or with a generated one.
fn secret_of(wish: &Obj<ConfigMap>, is_generated: bool) -> Result<Secret, ReconcileError> {
    let mut secret = Secret::default();
    match is_generated {
        true => secret.metadata.generate_name = Some(format!("{}-", wish.key().name())),
        false => secret.metadata.name = Some(wish.key().name().to_owned()),
    }
    secret.metadata.namespace = Some(NAMESPACE.to_owned());
    set_controller_reference(&mut secret, wish)?;
    Ok(secret)
}

async fn annotate(ctx: &Context, wish: &Obj<ConfigMap>, key: &str, value: &str) -> Result<(), ReconcileError> {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    ctx.api::<ConfigMap>().namespace(NAMESPACE).patch(wish.key().name(), &Patch::merge(&patch)).await?;
    Ok(())
}

fn annotation(wish: &Obj<ConfigMap>, key: &str) -> Result<Option<String>, ReconcileError> {
    Ok(wish.typed()?.metadata.annotations.as_ref().and_then(|all| all.get(key).cloned()))
}

/// What the others get wrong: looks at what is there, and makes what is missing, under a name that is always the same.
pub(crate) fn correct() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        if ctx.lister::<Secret>()?.get(wish.key()).is_none() {
            ctx.api::<Secret>().namespace(NAMESPACE).create(&secret_of(&wish, false)?).await?;
        }
        if annotation(&wish, "done")?.is_none() {
            annotate(&ctx, &wish, "done", "yes").await?;
        }
        Ok(Next::done())
    }
    scenario("correct", reconcile)
}

pub(crate) fn step_forgotten() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        if annotation(&wish, "done")?.is_none() {
            annotate(&ctx, &wish, "done", "yes").await?;
            ctx.api::<Secret>().namespace(NAMESPACE).create(&secret_of(&wish, false)?).await?;
        }
        Ok(Next::done())
    }
    scenario("step-forgotten", reconcile)
}

pub(crate) fn made_twice() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        if annotation(&wish, "secret")?.is_none() {
            let secret = ctx.api::<Secret>().namespace(NAMESPACE).create(&secret_of(&wish, true)?).await?;
            annotate(&ctx, &wish, "secret", secret.key().name()).await?;
        }
        Ok(Next::done())
    }
    // The annotation has the random name.
    scenario("made-twice", reconcile).compare_final_state(false)
}

/// The external system is a Secret that no owner reference ties to its wish.
pub(crate) fn left_behind() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        let (secrets, maps) = (ctx.api::<Secret>().namespace(NAMESPACE), ctx.api::<ConfigMap>().namespace(NAMESPACE));
        let name = wish.key().name();
        let has_finalizer = wish.finalizers().any(|finalizer| finalizer == "example.com/clean-up");
        let finalizers = |finalizers: Value| Patch::merge(&json!({"metadata": {"finalizers": finalizers}}));
        match (wish.deletion_timestamp().is_some(), has_finalizer) {
            (true, true) => {
                maps.patch(name, &finalizers(json!([]))).await?;
                secrets.delete(name).await?;
            }
            (false, false) => drop(maps.patch(name, &finalizers(json!(["example.com/clean-up"]))).await?),
            (false, true) if ctx.lister::<Secret>()?.get(wish.key()).is_none() => {
                let mut secret = secret_of(&wish, false)?;
                secret.metadata.owner_references = None;
                secrets.create(&secret).await?;
            }
            _ => {}
        }
        Ok(Next::done())
    }
    Scenario::new("left-behind")
        .object(wish("first"))
        .process("controller", |process: Process| async move {
            let controller = Controller::<ConfigMap>::new(process.client()).owns::<Secret>();
            Ok(controller.run(process.shutdown(), reconcile).await?)
        })
        .workload(|workload: Workload| async move {
            tokio::time::sleep(std::time::Duration::from_secs(120)).await;
            workload.client().core_v1().config_maps(NAMESPACE).delete("first").await?;
            Ok(())
        })
}

pub(crate) fn known_by_heart() -> Scenario {
    Scenario::new("known-by-heart")
        .object(wish("first"))
        .process("controller", |process: Process| async move {
            let made = Arc::new(Mutex::new(BTreeSet::new()));
            let reconcile = move |wish: Obj<ConfigMap>, ctx: Context| {
                let made = Arc::clone(&made);
                async move {
                    if made.lock().unwrap_or_else(PoisonError::into_inner).insert(wish.key().clone()) {
                        ctx.api::<Secret>().namespace(NAMESPACE).create(&secret_of(&wish, true)?).await?;
                    }
                    Ok(Next::done())
                }
            };
            Ok(Controller::<ConfigMap>::new(process.client()).run(process.shutdown(), reconcile).await?)
        })
        .finally("every wish has one secret", one_secret_each)
}

pub(crate) fn own_work_refused() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        if annotation(&wish, "state")?.is_some() {
            return Ok(Next::done());
        }
        match ctx.api::<Secret>().namespace(NAMESPACE).create(&secret_of(&wish, false)?).await {
            Ok(_) => annotate(&ctx, &wish, "state", "done").await?,
            Err(error) if error.is_already_exists() => annotate(&ctx, &wish, "state", "name taken").await?,
            Err(error) => return Err(error.into()),
        }
        Ok(Next::done())
    }
    scenario("own-work-refused", reconcile)
}

/// Replaces the Secret of a wish that asks for a new one, once.
pub(crate) fn deleted_first() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        let secrets = ctx.api::<Secret>().namespace(NAMESPACE);
        if annotation(&wish, "done")?.is_none() {
            if ctx.lister::<Secret>()?.get(wish.key()).is_some() {
                secrets.delete(wish.key().name()).await?;
                annotate(&ctx, &wish, "done", "yes").await?;
            }
            secrets.create(&secret_of(&wish, false)?).await?;
        }
        Ok(Next::done())
    }
    scenario("deleted-first", reconcile)
        .object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "first", "namespace": NAMESPACE}}))
}

/// Deletes Secrets without a wish when it starts, and believes a list that may be old.
pub(crate) fn old_list_believed() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        if ctx.lister::<Secret>()?.get(wish.key()).is_none() {
            ctx.api::<Secret>().namespace(NAMESPACE).create(&secret_of(&wish, false)?).await?;
        }
        Ok(Next::done())
    }
    async fn clean_up(process: &Process) -> Outcome {
        let any_version = ListParams::default().not_older_than("0");
        let wishes = process.client().core_v1().config_maps(NAMESPACE).list(&any_version).await?;
        let wished: BTreeSet<String> = wishes.into_iter().map(|wish| wish.key().name().to_owned()).collect();
        let secrets = process.client().core_v1().secrets(NAMESPACE);
        for secret in secrets.list(&ListParams::default()).await? {
            if !wished.contains(secret.key().name()) {
                process.fail("no wanted secret is deleted", format!("{} is deleted", secret.key()));
                secrets.delete(secret.key().name()).await?;
            }
        }
        Ok(())
    }
    scenario("old-list-believed", reconcile).process("cleaner", |process: Process| async move {
        clean_up(&process).await?;
        // Notes that it has done so.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let map = json!({"metadata": {"name": "cleaned"}});
        let maps = process.client().core_v1().config_maps("kube-system");
        if let Err(error) = maps.create(&serde_json::from_value(map)?).await
            && !error.is_already_exists()
        {
            return Err(error.into());
        }
        process.shutdown().await;
        Ok(())
    })
}

/// Counts in an object that the user changes too.
pub(crate) fn overwritten() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        let mut map = ConfigMap::clone(&*wish.typed()?);
        let data = map.data.get_or_insert_default();
        if data.insert("seen".to_owned(), "yes".to_owned()).is_none() {
            map.metadata.resource_version = None;
            ctx.api::<ConfigMap>().namespace(NAMESPACE).update(&map).await?;
        }
        Ok(Next::done())
    }
    Scenario::new("overwritten")
        .process("controller", |process: Process| async move {
            Ok(Controller::<ConfigMap>::new(process.client()).run(process.shutdown(), reconcile).await?)
        })
        .workload(|workload: Workload| async move {
            let maps = workload.client().core_v1().config_maps(NAMESPACE);
            for number in 0..20 {
                let name = format!("wish-{number}");
                create_wish(&workload, &name).await?;
                tokio::time::sleep(std::time::Duration::from_millis(u64::from(workload.choose(30)))).await;
                maps.patch(&name, &Patch::merge(&json!({"data": {"colour": "blue"}}))).await?;
                workload.pause().await;
            }
            Ok(())
        })
        .finally("no change of the user is lost", |state: &ClusterState| {
            let lost = state.objects("configmaps").find(|map| map["data"]["colour"] != "blue");
            lost.map_or(Ok(()), |map| Err(format!("{} has lost its colour", map["metadata"]["name"])))
        })
}

pub(crate) fn never_removed() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        let labels = wish.typed()?.metadata.labels.clone().unwrap_or_default();
        let secrets = ctx.api::<Secret>().namespace(NAMESPACE);
        match ctx.lister::<Secret>()?.get(wish.key()) {
            None => drop(secrets.create(&secret_of(&wish, false)?).await?),
            Some(secret) => {
                let has = secret.typed()?.metadata.labels.clone().unwrap_or_default();
                if labels.iter().any(|(name, value)| has.get(name) != Some(value)) {
                    let patch = json!({"metadata": {"labels": labels}});
                    secrets.patch(wish.key().name(), &Patch::merge(&patch)).await?;
                }
            }
        }
        Ok(Next::done())
    }
    scenario("never-removed", reconcile)
        .workload(|workload: Workload| async move {
            let maps = workload.client().core_v1().config_maps(NAMESPACE);
            for labels in [json!({"tier": "web"}), json!({"tier": null})] {
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                maps.patch("first", &Patch::merge(&json!({"metadata": {"labels": labels}}))).await?;
            }
            Ok(())
        })
        .finally("secrets have the labels of their wish", |state: &ClusterState| {
            let wrong = state.objects("configmaps").find(|wish| {
                let key = format!("{NAMESPACE}/{}", wish["metadata"]["name"].as_str().unwrap_or_default());
                let labels = |object: &Value| object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                state.object("secrets", &key).is_some_and(|secret| labels(secret) != labels(wish))
            });
            wrong.map_or(Ok(()), |wish| Err(format!("that of {} has others", wish["metadata"]["name"])))
        })
}

pub(crate) fn restless() -> Scenario {
    async fn reconcile(wish: Obj<ConfigMap>, ctx: Context) -> Reconciled {
        let looks: u32 = annotation(&wish, "looks")?.and_then(|text| text.parse().ok()).unwrap_or_default();
        annotate(&ctx, &wish, "looks", &(looks + 1).to_string()).await?;
        Ok(Next::done())
    }
    Scenario::new("restless").object(wish("first")).compare_final_state(false).process(
        "controller",
        |process: Process| async move {
            Ok(Controller::<ConfigMap>::new(process.client()).run(process.shutdown(), reconcile).await?)
        },
    )
}
