//! evenkeel's side.

use std::path::Path;

use evenkeel_client::api::scope::Namespaced;
use evenkeel_client::config::Overrides;
use evenkeel_client::{Api, Client, Config};
use k8s_openapi::api::core::v1::Pod;

use super::{Case, Failure, POD, PORT, counted, discard, fill, through_port, until_closed};

fn pods(kubeconfig: &Path) -> Result<Api<Pod, Namespaced>, Failure> {
    let client = Client::new(Config::from_kubeconfig_file(kubeconfig, &Overrides::default())?)?;
    Ok(client.core_v1().pods("default"))
}

pub(super) async fn transfer(kubeconfig: &Path, case: Case, bytes: u64, stop: Option<()>) -> Result<(), Failure> {
    let pods = pods(kubeconfig)?;
    match case {
        Case::ExecOut => {
            let mut process = pods.exec(POD, case.command(bytes)).no_stderr().await?;
            discard(&mut process.stdout.take().ok_or("no stdout")?, bytes, stop).await?;
            process.wait().await?;
        }
        Case::ExecIn => {
            let mut process = pods.exec(POD, case.command(bytes)).stdin().no_stderr().await?;
            fill(&mut process.stdin.take().ok_or("no stdin")?, bytes).await?;
            counted(&mut process.stdout.take().ok_or("no stdout")?, bytes).await?;
            process.wait().await?;
        }
        Case::StreamOut | Case::StreamIn => {
            let mut stream = pods.port_forward(POD).connect(PORT).await?;
            through_port(&mut stream, case, bytes, stop).await?;
        }
    }
    Ok(())
}

pub(super) async fn listen(kubeconfig: &Path) -> Result<(), Failure> {
    let listener = pods(kubeconfig)?.port_forward(POD).listen([format!(":{PORT}")]).await?;
    println!("{}", listener.ports().first().ok_or("no port")?.local_port());
    until_closed().await
}
