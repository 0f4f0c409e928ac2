//! Programs to read and run; none needs a cluster. `cargo run -p evenkeel-examples --example first_steps`.

use std::error::Error;
use std::future::Future;
use std::process::Command;

use evenkeel_apiserver::ApiServer;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// What an example ends with.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Runs a program in a cluster: the one that `KUBECONFIG` names, else one that is started here and filled with a little
/// something. In that case the program runs in a process of its own, whose `KUBECONFIG` names the new cluster: it finds its
/// way as it would anywhere.
pub fn with_a_cluster(program: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
        return runtime.block_on(program);
    }
    let kubeconfig = std::env::temp_dir().join(format!("evenkeel-example-{}.kubeconfig", std::process::id()));
    let ended = runtime.block_on(async {
        let server = ApiServer::builder().tls().start().await?;
        fill(&server).await?;
        server.write_kubeconfig(&kubeconfig)?;
        let mut program = Command::new(std::env::current_exe()?);
        program.args(std::env::args_os().skip(1)).env("KUBECONFIG", &kubeconfig);
        Outcome::Ok(tokio::task::spawn_blocking(move || program.status()).await??)
    });
    std::fs::remove_file(&kubeconfig)?;
    match ended? {
        ended if ended.success() => Ok(()),
        ended => Err(format!("the program ended with {ended}").into()),
    }
}

async fn fill(server: &ApiServer) -> Outcome {
    let client = server.client();
    for name in ["web-0", "web-1"] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}
        }))?;
        client.core_v1().pods("default").create(&pod).await?;
    }
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]}
            }
        }
    }))?;
    client.apps_v1().deployments("default").create(&deployment).await?;
    Ok(())
}

/// The Rust code of the documents that people learn from: `cargo test -p evenkeel-examples --doc` compiles all of it, and runs what
/// is a whole program.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../docs/guide.md")]
    struct Guide;

    #[doc = include_str!("../docs/from-client-go.md")]
    struct FromClientGo;

    #[doc = include_str!("../docs/from-kube-rs.md")]
    struct FromKubeRs;
}
