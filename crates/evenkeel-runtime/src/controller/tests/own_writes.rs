//! A reconcile sees the writes of the last one.

use evenkeel_apiserver::{Action, ExpireForm, Rule, WatchAction};

use super::*;

/// Delays the next watch events of this resource.
fn lag(server: &ApiServer, resource: &str, delays: impl IntoIterator<Item = Duration>) {
    for (event, duration) in (0..).zip(delays) {
        server.faults().add(Rule::watch(WatchAction::StallFor { event, duration }).resource(resource));
    }
}

/// Creates a child, if the cache shows none. A second one would not conflict with the first.
async fn one_child(parent: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    let secrets = ctx.lister::<Secret>()?.list_all();
    let mine = |secret: &&Obj<Secret>| secret.controller().is_some_and(|owner| owner.uid == parent.uid());
    if secrets.iter().filter(mine).count() == 0 {
        let child: Secret = value(json!({"metadata": {"generateName": "child-", "ownerReferences": [owner(&parent)]}}));
        ctx.api::<Secret>().namespace("default").create(&child).await?;
    }
    Ok(Next::done())
}

/// Creates and updates parents at random times, while the watch of the children lags by seconds. Returns the number of surplus
/// children.
async fn surplus(seed: u64, own_writes: Option<Duration>) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let server = server().await;
    let client = server.client();
    let name = format!("own-writes-{seed}");
    let built = controller(&client, &name).owns::<Secret>().concurrency(random.usize(1..4)).own_writes(own_writes);
    let running = start(built, one_child);
    settle().await;
    lag(&server, "secrets", (0..8).map(|_| ms(random.u64(0..4000))));
    let parents = random.usize(1..4);
    for number in 0..parents {
        create(&client, &format!("p{number}")).await;
        pass(ms(random.u64(0..500))).await;
    }
    for number in 0..8 {
        touch(&client, &format!("p{}", random.usize(..parents)), number).await;
        pass(ms(random.u64(0..1000))).await;
    }
    pass(secs(60)).await;
    let children = children(&client).await;
    assert_eq!(children.len(), parents, "seed {seed}");
    running.end().await.unwrap();
    children.values().sum::<usize>() - parents
}

