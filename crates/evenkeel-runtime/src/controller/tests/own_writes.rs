//! A reconcile sees what the last one has written.

use evenkeel_apiserver::{Rule, WatchAction};

use super::*;

/// From now on the events of this resource come as late as the numbers say, one after the other.
fn lag(server: &ApiServer, resource: &str, delays: impl IntoIterator<Item = Duration>) {
    for (event, duration) in (0..).zip(delays) {
        server.faults().add(Rule::watch(WatchAction::StallFor { event, duration }).resource(resource));
    }
}

/// Gives a parent a child, if it sees none. A second one would not collide with the first.
async fn one_child(parent: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    let secrets = ctx.lister::<Secret>()?.list_all();
    let mine = |secret: &&Obj<Secret>| secret.controller().is_some_and(|owner| owner.uid == parent.uid());
    if secrets.iter().filter(mine).count() == 0 {
        let child: Secret = value(json!({"metadata": {"generateName": "child-", "ownerReferences": [owner(&parent)]}}));
        ctx.api::<Secret>().namespace("default").create(&child).await?;
    }
    Ok(Next::done())
}

/// Parents come and change at times of the seed's choosing, while the watch of the children lags by seconds. Answers how
/// many children there were too many.
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
    for round in 0..8 {
        touch(&client, &format!("p{}", random.usize(..parents)), round).await;
        pass(ms(random.u64(0..1000))).await;
    }
    pass(secs(60)).await;
    let children = children(&client).await;
    assert_eq!(children.len(), parents, "seed {seed}");
    running.end().await.unwrap();
    children.values().sum::<usize>() - parents
}

#[tokio::test(start_paused = true)]
async fn ask_1_no_child_is_created_twice_however_late_the_watch_is() {
    for seed in 0..1000 {
        assert_eq!(surplus(seed, Some(secs(60))).await, 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn ask_1_without_it_children_are_created_twice() {
    let mut seeds = 0;
    for seed in 0..20 {
        seeds += usize::from(surplus(seed, None).await > 0);
    }
    assert!(seeds > 10, "{seeds}");
}

#[tokio::test(start_paused = true)]
async fn ask_1_other_keys_go_on_while_one_is_parked_and_it_comes_when_the_cache_has_caught_up() {
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
    assert_eq!(log.take(), ["other", "other"], "the one worker that there is waits for nothing");
    pass(secs(2)).await;
    let lines = log.take();
    assert!(!lines.is_empty() && lines.iter().all(|name| name == "writer"), "{lines:?}");
    assert_eq!(children(&client).await["writer"], 1);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_a_key_is_parked_until_its_own_object_is_as_new_as_it_was_written() {
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
        assert_eq!(pair[0], pair[1], "each sees what the last one wrote: {lines:?}");
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
    for round in 0..5 {
        touch(&client, "a", round).await;
        pass(secs(1)).await;
    }
    pass(secs(20)).await;
    let lines = log.take();
    assert_eq!(lines[0], "deletes");
    assert!(lines[1..].iter().all(|line| line == "sees nothing") && lines.len() > 1, "{lines:?}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ask_1_what_does_not_come_in_time_is_not_waited_for_for_ever() {
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

/// What no informer of the controller will ever show is not waited for.
#[tokio::test(start_paused = true)]
async fn ask_1_what_is_written_elsewhere_holds_nobody_up() {
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
                    let pretended: Secret = value(json!({"metadata": {"name": "pretended"}}));
                    ctx.api::<Secret>().namespace("default").create(&pretended).dry_run().await?;
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

/// When the last finalizer goes, a server answers with the version from before. (The one of these tests says the new one.)
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
            log.note(if object.deletion_timestamp().is_some() { "goes" } else { "stays" });
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
    assert_eq!(log.take(), ["stays", "goes"]);
    running.end().await.unwrap();
}

/// A context that outlives its reconcile does not gather notes that nobody asks for.
#[tokio::test(start_paused = true)]
async fn what_is_written_after_a_reconcile_is_not_noted() {
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

/// However the API was come by, what is written with it is noted.
#[tokio::test(start_paused = true)]
async fn ask_1_every_way_to_write_is_noted() {
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
