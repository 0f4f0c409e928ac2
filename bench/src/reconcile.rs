//! From an event to the reconcile that it calls for, on a controller that has nothing else to do.
//!
//! `cargo run --release -p evenkeel-bench -- reconcile [--samples 2000] [--running 0,100,1000,10000]`
//!
//! A time begins right before the bytes of a watch event are handed to the client, and ends with the first line of the
//! reconcile. In between lies everything but the network: the frame is decoded, stored, told to the handler, queued, and
//! taken by a worker. There is one event at a time, a millisecond after the last one; then everything sleeps. Meanwhile
//! other reconciles of the same controller run, and wait for a timer.
//!
//! The event comes from a task of the runtime, which stands for the connection, or from a thread outside, which has the
//! system wake the runtime; that takes as long as the machine likes. `bench/peers` does the same to kube-rs' controller:
//! `cargo run --release --bin reconcile` there.

mod rig;

use std::sync::Arc;

use evenkeel_client::Client;
use evenkeel_runtime::{Controller, Next};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::Failure;
pub(crate) use rig::Options;
use rig::Rig;

/// Measures our controller.
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