#[tokio::test(start_paused = true)]
async fn ask_1_no_child_is_created_twice_however_far_the_watch_lags() {
    for seed in 0..1000 {
        assert_eq!(surplus(seed, Some(secs(60))).await, 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn ask_1_without_own_writes_children_are_created_twice() {
    let mut seeds = 0;
    for seed in 0..20 {
        seeds += usize::from(surplus(seed, None).await > 0);
    }
    assert!(seeds > 10, "{seeds}");
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_parked_key_blocks_no_other_key_and_is_released_by_the_cache() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let running = start(controller(&client, "parked").owns::<Secret>(), {
        let log = log.clone();
        move |parent, ctx| {
            log.note(parent.key().name());
            async move { if parent.key().name() == "writer" { one_child(parent, ctx).await } else { Ok(Next::done()) } }
        }
    });
    settle().await;
    lag(&server, "secrets", [secs(5)]);
    create(&client, "writer").await;
    settle().await;
    assert_eq!(log.take(), ["writer"]);
    touch(&client, "writer", 1).await;
    create(&client, "other").await;
    pass(secs(4)).await;
    touch(&client, "other", 1).await;
    settle().await;
    assert_eq!(log.take(), ["other", "other"], "the only worker does not wait");
    pass(secs(2)).await;
    let lines = log.take();
    assert!(!lines.is_empty() && lines.iter().all(|name| name == "writer"), "{lines:?}");
    assert_eq!(children(&client).await["writer"], 1);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_key_is_parked_until_the_cache_shows_the_version_of_its_last_write() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let running = start(controller(&client, "itself"), {
        let log = log.clone();
        move |parent, ctx| {
            let (log, number) = (log.clone(), log.len());
            async move {
                log.note(format!("saw {}", parent.resource_version()));
                if number < 8 {
                    let patch = evenkeel_client::Patch::merge(&json!({"data": {"number": number.to_string()}}));
                    let written = ctx.api::<ConfigMap>().namespace("default").patch(ctx.key().name(), &patch).await?;
                    log.note(format!("saw {}", written.resource_version()));
                    return Ok(Next::requeue());
                }
                Ok(Next::done())
            }
        }
    });
    settle().await;
    lag(&server, "configmaps", [0, 3, 2, 1, 4].map(secs));
    create(&client, "a").await;
    pass(secs(60)).await;
    let lines = log.take();
    assert!(lines.len() >= 9, "{lines:?}");
    for pair in lines[1..9].chunks(2) {
        assert_eq!(pair[0], pair[1], "each reconcile sees the write of the last one: {lines:?}");
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_deleted_object_is_not_seen_again() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let a = create(&client, "a").await;
    client.api::<Secret>().namespace("default").create(&child("c", &a)).await.unwrap();
    let running = start(controller(&client, "deletes").owns::<Secret>(), {
        let log = log.clone();
        move |_, ctx| {
            let log = log.clone();
            async move {
                let seen = ctx.lister::<Secret>()?.get(key("c"));
                log.note(if seen.is_some() { "deletes" } else { "sees nothing" });
                if seen.is_some() {
                    ctx.api::<Secret>().namespace("default").delete("c").await?;
                }
                Ok(Next::done())
            }
        }
    });
    lag(&server, "secrets", [secs(0), secs(0), secs(7)]);
    pass(ms(100)).await;
    for number in 0..5 {
        touch(&client, "a", number).await;
        pass(secs(1)).await;
    }
    pass(secs(20)).await;
    let lines = log.take();
    assert_eq!(lines[0], "deletes");
    assert!(lines[1..].iter().all(|line| line == "sees nothing") && lines.len() > 1, "{lines:?}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_parked_key_is_released_at_the_limit() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let built = controller(&client, "late").owns::<Secret>().own_writes(secs(3));
    let running = start(built, {
        let log = log.clone();
        move |parent, ctx| {
            log.note("run");
            one_child(parent, ctx)
        }
    });
    settle().await;
    lag(&server, "secrets", [secs(100)]);
    create(&client, "a").await;
    settle().await;
    touch(&client, "a", 1).await;
    pass(secs(10)).await;
    let gaps = log.gaps();
    assert!(gaps[0] >= secs(3) && gaps[0] < secs(4), "{gaps:?}");
    running.end().await.unwrap();
}

/// The watch of the children breaks before the first event. The child is deleted before the list that replaces the watch, so no event
/// is about it.
async fn child_after_silence(own_writes: Duration) -> (usize, usize) {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let built = controller(&client, "silence").owns::<Secret>().own_writes(own_writes);
    let running = start(built, {
        let log = log.clone();
        move |parent, ctx| {
            log.note("run");
            one_child(parent, ctx)
        }
    });
    settle().await;
    server
        .faults()
        .add(Rule::watch(WatchAction::Expire { event: 0, form: ExpireForm::Event }).resource("secrets").times(1));
    create(&client, "a").await;
    settle().await;
    // Before the backoff of the informer is over.
    let secrets = client.api::<Secret>().namespace("default");
    for child in secrets.list(&Default::default()).await.unwrap() {
        secrets.delete(child.key().name()).await.unwrap();
    }
    assert_eq!(children(&client).await.len(), 0);
    server.faults().add(Rule::new(Action::Delay(secs(5))).resource("secrets").verb("list").times(1));
    server.faults().add(Rule::new(Action::Delay(secs(5))).resource("secrets").verb("watch").times(1));
    pass(secs(60)).await;
    running.end().await.unwrap();
    (children(&client).await.len(), log.len())
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_child_that_is_deleted_before_the_cache_sees_it_is_created_again() {
    assert_eq!(child_after_silence(secs(30)).await, (1, 3));
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_child_that_is_deleted_before_the_cache_sees_it_is_created_again_after_the_limit() {
    assert_eq!(child_after_silence(secs(2)).await, (1, 3));
}

/// Writes that no informer of the controller will show are not awaited.
#[tokio::test(start_paused = true)]
async fn ask_1_writes_that_the_caches_never_show_park_no_key() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "elsewhere").owns::<Secret>(), {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            async move {
                if before == 0 {
                    let other: Secret = value(json!({"metadata": {"name": "other", "namespace": "kube-system"}}));
                    ctx.api::<Secret>().namespace("kube-system").create(&other).await?;
                    let dry_run_secret: Secret = value(json!({"metadata": {"name": "dry-run"}}));
                    ctx.api::<Secret>().namespace("default").create(&dry_run_secret).dry_run().await?;
                }
                Ok(Next::done())
            }
        }
    });
    pass(ms(100)).await;
    touch(&client, "a", 1).await;
    pass(ms(100)).await;
    assert_eq!(log.len(), 2);
    running.end().await.unwrap();
}

/// The factory decides which objects its informers show, also if the controller did not configure it.
#[tokio::test(start_paused = true)]
async fn ask_1_writes_that_shared_informers_never_show_park_no_key() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let informers = evenkeel_cache::InformerFactory::builder(&client)
        .namespace("default")
        .configure::<Secret>(|secrets| secrets.labels("app=web").fields("metadata.name!=hidden"))
        .build();
    let built = Controller::<ConfigMap>::new(&client).informers(&informers).named("covered").owns::<Secret>();
    let running = start(built, {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            async move {
                for (namespace, metadata) in [
                    ("kube-system", json!({"name": "elsewhere", "labels": {"app": "web"}})),
                    ("default", json!({"name": "unlabelled"})),
                    ("default", json!({"name": "hidden", "labels": {"app": "web"}})),
                ] {
                    if before == 0 {
                        let secret: Secret = value(json!({"metadata": metadata}));
                        ctx.api::<Secret>().namespace(namespace).create(&secret).await?;
                    }
                }
                Ok(Next::done())
            }
        }
    });
    pass(ms(100)).await;
    touch(&client, "a", 1).await;
    pass(ms(100)).await;
    assert_eq!(log.len(), 2, "the key is not parked");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_an_object_whose_last_finalizer_was_removed_is_not_seen_again() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let finalized: ConfigMap = value(json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}));
    let configs = client.api::<ConfigMap>().namespace("default");
    configs.create(&finalized).await.unwrap();
    let running = start(controller(&client, "last-finalizer"), {
        let log = log.clone();
        move |object, ctx| {
            log.note(if object.deletion_timestamp().is_some() { "deleting" } else { "live" });
            async move {
                if object.deletion_timestamp().is_none() {
                    return Ok(Next::done());
                }
                let patch = evenkeel_client::Patch::merge(&json!({"metadata": {"finalizers": null}}));
                ctx.api::<ConfigMap>().namespace("default").patch("a", &patch).await?;
                Ok(Next::after(ms(100)))
            }
        }
    });
    settle().await;
    lag(&server, "configmaps", [secs(0), secs(5)]);
    configs.delete("a").await.unwrap();
    pass(secs(20)).await;
    assert_eq!(log.take(), ["live", "deleting"]);
    running.end().await.unwrap();
}

