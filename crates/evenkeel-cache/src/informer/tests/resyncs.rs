//! Resyncs of handlers.

use super::*;

#[tokio::test(start_paused = true)]
async fn ihc_04_a_handler_with_a_resync_period_is_resynced_without_one_of_the_informer() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let (asks, silent) = (Recorder::default(), Recorder::default());
    informer.add_handler(asks.clone().with(HandlerOptions::new().resync(Duration::from_secs(30)))).unwrap();
    informer.add_handler(silent.clone()).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert_eq!(asks.take(), ["initial a@1", "update a@1->1", "update a@1->1", "update a@1->1", "update a@1->1"]);
    assert_eq!(silent.take(), ["initial a@1"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_can_enable_resyncs() {
    let source = source();
    source.add(pod("a")).unwrap();
    let (informer, _running, silent) = started(&source, HandlerOptions::new()).await;
    let late = Recorder::default();
    informer.add_handler(late.clone().with(HandlerOptions::new().resync(Duration::from_secs(30)))).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(late.take(), ["initial a@1", "update a@1->1", "update a@1->1"]);
    assert_eq!(silent.take(), ["initial a@1"]);
}

#[tokio::test(start_paused = true)]
async fn rsy_010_a_check_without_due_handlers_does_nothing() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options().resync(Duration::from_secs(1)));
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone().with(HandlerOptions::new().resync(Duration::from_secs(10)))).unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    let commits = informer.shared.table.commits();
    tokio::time::sleep(Duration::from_millis(9_500)).await;
    assert_eq!(recorder.take(), ["initial a@1"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(recorder.take(), ["update a@1->1"]);
    assert_eq!(informer.shared.table.commits(), commits, "the store was not written");
    assert_eq!(source.requests().len(), 2, "the server was not asked");
}

#[tokio::test(start_paused = true)]
async fn a_registration_returns_its_resync_period() {
    let informer = informer_of(&source(), options().resync(Duration::from_secs(60)));
    let often =
        informer.add_handler(Recorder::default().with(HandlerOptions::new().resync(Duration::from_secs(5)))).unwrap();
    let default = informer.add_handler(Recorder::default()).unwrap();
    assert_eq!((often.resync_period(), default.resync_period()), (Duration::from_secs(5), Duration::from_secs(60)));
    let _running = informer.start();
    let late =
        informer.add_handler(Recorder::default().with(HandlerOptions::new().resync(Duration::from_secs(2)))).unwrap();
    assert_eq!(late.resync_period(), Duration::from_secs(5));
    late.remove();
    assert_eq!(late.resync_period(), Duration::ZERO);
}
