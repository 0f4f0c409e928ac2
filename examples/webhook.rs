//! Admission webhooks: a server with a mutating and a validating hook, and an API server's view of it.
//!
//! ```text
//! cargo run -p evenkeel-examples --example webhook
//! ```
//!
//! In controller-runtime: `webhook.Server`, `CustomDefaulter` and `CustomValidator`. kube-rs has the types of reviews alone.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use evenkeel::client::config::{Pem, ServerUrl};
use evenkeel::client::rest::Path;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::webhook::certificates::Authority;
use evenkeel::webhook::testing::HookTester;
use evenkeel::webhook::{Hook, Mutating, Verdict, WebhookServer};
use evenkeel::{Client, Config};
use evenkeel_examples::Outcome;
use serde_json::{Value, json};

/// The name that API servers call: `<service>.<namespace>.svc`.
const NAME: &str = "hooks.example.svc";

fn default_image() -> Hook<Mutating<Pod>> {
    Hook::mutating::<Pod>().apply(|pod, _| {
        for container in &mut pod.spec.get_or_insert_default().containers {
            container.image.get_or_insert_with(|| "nginx:stable".to_owned());
        }
        Ok(())
    })
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "certificates are valid in real time")]
async fn main() -> Outcome {
    // A hook is tested without a server.
    let pod = json!({"metadata": {"name": "web-0", "namespace": "default"}, "spec": {"containers": [{"name": "app"}]}});
    let answer = HookTester::new(default_image()).create(&pod).await?;
    println!("patch: {}", answer.patch.unwrap_or_default());
    assert_eq!(answer.object["spec"]["containers"][0]["image"], "nginx:stable");

    // Served: a certificate, two hooks, a port. In a cluster the certificate is mounted, and a manager runs the server.
    let now = evenkeel::k8s_openapi::jiff::Timestamp::now();
    let authority = Authority::generate(now)?;
    let certificate = authority.issue(&[NAME], now)?.serve()?;
    let server = WebhookServer::builder()
        .hook(default_image())
        .hook(Hook::validating::<Pod>().on_create(|pod, request| async move {
            println!("{} creates {:?}", request.user().username.as_deref().unwrap_or("?"), pod.metadata.name);
            match pod.spec.as_ref().and_then(|spec| spec.host_network) {
                Some(true) => Err("hostNetwork is for the system".into()),
                _ => Ok(Verdict::allow().warn("pods without an owner are not replaced")),
            }
        }))
        .certificate(&certificate)
        .address("127.0.0.1:0")
        .build()?;
    let running = server.start().await?;
    let address = running.address().ok_or("the server is off")?;
    println!("serving {} on {address}", server.paths().join(", "));

    // What an API server sends, over TLS.
    let mut config = Config::new(ServerUrl::parse(&format!("https://{address}"))?);
    config.tls.ca = Some(Pem::Data(authority.certificate().to_owned()));
    config.tls.server_name = Some(NAME.to_owned());
    let client = Client::new(config)?;
    for host_network in [false, true] {
        let mut pod = pod.clone();
        pod["spec"]["hostNetwork"] = json!(host_network);
        let review = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "name": "web-0", "namespace": "default", "operation": "CREATE",
                "userInfo": {"username": "jane"},
                "object": pod, "oldObject": null, "dryRun": false,
            },
        });
        let request = client.request(http::Method::POST, Path::raw("/validate--v1-pod")).json(&review);
        let answer: Value = request.query("timeout", "10s").send().await?.json()?;
        println!("{}", answer["response"]);
        assert_eq!(answer["response"]["allowed"], json!(!host_network));
    }
    running.shutdown().await;
    Ok(())
}