/// A context that outlives its reconcile records no writes.
#[tokio::test(start_paused = true)]
async fn writes_after_the_end_of_a_reconcile_are_not_recorded() {
    let server = server().await;
    let client = server.client();
    let a = create(&client, "a").await;
    for name in ["early", "late"] {
        client.api::<Secret>().namespace("default").create(&child(name, &a)).await.unwrap();
    }
    let kept = Arc::new(Mutex::new(None));
    let running = start(controller(&client, "outlived").owns::<Secret>().recover_panics(false), {
        let kept = Arc::clone(&kept);
        move |_, ctx| {
            let is_first = kept.lock().unwrap().replace(ctx.clone()).is_none();
            async move {
                if is_first {
                    ctx.api::<Secret>().namespace("default").delete("early").await?;
                    assert!(format!("{ctx:?}").contains("Deleted"), "{ctx:?}");
                }
                Ok(Next::done())
            }
        }
    });
    settle().await;
    let ctx = kept.lock().unwrap().clone().unwrap();
    ctx.api::<Secret>().namespace("default").delete("late").await.unwrap();
    assert!(!format!("{ctx:?}").contains("Deleted"));
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_every_kind_of_write_is_observed() {
    use evenkeel_client::{Patch, create_or_patch, create_or_update};
    use k8s_openapi::api::apps::v1::Deployment;

    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let deployment: Deployment = value(json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }}));
    client.api::<Deployment>().namespace("default").create(&deployment).await.unwrap();
    let built = Controller::<Deployment>::new(&client)
        .namespace("default")
        .named("every-way")
        .owns::<Secret>()
        .recover_panics(false);
    let running = start(built, {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            async move {
                let secrets = ctx.api::<Secret>().default_namespace();
                let secret: Secret = value(json!({"metadata": {"name": format!("s{before}")}}));
                match before {
                    0 => drop(secrets.create(&secret).await?),
                    1 => drop(create_or_update(&secrets, &secret, |_| {}).await?),
                    2 => drop(create_or_patch(&secrets, &secret, |_| {}).await?),
                    3 => drop(
                        secrets
                            .metadata()
                            .patch("s0", &Patch::merge(&json!({"metadata": {"labels": {"a": "b"}}})))
                            .await?,
                    ),
                    4 => {
                        let scale = ctx.api::<Deployment>().namespace("default").scale();
                        scale.patch("a", &Patch::merge(&json!({"spec": {"replicas": 3}}))).await?;
                    }
                    _ => return Ok(Next::done()),
                }
                assert!(format!("{ctx:?}").contains("Version"), "{before}: {ctx:?}");
                Ok(Next::after(ms(1)))
            }
        }
    });
    pass(secs(60)).await;
    assert!(log.len() > 5, "{:?}", log.take());
    running.end().await.unwrap();
}
