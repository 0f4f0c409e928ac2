//! Our server: a validator of pods, and a defaulter that adds a label.

use std::fs;
use std::path::Path;
use std::time::Duration;

use evenkeel_runtime::health::{MetricsSource, Prometheus};
use evenkeel_webhook::certificates::Authority;
use evenkeel_webhook::{Hook, WebhookServer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::SERVER_NAME;
use crate::Failure;

/// Writes a certificate for [`SERVER_NAME`], and the authority that signed it.
pub(super) fn write_certificate(folder: &Path) -> Result<(), Failure> {
    let now = Timestamp::now();
    let authority = Authority::generate(now)?;
    let pair = authority.issue(&[SERVER_NAME], now)?;
    fs::create_dir_all(folder)?;
    fs::write(folder.join("ca.crt"), authority.certificate())?;
    fs::write(folder.join("tls.crt"), pair.certificate())?;
    fs::write(folder.join("tls.key"), pair.key())?;
    Ok(())
}

/// Serves. Metrics are recorded, as controller-runtime always does.
pub(super) async fn serve(folder: &Path) -> Result<(), Failure> {
    let metrics = Prometheus::install()?;
    let server = WebhookServer::builder()
        .hook(Hook::validating::<Pod>().on_create(|pod, _| std::future::ready(check(&pod).map_err(Into::into))))
        .hook(Hook::mutating::<Pod>().apply(|pod, _| {
            pod.metadata.labels.get_or_insert_default().insert("bench.evenkeel.dev/seen".into(), "true".into());
            Ok(())
        }))
        .certificate_directory(folder)
        .address("127.0.0.1:0")
        .build()?;
    let running = server.start().await?;
    println!("{}", running.address().ok_or("the server is off")?);
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        metrics.upkeep();
    }
}

/// Refuses pods without a team, and containers whose image has no tag.
fn check(pod: &Pod) -> Result<(), String> {
    if !pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("team")) {
        return Err("the pod has no label team".to_owned());
    }
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        let image = container.image.as_deref().unwrap_or_default();
        if !image.rsplit('/').next().unwrap_or_default().contains(':') {
            return Err(format!("the image of container {} has no tag", container.name));
        }
    }
    Ok(())
}
