//! The status of pods, as a kubelet would report it.

use evenkeel_client::{Client, ListParams, Patch, WatchParams};
use evenkeel_core::WatchEvent;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

use crate::Failure;

/// Reports all containers of all pods as running, until the server ends.
pub(crate) async fn run(client: Client) -> Result<(), Failure> {
    let pods = client.api::<Pod>();
    loop {
        let list = pods.list(&ListParams::default()).await?;
        for pod in &list {
            report(&client, pod.typed()?.as_ref()).await;
        }
        let mut watch = pods.watch(&WatchParams::from_version(list.meta.resource_version.as_str())).await?;
        while let Some(event) = watch.next().await.transpose()? {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event {
                report(&client, pod.typed()?.as_ref()).await;
            }
        }
    }
}

/// Reports the containers of a pod, unless they are reported already.
async fn report(client: &Client, pod: &Pod) {
    let (Some(name), Some(namespace), Some(spec)) = (&pod.metadata.name, &pod.metadata.namespace, &pod.spec) else {
        return;
    };
    let containers: Vec<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.name.as_str()).collect();
    let status = pod.status.clone().unwrap_or_default();
    let is_reported =
        names(&status.container_statuses) == containers && names(&status.ephemeral_container_statuses) == ephemeral;
    if is_reported || pod.metadata.deletion_timestamp.is_some() {
        return;
    }
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": running(containers),
        "ephemeralContainerStatuses": running(ephemeral),
    }});
    // The pod may have been deleted since.
    let _ = client.core_v1().pods(namespace).status().patch(name, &Patch::merge(&status)).await;
}

fn names(statuses: &Option<Vec<ContainerStatus>>) -> Vec<&str> {
    statuses.iter().flatten().map(|status| status.name.as_str()).collect()
}

fn running(names: Vec<&str>) -> Vec<Value> {
    let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let status =
        |name| json!({"name": name, "image": "i", "imageID": "i", "ready": true, "restartCount": 0, "state": state});
    names.into_iter().map(status).collect()
}
