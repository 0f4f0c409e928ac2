//! `evenkeel wait` from the outside: the binary and a server on the network.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::{Client, Patch};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

use crate::process::evenkeel;

/// Runs `wait` to its end, on another thread than the server's runtime.
async fn wait(server: &ApiServer, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = evenkeel(&["wait", "--server", server.url()]);
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn create_map(client: &Client, name: &str) {
    let map = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "data": {"phase": "new"}});
    client.api::<ConfigMap>().namespace("default").create(&serde_json::from_value(map).unwrap()).await.unwrap();
}

async fn create_job(client: &Client, condition: Value) {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template}});
    let jobs = client.api::<Job>().namespace("default");
    jobs.create(&serde_json::from_value(job).unwrap()).await.unwrap();
    jobs.status().patch("j", &Patch::merge(&json!({"status": {"conditions": [condition]}}))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kwt_001_objects_that_meet_the_condition_are_named() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    create_map(&client, "a").await;
    create_map(&client, "b").await;
    let (code, output, errors) = wait(&server, &["--for", "jsonpath={.data.phase}=new", "cm/a", "configmaps/b"]).await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(output, "configmaps/a condition met\nconfigmaps/b condition met\n");
    let (code, output, _) = wait(&server, &["--for=create", "cm", "-l", "app=web"]).await;
    assert_eq!((code, output.lines().count()), (Some(0), 2));
    let (code, output, _) = wait(&server, &["--for=delete", "cm/absent"]).await;
    assert_eq!((code, output.as_str()), (Some(0), "configmaps/absent deleted\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn kwt_001_a_change_that_happens_later_ends_the_wait() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let waiting = wait(&server, &["--for", "create", "--for", "jsonpath=.data.phase=done", "cm/a"]);
    let changing = async {
        create_map(&client, "a").await;
        let done = Patch::merge(&json!({"data": {"phase": "done"}}));
        client.api::<ConfigMap>().namespace("default").patch("a", &done).await.unwrap();
    };
    let ((code, output, errors), ()) = tokio::join!(waiting, changing);
    assert_eq!((code, output.as_str()), (Some(0), "configmaps/a condition met\n"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kwt_002_a_timeout_of_zero_looks_once() {
    let server = ApiServer::start().await.unwrap();
    create_map(&server.client(), "a").await;
    for (arguments, message) in [
        (&["--for=jsonpath=.data.phase=x", "cm/a", "--timeout=0"][..], "condition not met for configmaps/a"),
        (
            &["--for=jsonpath=.data.phase=x", "cm/a", "--timeout=1ms"],
            "timed out waiting for the condition on configmaps/a",
        ),
        (&["--for=delete", "cm/a", "--timeout", "0"], "condition not met for configmaps/a"),
        (&["--for=condition=Ready", "cm/b"], "configmaps/b not found"),
        (&["--for=condition=Ready", "cm", "-l", "app=db"], "no matching resources found"),
        (
            &["--for=jsonpath=.metadata.labels=x", "cm/a"],
            "configmaps/a: jsonpath leads to a nested object or list which is not supported",
        ),
    ] {
        let (code, output, errors) = wait(&server, arguments).await;
        assert_eq!((code, output.as_str(), errors.as_str()), (Some(1), "", format!("evenkeel: {message}\n").as_str()));
    }
    let (code, _, errors) = wait(&server, &["--for=ready", "cm/a"]).await;
    assert_eq!(code, Some(2));
    assert!(errors.contains("unrecognized condition: \"ready\""), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kwt_005_a_failed_job_ends_the_wait_with_3() {
    let server = ApiServer::start().await.unwrap();
    let failed = json!({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too slow"});
    create_job(&server.client(), failed).await;
    let (code, output, errors) = wait(&server, &["--for=condition=Complete", "job/j", "--timeout=-1s"]).await;
    assert_eq!((code, output.as_str()), (Some(3), ""), "{errors}");
    let expected =
        "evenkeel: the condition on jobs/j can no longer be met: the job has failed: DeadlineExceeded: too slow\n";
    assert_eq!(errors, expected);
    let both = ["--for=condition=Complete", "--for=condition=Failed", "--any", "job/j"];
    let (code, output, errors) = wait(&server, &both).await;
    assert_eq!((code, output.as_str()), (Some(0), "jobs/j condition met\n"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kwt_005_a_finished_pod_is_never_ready() {
    let server = ApiServer::start().await.unwrap();
    let pods = server.client().api::<Pod>().namespace("default");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&serde_json::from_value(pod).unwrap()).await.unwrap();
    pods.status().patch("p", &Patch::merge(&json!({"status": {"phase": "Succeeded"}}))).await.unwrap();
    let (code, _, errors) = wait(&server, &["--for=condition=Ready", "pod", "p"]).await;
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.starts_with("evenkeel: the condition on pods/p can no longer be met: "), "{errors}");
}
