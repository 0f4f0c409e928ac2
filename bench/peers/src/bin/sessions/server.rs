//! evenkeel's embedded server, with the commands and the port of `conformance/streaming` that the benchmark uses.

use std::path::Path;

use evenkeel_apiserver::{ApiServer, ContainerProcess, ExitStatus, PortConnection};
use evenkeel_client::Patch;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::{Failure, POD, discard, fill, until_closed};

pub(super) async fn serve(kubeconfig: &Path) -> Result<(), Failure> {
    let server = ApiServer::builder().exec(run).port_forward(connect).start().await?;
    let pods = server.client().core_v1().pods("default");
    let pod = json!({
        "metadata": {"name": POD},
        "spec": {"containers": [{"name": "main", "image": "scripted"}]},
    });
    pods.create(&serde_json::from_value::<Pod>(pod)?).await?;
    // kubectl forwards ports of running pods only.
    pods.status().patch(POD, &Patch::merge(&json!({"status": {"phase": "Running"}}))).await?;
    std::fs::write(kubeconfig, server.kubeconfig())?;
    println!("{}", kubeconfig.display());
    until_closed().await
}

async fn run(mut process: ContainerProcess) -> ExitStatus {
    match transfer(&mut process).await {
        Ok(()) => ExitStatus::SUCCESS,
        Err(_) => ExitStatus::exited(1),
    }
}

async fn transfer(process: &mut ContainerProcess) -> Result<(), Failure> {
    let [name, number] = &process.command[..] else { return Err("there are two arguments".into()) };
    let bytes = number.parse()?;
    let stdout = process.stdout.as_mut().ok_or("no stdout")?;
    match name.as_str() {
        "produce" => fill(stdout, bytes).await,
        _ => {
            discard(process.stdin.as_mut().ok_or("no stdin")?, bytes, None).await?;
            Ok(stdout.write_all(format!("{bytes} bytes\n").as_bytes()).await?)
        }
    }
}

async fn connect(connection: PortConnection) -> Result<(), Failure> {
    let mut stream = BufReader::with_capacity(super::BLOCK, connection.stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let (name, number) = line.trim_end().split_once(' ').ok_or("there are two words")?;
    let bytes = number.parse()?;
    match name {
        "get" => fill(&mut stream, bytes).await,
        _ => {
            discard(&mut stream, bytes, None).await?;
            Ok(stream.write_all(format!("{bytes} bytes\n").as_bytes()).await?)
        }
    }
}
