use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;

fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", &format!("o{number}"))
}

#[test]
fn pending_keys_are_coalesced_and_bounded() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let trigger = Trigger::new();
    ::metrics::with_local_recorder(&recorder, || {
        for _ in 0..3 {
            trigger.reconcile_all((0..100).map(key), AddOptions::new());
        }
        assert_eq!(trigger.state().pending.len(), 100, "each key once");
        trigger.reconcile_all((0..PENDING_LIMIT + 10).map(key), AddOptions::new());
        trigger.reconcile(key(0));
        trigger.reconcile(key(PENDING_LIMIT));
    });
    assert_eq!(trigger.state().pending.len(), PENDING_LIMIT);
    let counted = snapshots
        .snapshot()
        .into_vec()
        .into_iter()
        .find_map(|(key, _, _, value)| (key.key().name() == metrics::TRIGGER_DROPPED).then_some(value));
    assert!(matches!(counted, Some(DebugValue::Counter(11))), "{counted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_attaches_receives_the_pending_keys() {
    let trigger = Trigger::new();
    trigger.reconcile_all((0..PENDING_LIMIT + 1).map(key), AddOptions::new());
    let queue = WorkQueue::builder().build();
    trigger.attach(&queue, &History::default());
    assert_eq!((queue.len(), trigger.state().pending.len()), (PENDING_LIMIT, 0));
    trigger.reconcile(key(PENDING_LIMIT));
    assert_eq!(queue.len(), PENDING_LIMIT + 1, "keys reach an attached controller without a limit");
}
