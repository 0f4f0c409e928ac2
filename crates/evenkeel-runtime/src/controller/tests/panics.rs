//! A controller that is stopped between any two of its writes, and begun again.

use evenkeel_apiserver::{Action, Rule};
use evenkeel_client::Patch;
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::*;

/// Its writes, in their order: two children and a status.
const WRITES: [(&str, &str); 3] = [("create", "configmaps"), ("create", "secrets"), ("patch", "replicasets")];

/// Where it is stopped.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// The server has not done what it was asked for.
    BeforeCommit(usize),
    /// The server has done it, and nobody knows.
    BeforeAnswer(usize),
    /// The controller knows it, and the next write has not come to the server.
    AfterAnswer(usize),
}

impl Point {
    fn all() -> impl Iterator<Item = Point> {
        let points = |write| [Point::BeforeCommit(write), Point::BeforeAnswer(write), Point::AfterAnswer(write)];
        (0..WRITES.len()).flat_map(points)
    }

    /// What stops it there. None if there is no write after it.
    fn fault(self) -> Option<Rule> {
        let (write, action) = match self {
            Point::BeforeCommit(write) => (write, Action::DropBeforeCommit),
            Point::BeforeAnswer(write) => (write, Action::CommitThenDrop),
            Point::AfterAnswer(write) => (write + 1, Action::Hang),
        };
        let (verb, resource) = WRITES.get(write)?;
        Some(Rule::new(action).verb(*verb).resource(*resource).times(1))
    }
}

fn set() -> ReplicaSet {
    value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}
    }))
}

/// Gives a set a configuration and a secret, and says in its status how many it has.
async fn reconcile(set: Obj<ReplicaSet>, ctx: Context) -> Result<Next, ReconcileError> {
    let mut ready = 2;
    let metadata = json!({"name": "web-child", "ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set.uid(), "controller": true
    }]});
    if ctx.lister::<ConfigMap>()?.get(key("web-child")).is_none() {
        let config: ConfigMap = value(json!({"metadata": metadata}));
        ctx.api::<ConfigMap>().namespace("default").create(&config).await?;
        ready -= 1;
    }
    if ctx.lister::<Secret>()?.get(key("web-child")).is_none() {
        let secret: Secret = value(json!({"metadata": metadata}));
        ctx.api::<Secret>().namespace("default").create(&secret).await?;
        ready -= 1;
    }
    if ready == 2 && set.path("status.replicas").unwrap().and_then(|value| value.as_i64()) != Some(2) {
        let patch = Patch::merge(&json!({"status": {"replicas": 2}}));
        ctx.api::<ReplicaSet>().namespace("default").status().patch("web", &patch).await?;
    }
    Ok(Next::done())
}

fn begin(client: &Client) -> Running {
    let built = Controller::<ReplicaSet>::new(client).namespace("default").named("crashes");
    start(built.owns::<ConfigMap>().owns::<Secret>(), reconcile)
}

/// Runs it until it comes to this point, and stops it there, without a word. Answers whether it came there; if there is nothing
/// more to do at that point, it is stopped a second later.
async fn crash(server: &ApiServer, point: Point) -> bool {
    let fault = point.fault().map(|rule| server.faults().add(rule));
    let running = begin(&server.client());
    let has_come = || server.faults().report().iter().any(|report| Some(report.id) == fault && report.fired > 0);
    for _ in 0..1000 {
        if has_come() {
            break;
        }
        settle().await;
    }
    let came = has_come();
    running.ended.abort();
    let _ = running.ended.await;
    server.faults().clear();
    came
}

async fn converges(server: &ApiServer, points: &[Point]) {
    let client = server.client();
    let running = begin(&client);
    pass(secs(10)).await;
    let sets = client.api::<ReplicaSet>().namespace("default");
    let version = sets.get("web").await.unwrap();
    assert_eq!(version.path("status.replicas").unwrap().and_then(|value| value.as_i64()), Some(2), "{points:?}");
    let is_child = |owner: Option<evenkeel_core::OwnerRef<'_>>| owner.is_some_and(|owner| owner.uid == version.uid());
    let configs = client.api::<ConfigMap>().namespace("default").list(&Default::default()).await.unwrap();
    assert_eq!(configs.items.iter().filter(|config| is_child(config.controller())).count(), 1, "{points:?}");
    let secrets = client.api::<Secret>().namespace("default").list(&Default::default()).await.unwrap();
    assert_eq!(secrets.items.iter().filter(|secret| is_child(secret.controller())).count(), 1, "{points:?}");
    pass(secs(600)).await;
    let later = sets.get("web").await.unwrap();
    assert_eq!(later.resource_version(), version.resource_version(), "and then it leaves it alone: {points:?}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn wherever_it_is_stopped_and_stopped_again_it_comes_to_the_same_end() {
    for first in Point::all() {
        for second in Point::all() {
            let server = server().await;
            server.client().api::<ReplicaSet>().namespace("default").create(&set()).await.unwrap();
            assert_eq!(crash(&server, first).await, first.fault().is_some(), "{first:?}");
            crash(&server, second).await;
            converges(&server, &[first, second]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_while_it_goes_on_it_comes_to_the_same_end() {
    for point in Point::all() {
        let Some(rule) = point.fault().filter(|_| !matches!(point, Point::AfterAnswer(_))) else { continue };
        let server = server().await;
        server.faults().add(rule);
        server.client().api::<ReplicaSet>().namespace("default").create(&set()).await.unwrap();
        converges(&server, &[point]).await;
        assert_eq!(server.faults().counts().values().sum::<u64>(), 1, "it has happened: {point:?}");
    }
}
