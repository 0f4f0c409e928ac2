//! Two managers and one lease, against the embedded server.

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
    elected: &mpsc::UnboundedSender<&'static str>,
) -> (Arc<Notify>, JoinHandle<Result<(), ManagerError>>) {
    let end = Arc::new(Notify::new());
    let elector = LeaderElector::new(client, "program").namespace("default").identity(name);
    let elected = elected.clone();
    let manager = Manager::new(client).election(elector).elected("work", move |stop| async move {
        elected.send(name).unwrap();
        stop.requested().await;
        Ok::<(), ManagerError>(())
    });
    let shutdown = Arc::clone(&end);
    (end, tokio::spawn(async move { manager.run(shutdown.notified()).await }))
}

#[tokio::test]
async fn co_026_one_manager_leads_and_the_next_takes_over_when_it_stops() {
    let server = ApiServer::start().await.unwrap();
    let (report, mut elected) = mpsc::unbounded_channel();
    let (end_first, first) = program(&server.client(), "first", &report);
    assert_eq!(elected.recv().await, Some("first"));
    let (end_second, second) = program(&server.client(), "second", &report);

    end_first.notify_one();
    first.await.unwrap().unwrap();
    assert_eq!(
        elected.recv().await,
        Some("second"),
        "the lease was released, so the second does not wait for its expiry"
    );

    end_second.notify_one();
    second.await.unwrap().unwrap();
    drop(report);
    assert_eq!(elected.recv().await, None, "no manager led twice");
}

#[tokio::test]
async fn co_026_a_manager_that_never_led_starts_no_elected_task() {
    let server = ApiServer::start().await.unwrap();
    let (report, mut elected) = mpsc::unbounded_channel();
    let (end_first, first) = program(&server.client(), "first", &report);
    assert_eq!(elected.recv().await, Some("first"));

    let (end_second, second) = program(&server.client(), "second", &report);
    end_second.notify_one();
    second.await.unwrap().unwrap();
    end_first.notify_one();
    first.await.unwrap().unwrap();
    drop(report);
    assert_eq!(elected.recv().await, None);
}
