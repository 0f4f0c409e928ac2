//! Removal of handlers.

use super::*;

#[tokio::test(start_paused = true)]
async fn inf_019_a_registration_can_be_removed_repeatedly_and_at_any_time() {
    let source = source();
    source.add(pod("a")).unwrap();
    let informer = informer_of(&source, options());
    let recorder = Recorder::default();
    let early = informer.add_handler(recorder.clone()).unwrap();
    early.remove();
    early.remove();
    let running = informer.start();
    informer.synced().await.unwrap();
    let second = informer.add_handler(recorder.clone()).unwrap();
    second.synced().await.unwrap();
    second.remove();
    second.remove();
    assert!(!second.is_active());
    let third = informer.add_handler(recorder.clone()).unwrap();
    third.synced().await.unwrap();
    running.drain().await;
    third.remove();
    assert_eq!(recorder.log(), ["initial a@1", "initial a@1"]);
}

/// An informer with a handler in its first call and ten queued notifications.
async fn blocked() -> (RunningInformers, super::super::Registration, Recorder, std::sync::mpsc::Sender<()>) {
    let source = source();
    (0..11).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options());
    let recorder = Recorder::default();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut inner = recorder.clone();
    let handler = move |event: Event<Untyped>| {
        inner.handle(event);
        let _ = released.recv();
    };
    let registration = informer.add_handler(handler.with(HandlerOptions::new().may_block())).unwrap();
    let running = informer.start();
    recorder.received(1).await;
    (running, registration, recorder, release)
}

#[tokio::test(start_paused = true)]
async fn inf_020_no_call_starts_after_a_handler_was_removed() {
    let (running, registration, recorder, release) = blocked().await;
    assert_eq!(registration.lag().pending, 11);
    registration.remove();
    assert_eq!(registration.lag().pending, 0);
    (0..11).for_each(|_| release.send(()).unwrap_or_default());
    registration.shutdown().await;
    assert_eq!(recorder.log().len(), 1);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn inf_021_shutdown_of_a_handler_waits_for_its_last_call() {
    let (_running, registration, recorder, release) = blocked().await;
    let waiting = tokio::spawn({
        let registration = registration.clone();
        async move { registration.shutdown().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(release);
    waiting.await.unwrap();
    assert_eq!(recorder.log().len(), 1);
    let never = informer_of(&source(), options());
    never.add_handler(Recorder::default()).unwrap().shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn inf_022_a_registration_removes_only_its_own_handler() {
    let (first, second) = (source(), source());
    let (_one, _running, _) = started(&first, HandlerOptions::new()).await;
    let (other, _running, recorder) = started(&second, HandlerOptions::new()).await;
    let registration = other.add_handler(Recorder::default()).unwrap();
    registration.shutdown().await;
    second.add(pod("a")).unwrap();
    recorder.received(1).await;
    assert_eq!(recorder.take(), ["add a@1"], "no other handler was removed");
}

#[tokio::test(start_paused = true)]
async fn inf_023_a_registration_removed_before_its_sync_never_syncs() {
    let informer = informer_of(&source(), options());
    let registration = informer.add_handler(Recorder::default()).unwrap();
    registration.remove();
    let _running = informer.start();
    informer.synced().await.unwrap();
    settle().await;
    assert!(!registration.has_synced());
    assert!(registration.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn inf_024_a_handler_may_remove_itself_while_the_informer_stops() {
    let source = source();
    (0..3).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options());
    let own: Arc<Mutex<Option<super::super::Registration>>> = Arc::default();
    let (slot, recorder) = (Arc::clone(&own), Recorder::default());
    let running: Arc<Mutex<Option<RunningInformers>>> = Arc::default();
    let (mut inner, handle) = (recorder.clone(), Arc::clone(&running));
    let registration = informer
        .add_handler(move |event: Event<Untyped>| {
            inner.handle(event);
            drop(handle.lock().unwrap().take());
            slot.lock().unwrap().as_ref().unwrap().remove();
        })
        .unwrap();
    *own.lock().unwrap() = Some(registration);
    *running.lock().unwrap() = Some(informer.start());
    informer.stopped().await;
    assert_eq!(recorder.log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ihc_29_removal_shutdown_and_stop_with_a_handler_in_a_call() {
    let (running, registration, recorder, release) = blocked().await;
    registration.remove();
    assert_eq!(recorder.log().len(), 1, "removal does not wait");
    drop(release);
    registration.shutdown().await;
    assert_eq!(recorder.log().len(), 1);
    running.drain().await;

    let (running, _registration, recorder, release) = blocked().await;
    let stopping = tokio::spawn(running.stop());
    tokio::task::yield_now().await;
    drop(release);
    stopping.await.unwrap();
    assert_eq!(recorder.log().len(), 1, "what waited is dropped");
}

#[tokio::test(start_paused = true)]
async fn prc_008_a_drain_delivers_queued_notifications() {
    let (running, registration, recorder, release) = blocked().await;
    drop(release);
    running.drain().await;
    assert_eq!(recorder.log().len(), 11);
    assert!(registration.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_hold_its_own_informer_and_be_removed_before_the_start() {
    let informer = informer_of(&source(), options());
    let (own, weak) = (informer.clone(), informer.downgrade());
    let registration = informer.add_handler(move |_: Event<Untyped>| drop(own.clone())).unwrap();
    drop(informer);
    registration.remove();
    assert!(registration.synced().await.is_err());
    assert!(weak.upgrade().is_none(), "the last handle was dropped with the handler");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_removes_itself_has_nothing_pending() {
    let source = source();
    (0..3).for_each(|i| drop(source.add(pod(&format!("p{i}"))).unwrap()));
    let informer = informer_of(&source, options());
    let own: Arc<Mutex<Option<super::super::Registration>>> = Arc::default();
    let slot = Arc::clone(&own);
    let registration =
        informer.add_handler(move |_: Event<Untyped>| slot.lock().unwrap().as_ref().unwrap().remove()).unwrap();
    *own.lock().unwrap() = Some(registration.clone());
    let _running = informer.start();
    informer.synced().await.unwrap();
    settle().await;
    assert!(!registration.is_active());
    assert_eq!((registration.lag().pending, registration.lag().delivered), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_filter_leaves_the_handler_its_options() {
    let informer = informer_of(&source(), options());
    let inner = Recorder::default().with(HandlerOptions::new().name("inner").resync(Duration::from_secs(7)));
    let registration = informer.add_handler(crate::Filter::new(|_: &Object| true, inner)).unwrap();
    assert_eq!((registration.name(), registration.resync_period()), ("inner", Duration::from_secs(7)));
}
