//! Children that are created and deleted while watches lag.

use evenkeel_apiserver::{Rule, WatchAction};
use evenkeel_client::Patch;

use super::*;

/// Creates or deletes children until a parent has as many as its spec requests. Their names do not conflict.
async fn scale(parent: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    let wanted = parent.path("data.children").unwrap().and_then(|value| value.text().parse().ok()).unwrap_or(0);
    let seen = ctx.lister::<Secret>()?.list_all();
    let mine = |secret: &&Obj<Secret>| secret.controller().is_some_and(|owner| owner.uid == parent.uid());
    let mine: Vec<_> = seen.iter().filter(mine).collect();
    let secrets = ctx.api::<Secret>().namespace("default");
    for _ in mine.len()..wanted {
        let child: Secret = value(json!({"metadata": {"generateName": "child-", "ownerReferences": [owner(&parent)]}}));
        secrets.create(&child).await?;
    }
    for surplus in mine.iter().skip(wanted) {
        secrets.delete(surplus.key().name()).only_uid(surplus.uid()).await?;
    }
    Ok(Next::done())
}

/// A reconcile that reads stale data would create or delete too many children. Each change takes the minimal number of writes.
#[tokio::test(start_paused = true)]
async fn ask_1_no_child_is_created_or_deleted_needlessly() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = server().await;
        let client = server.client();
        create(&client, "p").await;
        let running = start(controller(&client, "scaling").owns::<Secret>().own_writes(secs(600)), scale);
        settle().await;
        for event in 0..60 {
            let duration = ms(random.u64(0..3000));
            server.faults().add(Rule::watch(WatchAction::StallFor { event, duration }).resource("secrets"));
        }
        let mut wanted = 0;
        for round in 0..6 {
            wanted = random.usize(0..4);
            let data = json!({"data": {"children": wanted.to_string(), "round": round.to_string()}});
            client.api::<ConfigMap>().namespace("default").patch("p", &Patch::merge(&data)).await.unwrap();
            for touched in 0..random.usize(0..4) {
                touch(&client, "p", format!("{round} {touched}")).await;
                pass(ms(random.u64(0..2000))).await;
            }
            let now = children(&client).await.get("p").copied().unwrap_or(0);
            assert!(now <= 3, "never more than requested: seed {seed}");
        }
        pass(secs(300)).await;
        assert_eq!(children(&client).await.get("p").copied().unwrap_or(0), wanted, "seed {seed}");
        let (mut created, mut deleted) = (0, 0);
        for request in server.requests().iter().filter(|request| request.path.contains("/secrets")) {
            created += usize::from(request.method == "POST");
            deleted += usize::from(request.method == "DELETE");
            let status = request.status.map(|status| status.as_u16());
            assert!(status < Some(300), "{} {} was in vain: seed {seed}", request.method, request.path);
        }
        assert_eq!(created - deleted, wanted, "seed {seed}");
        running.end().await.unwrap();
    }
}

/// On several threads, where workers, handlers and waiters run in parallel.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ask_1_no_child_is_created_twice_on_several_threads() {
    const PARENTS: usize = 40;
    let server = server().await;
    let client = server.client();
    let running = start(controller(&client, "threads").owns::<Secret>().concurrency(8), scale);
    for event in 0..100 {
        let duration = ms(event % 5);
        server.faults().add(Rule::watch(WatchAction::StallFor { event, duration }).resource("secrets"));
    }
    for round in 0..10 {
        for number in 0..PARENTS {
            let name = format!("p{number}");
            if round == 0 {
                create(&client, &name).await;
            }
            let data = json!({"data": {"children": "1", "round": round.to_string()}});
            client.api::<ConfigMap>().namespace("default").patch(&name, &Patch::merge(&data)).await.unwrap();
        }
    }
    while children(&client).await.len() < PARENTS {
        tokio::task::yield_now().await;
    }
    running.end().await.unwrap();
    let children = children(&client).await;
    assert!(children.values().all(|count| *count == 1), "{children:?}");
}
