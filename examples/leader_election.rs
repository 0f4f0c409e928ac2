//! One leader among many replicas: two of them run, one of them works, it goes away, and the other takes over.
//!
//! ```text
//! cargo run -p evenkeel-examples --example leader_election
//! ```
//!
//! The two are tasks of one process here, and pods of a Deployment elsewhere: all they share is a Lease on the API server.
//!
//! In client-go: `examples/leader-election`, with `leaderelection.RunOrDie` and its callbacks. Here the work is a future that
//! runs while the lease is held: it is told when the lease is lost, and dropped before anybody else can lead if it does not end.
//! kube-rs has none; there are other crates for it.

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

/// What has not happened by then will not happen.
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

    // The second stands by: it campaigns, and works on nothing while the first one leads.
    let mut second = Replica::start(&client, "replica-2");
    let leader = eventually("replica-2 sees who leads", async || second.handle.leader()).await?;
    println!("replica-2 stands by, and sees that {leader} leads");
    assert!(first.handle.is_leader() && !second.handle.is_leader());

    // As when a pod gets SIGTERM: the work ends first, then the lease is given back, so that nobody has to wait for it to expire.
    println!("replica-1 is told to stop");
    first.stop().await?;
    let second_term = second.worked().await?;
    // Send this number along with what you write elsewhere, and a leader of the past can be told from that of today.
    println!("the term of replica-2 has a higher number: {second_term} after {first_term}");
    assert!(second.handle.is_leader() && second_term > first_term);

    second.stop().await?;
    let lease = client.api::<v1::Lease>().namespace("default").get("my-controller").await?.typed()?;
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    println!("both are gone, and the lease belongs to {}", if holder.is_empty() { "nobody" } else { holder });
    assert_eq!(holder, "");
    Ok(())
}

/// One of the processes that could lead.
struct Replica {
    handle: ElectorHandle,
    running: JoinHandle<Outcome>,
    terms: UnboundedReceiver<u64>,
}

impl Replica {
    /// Takes part in the election, and runs a controller while it leads.
    fn start(client: &Client, name: &'static str) -> Self {
        // Who stands by looks this often whether the lease is free: two seconds, unless told otherwise.
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
                    // Whoever waited for this may have heard enough.
                    let _ = report.send(term);
                    async { Ok(Next::done()) }
                };
                controller.run(lease.lost(), reconcile).await
            };
            // An error if the lease was lost or the controller failed: the process exits then, and is restarted.
            elector.run(work).await?;
            println!("{name} has ended");
            Ok(())
        });
        Replica { handle, running, terms }
    }

    /// Waits until it has reconciled something, and says in which term.
    async fn worked(&mut self) -> Outcome<u64> {
        Ok(timeout(PATIENCE, self.terms.recv()).await?.ok_or("it ended without having led")?)
    }

    /// Ends it in an orderly way.
    async fn stop(self) -> Outcome {
        self.handle.stop();
        self.running.await?
    }
}
