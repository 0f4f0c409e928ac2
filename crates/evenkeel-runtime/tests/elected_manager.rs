//! Two managers and one lease, against the embedded server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Client;
use evenkeel_runtime::manager::ManagerError;
use evenkeel_runtime::{LeaderElector, Manager};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// Returns a manager that reports when it leads, and a way to stop it.
fn program(
    client: &Client,
    name: &'static str,
    told: &mpsc::UnboundedSender<&'static str>,
) -> (Arc<Notify>, JoinHandle<Result<(), ManagerError>>) {
    let end = Arc::new(Notify::new());
    let elector = LeaderElector::new(client, "program").namespace("default").identity(name);
    let told = told.clone();
    let manager = Manager::new(client).election(elector).elected("work", move |stop| async move {
        told.send(name).unwrap();
        stop.requested().await;
        Ok::<(), ManagerError>(())
    });
    let shutdown = Arc::clone(&end);
    (end, tokio::spawn(async move { manager.run(shutdown.notified()).await }))
}

#[tokio::test]
async fn co_026_one_manager_leads_and_the_next_takes_over_when_it_stops() {
    let server = ApiServer::start().await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let (end_first, first) = program(&server.client(), "first", &tell);
    assert_eq!(told.recv().await, Some("first"));
    let (end_second, second) = program(&server.client(), "second", &tell);

    end_first.notify_one();
    first.await.unwrap().unwrap();
    assert_eq!(told.recv().await, Some("second"), "the lease was given back, so nobody waits for its end");

    end_second.notify_one();
    second.await.unwrap().unwrap();
    drop(tell);
    assert_eq!(told.recv().await, None, "nobody led a second time");
}

#[tokio::test]
async fn co_026_a_manager_that_never_led_starts_no_elected_task() {
    let server = ApiServer::start().await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let (end_first, first) = program(&server.client(), "first", &tell);
    assert_eq!(told.recv().await, Some("first"));

    let (end_second, second) = program(&server.client(), "second", &tell);
    end_second.notify_one();
    second.await.unwrap().unwrap();
    end_first.notify_one();
    first.await.unwrap().unwrap();
    drop(tell);
    assert_eq!(told.recv().await, None);
}
