//! Store and handlers see transformed objects only.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Adds the label `seen` to each object, and counts its calls.
fn counting(calls: &Arc<AtomicUsize>) -> impl Fn(Object) -> Result<Object, Infallible> + Send + Sync + use<> {
    let calls = Arc::clone(calls);
    move |object| {
        calls.fetch_add(1, Ordering::Relaxed);
        let json =
            String::from_utf8_lossy(&object.raw().unwrap()).replace(r#""name":"#, r#""labels":{"seen":"yes"},"name":"#);
        Ok(Obj::from_json(object.resource(), json).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn ctl_024_handlers_and_store_receive_only_transformed_objects() {
    let source = source();
    source.add(pod("a")).unwrap();
    let calls = Arc::default();
    let informer = informer_of(&source, options().transform(counting(&calls)));
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let log = Arc::clone(&seen);
    let received = watch::Sender::new(0);
    let mut count = received.subscribe();
    informer
        .add_handler(move |event: Event<Untyped>| {
            let is_marked = |object: &Object| object.label("seen") == Some("yes");
            let old = match &event {
                Event::Update { old, .. } => is_marked(old),
                _ => true,
            };
            log.lock().unwrap().push(old && event.object().is_some_and(is_marked));
            received.send_modify(|received| *received += 1);
        })
        .unwrap();
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.modify(pod("a")).unwrap();
    source.delete(pod("a")).unwrap();
    count.wait_for(|received| *received == 3).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn ctl_025_a_resync_transforms_nothing_again() {
    let source = source();
    source.add(pod("a")).unwrap();
    let calls = Arc::default();
    let informer = informer_of(&source, options().transform(counting(&calls)).resync(Duration::from_secs(1)));
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    recorder.received(5).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_relist_transforms_only_what_has_changed() {
    let source = source();
    source.add(pod("a")).unwrap();
    source.add(pod("b")).unwrap();
    let calls = Arc::default();
    let informer = informer_of(&source, options().transform(counting(&calls)));
    let recorder = Recorder::default();
    informer.add_handler(recorder.clone()).unwrap();
    let _running = informer.start();
    recorder.received(2).await;
    let before = informer.indexer().get("a").unwrap();
    source.modify_without_event(pod("b")).unwrap();
    source.reset_watch();
    recorder.received(4).await;
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    let after = informer.indexer().get("a").unwrap();
    assert_eq!(
        before.raw().unwrap().as_ptr(),
        after.raw().unwrap().as_ptr(),
        "it is the same object, not another one like it"
    );
}

#[tokio::test(start_paused = true)]
async fn ihc_27_a_transform_cannot_change_the_identity_of_an_object() {
    for kind in [super::super::QueueKind::Ordered, super::super::QueueKind::Keyed] {
        let source = source();
        source.add(pod("pod1")).unwrap();
        let failures: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&failures);
        let options = options()
            .queue(kind)
            .transform(|object: Object| -> Result<Object, Infallible> {
                let json = String::from_utf8_lossy(&object.raw().unwrap()).replace("\"pod1\"", "\"POD1\"");
                Ok(Obj::from_json(object.resource(), json).unwrap())
            })
            .on_error(move |failure| log.lock().unwrap().push(failure.error.to_string()));
        let informer = informer_of(&source, options);
        let recorder = Recorder::default();
        informer.add_handler(recorder.clone()).unwrap();
        let _running = informer.start();
        informer.synced().await.unwrap();
        source.reset_watch();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(recorder.log().is_empty() && informer.indexer().list().is_empty());
        assert_eq!(failures.lock().unwrap()[0], "the transform changed the key of pod1 to POD1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_is_an_error_of_its_object() {
    let source = source();
    source.add(pod("a")).unwrap();
    source.add(pod("bad")).unwrap();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&errors);
    let options = options()
        .transform(|object: Object| -> Result<Object, std::convert::Infallible> {
            assert_ne!(object.key().name(), "bad", "not this one");
            Ok(object)
        })
        .on_error(move |failure: &crate::reflector::ReflectorFailure| {
            seen.lock().unwrap().push(failure.error.to_string());
            panic!("an error handler that panics is contained as well");
        });
    let informer = informer_of(&source, options);
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    settle().await;
    assert_eq!(stored(&informer), ["a@1", "b@3"]);
    let errors = errors.lock().unwrap();
    assert!(
        errors.len() == 1 && errors[0].starts_with("the transform panicked on") && errors[0].contains("not this one"),
        "{errors:?}"
    );
    assert!(!informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_does_not_stop_the_informer() {
    let source = source();
    source.add(pod("bad")).unwrap();
    let index = crate::Index::by_object("picky", |object: &Object| {
        assert_ne!(object.key().name(), "bad", "not this one");
        [object.key().name().to_owned()]
    });
    let informer = informer_of(&source, options().index(index));
    let _running = informer.start();
    informer.synced().await.unwrap();
    source.add(pod("b")).unwrap();
    settle().await;
    assert_eq!(stored(&informer), ["b@2", "bad@1"]);
    assert_eq!(
        (informer.indexer().by_index("picky", "b").unwrap().len(), informer.indexer().misfits("picky")),
        (1, Ok(1))
    );
    assert!(!informer.is_stopped());
}
