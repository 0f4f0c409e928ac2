//! `evenkeel controller sample` from the outside: the binary and a server on the network.

use std::process::{Command, Stdio};

use evenkeel::apiserver::ApiServer;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::coordination::v1::Lease;
use evenkeel::testing::eventually;
use evenkeel_sample_controller::{CRD, Foo, FooSpec};

use crate::process::{Process, evenkeel};

/// Returns the command.
fn sample(arguments: &[&str]) -> Command {
    let mut command = evenkeel(&["controller", "sample"]);
    command.args(arguments);
    command
}

fn replica(server: &ApiServer, identity: &str) -> Process {
    let arguments = ["--server", server.url(), "--lease-namespace", "default", "--identity", identity, "--health", "0"];
    Process(sample(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Stops a replica as a kubelet does, and waits for its end.
#[cfg(unix)]
async fn terminate(mut replica: Process) -> Option<i32> {
    replica.signal("TERM");
    tokio::task::spawn_blocking(move || replica.wait().unwrap().code()).await.unwrap()
}

async fn leader(server: &ApiServer) -> Option<String> {
    let lease = server.client().api::<Lease>().namespace("default").get("sample-controller").await.ok()?;
    let holder = lease.typed().unwrap().spec.as_ref()?.holder_identity.clone();
    holder.filter(|holder| !holder.is_empty())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn one_replica_leads_and_another_takes_over_when_it_ends() {
    let server = ApiServer::start().await.unwrap();
    server.install_crds([CRD]).await.unwrap();
    let foos = server.client().api::<Foo>().namespace("default");
    let deployments = server.client().api::<Deployment>().namespace("default");
    let foo = |name: &str| Foo::new(name, FooSpec { deployment_name: name.to_owned(), replicas: 2 });

    let first = replica(&server, "first");
    eventually("the first leads", async || leader(&server).await.filter(|leader| leader == "first")).await.unwrap();
    let second = replica(&server, "second");
    foos.create(&foo("one")).await.unwrap();
    eventually("it works", async || deployments.get("one").await.ok()).await.unwrap();

    assert_eq!(terminate(first).await, Some(0));
    eventually("the second leads", async || leader(&server).await.filter(|leader| leader == "second")).await.unwrap();
    foos.create(&foo("two")).await.unwrap();
    eventually("it works too", async || deployments.get("two").await.ok()).await.unwrap();
    assert_eq!(terminate(second).await, Some(0));
    assert_eq!(leader(&server).await, None, "the lease was given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_definition_is_reported_with_the_command_that_installs_it() {
    let server = ApiServer::start().await.unwrap();
    let mut command = sample(&["--server", server.url(), "--health", "0"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("evenkeel: the cluster has no Foo definition"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[tokio::test]
async fn printed_manifests_can_be_applied() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let printed = |flag| String::from_utf8(sample(&[flag]).output().unwrap().stdout).unwrap();
    let names = server.install_crds([printed("--print-manifests")]).await.unwrap();
    assert_eq!(names, ["foos.samplecontroller.example.com"]);
    assert_eq!(printed("--print-crd"), CRD);
}
