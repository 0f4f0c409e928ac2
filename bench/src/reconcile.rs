//! Latency from an event to its reconcile, on an idle controller.
//!
//! `cargo run --profile measured -p evenkeel-bench -- reconcile [--samples 2000] [--running 0,100,1000,10000]`
//!
//! A measurement starts right before the bytes of a watch event are passed to the client, and ends with the first
//! line of the reconcile. It covers everything but the network: decoding, the store, the handler, the queue and the
//! worker. There is one event at a time, a millisecond after the last one, so that all threads are parked. Meanwhile
//! other reconciles of the same controller are in flight and wait for a timer.
//!
//! The event is sent by a task of the runtime, which stands for the connection, or by another thread, which makes the
//! system wake the runtime; that depends on the machine. `bench/peers` measures kube-rs' controller in the same way:
//! `cargo run --release --bin reconcile` there.

mod rig;

use std::sync::Arc;

use evenkeel_client::Client;
use evenkeel_runtime::{Controller, Next};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::Failure;
pub(crate) use rig::Options;
use rig::Rig;

/// Measures evenkeel's controller.
pub(crate) fn reconcile(options: &Options) -> Result<(), Failure> {
    rig::measure("evenkeel", options, begin)
}

fn begin(rig: &Arc<Rig>, reconciles: usize) {
    let (client, rig) = (Client::from_service(rig.server()), Arc::clone(rig));
    let controller = Controller::<ConfigMap>::new(&client).concurrency(reconciles);
    tokio::spawn(controller.run(std::future::pending::<()>(), move |object, _| {
        let rig = Arc::clone(&rig);
        async move {
            rig.reconcile(object.key().name()).await;
            Ok(Next::done())
        }
    }));
}
