//! One leader among two replicas: one leads and stops, and the other takes over.
//!
//! ```text
//! cargo run -p evenkeel-examples --example leader_election
//! ```
//!
//! The replicas are tasks of one process here, and pods of a Deployment in a cluster: they share only a Lease on the API
//! server.
//!
//! In client-go: `examples/leader-election`, with `leaderelection.RunOrDie` and its callbacks. Here the work is a future that
//! runs while the lease is held: it is notified when the lease is lost, and dropped before another replica can lead if it does
//! not end. kube-rs has no election; there are other crates for it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use evenkeel::Lease;
use evenkeel::apiserver::ApiServer;
use evenkeel::election::ElectorHandle;
use evenkeel::k8s_openapi::api::coordination::v1;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel::testing::eventually;
use serde_json::json;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let server = ApiServer::start().await?;
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    maps.create(&serde_json::from_value(json!({"metadata": {"name": "settings"}}))?).await?;

    let mut first = Replica::start(&client, "replica-1");
    let first_term = first.worked().await?;

    // The second is on standby: it campaigns, and does no work while the first one leads.
    let mut second = Replica::start(&client, "replica-2");
    let leader = eventually("replica-2 observes the leader", async || second.handle.leader()).await?;
    println!("replica-2 is on standby; the leader is {leader}");
    assert!(first.handle.is_leader() && !second.handle.is_leader());

    // As when a pod gets SIGTERM: the work ends first, then the lease is released, so that the next leader does not wait for
    // its expiry.
    println!("stopping replica-1");
    first.stop().await?;
    let second_term = second.worked().await?;
    // Send the fencing token with external writes, so that those of a former leader can be rejected.
    println!("replica-2 has a higher fencing token: {second_term} after {first_term}");
    assert!(second.handle.is_leader() && second_term > first_term);

    second.stop().await?;
    let lease = client.api::<v1::Lease>().namespace("default").get("my-controller").await?.typed()?;
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    println!("both have stopped; the holder of the lease is {}", if holder.is_empty() { "none" } else { holder });
    assert_eq!(holder, "");
    Ok(())
}

/// A candidate.
struct Replica {
    handle: ElectorHandle,
    running: JoinHandle<Outcome>,
    terms: UnboundedReceiver<u64>,
}

impl Replica {
    /// Campaigns, and runs a controller while it leads.
    fn start(client: &Client, name: &'static str) -> Self {
        // A standby polls the lease at this interval; the default is two seconds.
        let elector =
            LeaderElector::new(client, "my-controller").identity(name).retry_period(Duration::from_millis(200));
        let handle = elector.handle();
        let (report, terms) = mpsc::unbounded_channel();
        let client = client.clone();
        let running = tokio::spawn(async move {
            let work = |lease: Lease| async move {
                println!("{name} leads");
                let term = lease.fencing_token();
                let controller = Controller::<ConfigMap>::new(&client);
                let reconcile = move |map: Obj<ConfigMap>, _| {
                    println!("{name} reconciles {}", map.key());
                    // Fails only if the receiver was dropped.
                    let _ = report.send(term);
                    async { Ok(Next::done()) }
                };
                controller.run(lease.lost(), reconcile).await
            };
            // Returns an error if the lease was lost or the controller failed: the process should exit and be restarted.
            elector.run(work).await?;
            println!("{name} has ended");
            Ok(())
        });
        Replica { handle, running, terms }
    }

    /// Waits for a reconcile and returns its fencing token.
    async fn worked(&mut self) -> Outcome<u64> {
        Ok(timeout(PATIENCE, self.terms.recv()).await?.ok_or("it ended without having led")?)
    }

    /// Stops it gracefully.
    async fn stop(self) -> Outcome {
        self.handle.stop();
        self.running.await?
    }
}
