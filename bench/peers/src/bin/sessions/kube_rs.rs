//! kube-rs' side. The buffers of exec are enlarged from its default of 1 KiB.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::net::TcpListener;

use super::{BLOCK, Case, Failure, POD, PORT, counted, discard, fill, through_port, until_closed};

async fn pods(kubeconfig: &Path) -> Result<Api<Pod>, Failure> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Api::namespaced(Client::try_from(config)?, "default"))
}

pub(super) async fn transfer(kubeconfig: &Path, case: Case, bytes: u64, stop: Option<()>) -> Result<(), Failure> {
    let pods = pods(kubeconfig).await?;
    let parameters = AttachParams::default().stderr(false).max_stdin_buf_size(4 * BLOCK).max_stdout_buf_size(4 * BLOCK);
    match case {
        Case::ExecOut => {
            let mut process = pods.exec(POD, case.command(bytes), &parameters).await?;
            // Without a receiver of the status, `join` fails.
            let status = process.take_status().ok_or("no status")?;
            discard(&mut process.stdout().ok_or("no stdout")?, bytes, stop).await?;
            status.await.ok_or("no status")?;
        }
        Case::ExecIn => {
            let mut process = pods.exec(POD, case.command(bytes), &parameters.stdin(true)).await?;
            let mut stdin = process.stdin().ok_or("no stdin")?;
            fill(&mut stdin, bytes).await?;
            counted(&mut process.stdout().ok_or("no stdout")?, bytes).await?;
            drop(stdin);
        }
        Case::StreamOut | Case::StreamIn => {
            let mut forward = pods.portforward(POD, &[PORT]).await?;
            through_port(&mut forward.take_stream(PORT).ok_or("no stream")?, case, bytes, stop).await?;
        }
    }
    Ok(())
}

/// Forwards each connection with a request of its own, as kube-rs' example does.
pub(super) async fn listen(kubeconfig: &Path) -> Result<(), Failure> {
    let pods = pods(kubeconfig).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    tokio::spawn(async move {
        while let Ok((mut local, _)) = listener.accept().await {
            let pods = pods.clone();
            tokio::spawn(async move {
                let mut forward = pods.portforward(POD, &[PORT]).await?;
                let mut stream = forward.take_stream(PORT).ok_or("no stream")?;
                tokio::io::copy_bidirectional(&mut local, &mut stream).await?;
                drop(stream);
                forward.join().await?;
                Ok::<(), Failure>(())
            });
        }
    });
    until_closed().await
}
