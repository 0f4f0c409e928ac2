use super::*;

#[test]
fn wrh_008_equal_changes_in_a_row_are_counted_and_their_number_is_bounded() {
    let writes = RepeatedWrites::default();
    assert_eq!([1, 1, 1, 1].map(|change| writes.count(0, change)), [1, 2, 3, 4]);
    assert_eq!([2, 1, 1].map(|change| writes.count(0, change)), [1, 1, 2], "another change starts again");
    for object in 0..10_000 {
        writes.count(object, 0);
    }
    assert!(writes.changes().len() <= MAX_OBJECTS);
}

/// Counts log events.
#[derive(Clone, Default)]
struct Events(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl tracing::field::Visit for Events {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
    }
}

impl tracing::Subscriber for Events {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().contains("repeated_writes")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

#[test]
fn wrh_008_the_third_equal_change_in_a_row_is_a_warning_with_its_path() {
    let events = Events::default();
    let _listening = crate::test_logs::listen(events.clone());
    let writes = RepeatedWrites::default();
    let info = ResourceInfo::new("apps", "v1", "Deployment", "deployments", true);
    let key = ObjectKey::namespaced("default", "web");
    let unset = serde_json::json!({"spec": {"strategy": null}});
    for _ in 0..2 {
        writes.record(&info, &key, Some(&unset));
    }
    writes.record(&info, &key, None);
    for _ in 0..2 {
        writes.record(&info, &key, Some(&unset));
    }
    assert_eq!(events.0.lock().unwrap().len(), 0, "not in a row");
    for _ in 0..5 {
        writes.record(&info, &key, Some(&unset));
    }
    let text = std::mem::take(&mut *events.0.lock().unwrap()).join(" ");
    assert_eq!(text.matches("path=").count(), 1, "{text}");
    assert!(text.contains("spec.strategy") && text.contains("default/web"), "{text}");
}
