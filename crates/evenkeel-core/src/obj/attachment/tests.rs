use super::*;

fn text(value: &AttachedValue) -> &'static str {
    value.downcast_ref::<&'static str>().copied().unwrap_or("another type")
}

#[test]
fn values_are_found_by_their_id() {
    let attachments = Attachments::default();
    assert!(attachments.get(1).is_none());
    for (id, value) in [(1, "one"), (2, "two"), (3, "three")] {
        assert_eq!(text(attachments.get_or_attach(id, Arc::new(value))), value);
    }
    let found: Vec<_> = (1..=4).map(|id| attachments.get(id).map(text)).collect();
    assert_eq!(found, [Some("one"), Some("two"), Some("three"), None]);
}

#[test]
fn the_first_value_of_an_id_stays() {
    let attachments = Attachments::default();
    attachments.get_or_attach(7, Arc::new("first"));
    attachments.get_or_attach(8, Arc::new("another"));
    let second: AttachedValue = Arc::new("second");
    assert_eq!(text(attachments.get_or_attach(7, Arc::clone(&second))), "first");
    assert_eq!(Arc::strong_count(&second), 1, "the second value is dropped");
}

#[test]
fn threads_that_attach_at_once_see_the_same_values() {
    let attachments = Attachments::default();
    let barrier = std::sync::Barrier::new(4);
    let attach = |thread: usize| {
        barrier.wait();
        let attached = (0..64).map(|id| attachments.get_or_attach(id, Arc::new(thread)));
        attached.map(|value| *value.downcast_ref::<usize>().unwrap()).collect::<Vec<_>>()
    };
    let seen: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let attach = &attach;
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || attach(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|values| *values == seen[0]), "{seen:?}");
}
