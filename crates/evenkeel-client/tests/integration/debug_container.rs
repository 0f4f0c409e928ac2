//! Ephemeral debug containers, against an API server in this process. The test takes the place of the kubelet.

use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ContainerProcess, ExitStatus, Faults};
use evenkeel_client::api::scope::Namespaced;
use evenkeel_client::remote::DebugError;
use evenkeel_client::{Api, Error, Patch, SessionError, wait_for};
use k8s_openapi::api::core::v1::{EphemeralContainer, Pod};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

async fn start() -> (ApiServer, Api<Pod, Namespaced>) {
    let attach = |mut process: ContainerProcess| async move {
        let text = format!("{} tty={} stdin={}", process.container, process.tty, process.stdin.is_some());
        process.stdout.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
        ExitStatus::SUCCESS
    };
    let server = ApiServer::builder().attach(attach).in_process_only().start().await.unwrap();
    let pods = server.client().core_v1().pods("default");
    let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "app", "image": "i"}]}});
    pods.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
    (server, pods)
}

fn shell(name: &str) -> EphemeralContainer {
    EphemeralContainer {
        name: name.to_owned(),
        image: Some("busybox".to_owned()),
        target_container_name: Some("app".to_owned()),
        stdin: Some(true),
        tty: Some(true),
        ..EphemeralContainer::default()
    }
}

/// Waits for an ephemeral container, and reports its states as a kubelet does.
async fn report(pods: &Api<Pod, Namespaced>, states: &[Value]) -> String {
    let added = |pod: Option<&evenkeel_core::Obj<Pod>>| {
        pod.is_some_and(|pod| pod.path("spec.ephemeralContainers[0].name").is_ok_and(|name| name.is_some()))
    };
    let pod = wait_for(pods, "web-0", added).await.unwrap().unwrap();
    let name = pod.path("spec.ephemeralContainers[0].name").unwrap().unwrap().text().into_owned();
    for state in states {
        let status =
            json!({"name": name, "state": state, "image": "busybox", "imageID": "", "ready": false, "restartCount": 0});
        let patch = Patch::merge(&json!({"status": {"ephemeralContainerStatuses": [status]}}));
        pods.status().patch("web-0", &patch).await.unwrap();
    }
    name
}

fn debug_error(error: Error) -> DebugError {
    match error {
        Error::Session { source: SessionError::Debug(error), .. } => error,
        other => panic!("{other:?}"),
    }
}

fn pulling() -> Value {
    json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"busybox\""}})
}

#[tokio::test(start_paused = true)]
async fn a_debug_container_is_added_started_and_attached_to() {
    let (_server, pods) = start().await;
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let states = [pulling(), running];
    let (debugger, name) = tokio::join!(pods.debug("web-0", shell("")).into_future(), report(&pods, &states));
    let debugger = debugger.unwrap();
    assert_eq!(debugger.name, name);
    assert_eq!((name.len(), name.strip_prefix("debugger-").map(str::len)), (14, Some(5)));
    assert!(debugger.is_running());
    let output = debugger.attach().output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{name} tty=true stdin=true"));

    // The name is in use now; so are those of other containers.
    for taken in [&*name, "app"] {
        let error = debug_error(pods.debug("web-0", shell(taken)).await.unwrap_err());
        assert!(matches!(&error, DebugError::NameInUse { container, .. } if container == taken), "{error:?}");
    }
    assert!(pods.debug("none", shell("")).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_has_ended_is_no_error() {
    let (_server, pods) = start().await;
    let ended = [json!({"terminated": {"exitCode": 3}})];
    let (debugger, _) = tokio::join!(pods.debug("web-0", shell("once")).into_future(), report(&pods, &ended));
    let debugger = debugger.unwrap();
    assert!(!debugger.is_running());
    assert_eq!(debugger.state.terminated.unwrap().exit_code, 3);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_states_what_the_container_waits_for() {
    let (_server, pods) = start().await;
    let debug = pods.debug("web-0", shell("d")).deadline(Duration::from_secs(30));
    let states = [pulling()];
    let (error, _) = tokio::join!(debug.into_future(), report(&pods, &states));
    let error = debug_error(error.unwrap_err());
    assert_eq!(
        error.to_string(),
        "container \"d\" of pod \"web-0\" does not run after 30s: ImagePullBackOff: Back-off pulling image \"busybox\""
    );
    let (_server, pods) = start().await;
    let error = debug_error(pods.debug("web-0", shell("d")).await.unwrap_err());
    assert!(error.to_string().ends_with("does not run after 300s: its node has not reported a state"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_or_is_deleted_ends_the_wait() {
    let (_server, pods) = start().await;
    let delete = async {
        report(&pods, &[]).await;
        pods.delete("web-0").grace_period(0).await.unwrap();
    };
    let (error, ()) = tokio::join!(pods.debug("web-0", shell("d")).into_future(), delete);
    let error = debug_error(error.unwrap_err());
    assert_eq!(error.to_string(), "pod \"web-0\" was deleted before container \"d\" started");

    let (_server, pods) = start().await;
    let end = async {
        report(&pods, &[]).await;
        pods.status().patch("web-0", &Patch::merge(&json!({"status": {"phase": "Failed"}}))).await.unwrap();
    };
    let (error, ()) = tokio::join!(pods.debug("web-0", shell("d")).into_future(), end);
    assert!(matches!(debug_error(error.unwrap_err()), DebugError::PodEnded { reason: "ended", .. }));
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried_and_refusals_are_not() {
    let (server, pods) = start().await;
    server.faults().add(Faults::parse("status:code=409,verb=patch,times=2").unwrap());
    let running = [json!({"running": {}})];
    let (debugger, _) = tokio::join!(pods.debug("web-0", shell("d")).into_future(), report(&pods, &running));
    assert!(debugger.unwrap().is_running());
    let mut invalid = shell("e");
    invalid.target_container_name = Some("none".to_owned());
    assert!(pods.debug("web-0", invalid).await.unwrap_err().is_invalid());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_subresource_is_named_in_the_error() {
    let (server, pods) = start().await;
    server.faults().add(Faults::parse("status:code=404,verb=patch,times=1").unwrap());
    let error = debug_error(pods.debug("web-0", shell("d")).await.unwrap_err());
    assert!(matches!(error, DebugError::Unsupported), "{error:?}");
}
