//! A controller that crashes between any two of its writes, and restarts.

use evenkeel_apiserver::{Action, Rule};
use evenkeel_client::Patch;
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::*;

/// The writes of the controller, in order: two children and a status.
const WRITES: [(&str, &str); 3] = [("create", "configmaps"), ("create", "secrets"), ("patch", "replicasets")];

/// Where the controller crashes.
#[derive(Clone, Copy, Debug)]
enum CrashPoint {
    /// Before the server commits the write.
    BeforeCommit(usize),
    /// After the commit, before the response.
    BeforeResponse(usize),
    /// After the response, before the next write.
    AfterResponse(usize),
}

impl CrashPoint {
    fn all() -> impl Iterator<Item = CrashPoint> {
        let points = |write| {
            [CrashPoint::BeforeCommit(write), CrashPoint::BeforeResponse(write), CrashPoint::AfterResponse(write)]
        };
        (0..WRITES.len()).flat_map(points)
    }

    /// Returns the fault that stops the controller there; `None` if there is no later write.
    fn fault(self) -> Option<Rule> {
        let (write, action) = match self {
            CrashPoint::BeforeCommit(write) => (write, Action::DropBeforeCommit),
            CrashPoint::BeforeResponse(write) => (write, Action::CommitThenDrop),
            CrashPoint::AfterResponse(write) => (write + 1, Action::Hang),
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

/// Creates a config map and a secret for a set, and writes their number to its status.
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

fn start_controller(client: &Client) -> Running {
    let built = Controller::<ReplicaSet>::new(client).namespace("default").named("crashes");
    start(built.owns::<ConfigMap>().owns::<Secret>(), reconcile)
}

/// Runs the controller until this point and aborts it there. Returns whether the point was reached; otherwise the controller is
/// aborted after a second.
async fn crash(server: &ApiServer, point: CrashPoint) -> bool {
    let fault = point.fault().map(|rule| server.faults().add(rule));
    let running = start_controller(&server.client());
    let is_reached = || server.faults().report().iter().any(|report| Some(report.id) == fault && report.fired > 0);
    for _ in 0..1000 {
        if is_reached() {
            break;
        }
        settle().await;
    }
    let reached = is_reached();
    running.ended.abort();
    let _ = running.ended.await;
    server.faults().clear();
    reached
}

async fn converges(server: &ApiServer, points: &[CrashPoint]) {
    let client = server.client();
    let running = start_controller(&client);
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
    assert_eq!(later.resource_version(), version.resource_version(), "no further writes: {points:?}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_crashes_at_any_points_converge_to_the_same_state() {
    for first in CrashPoint::all() {
        for second in CrashPoint::all() {
            let server = server().await;
            server.client().api::<ReplicaSet>().namespace("default").create(&set()).await.unwrap();
            assert_eq!(crash(&server, first).await, first.fault().is_some(), "{first:?}");
            crash(&server, second).await;
            converges(&server, &[first, second]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_any_point_converges_to_the_same_state() {
    for point in CrashPoint::all() {
        let Some(rule) = point.fault().filter(|_| !matches!(point, CrashPoint::AfterResponse(_))) else { continue };
        let server = server().await;
        server.faults().add(rule);
        server.client().api::<ReplicaSet>().namespace("default").create(&set()).await.unwrap();
        converges(&server, &[point]).await;
        assert_eq!(server.faults().counts().values().sum::<u64>(), 1, "the fault fired: {point:?}");
    }
}
