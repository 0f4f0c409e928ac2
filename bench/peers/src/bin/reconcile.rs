//! kube-rs' side of the reconcile benchmark: the same server, events and clock around kube-rs' controller, with its
//! defaults, and a concurrency of the number of keys.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "../../../src/reconcile/rig.rs"]
mod rig;

use std::convert::Infallible;
use std::sync::Arc;

use clap::Parser;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Action;
use kube::runtime::{Controller, watcher};

use rig::{Options, Rig};

/// Measures kube-rs' controller.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    rig::measure("kube-rs", &Arguments::parse().options, begin)
}

fn begin(rig: &Arc<Rig>, _reconciles: usize) {
    let client = kube::Client::new(rig.server(), "default");
    let controller = Controller::new(kube::Api::<ConfigMap>::all(client), watcher::Config::default());
    tokio::spawn(controller.run(reconcile, |_, _, _| Action::await_change(), Arc::clone(rig)).for_each(|_| async {}));
}

async fn reconcile(object: Arc<ConfigMap>, rig: Arc<Rig>) -> Result<Action, Infallible> {
    rig.reconcile(object.metadata.name.as_deref().unwrap_or_default()).await;
    Ok(Action::await_change())
}
