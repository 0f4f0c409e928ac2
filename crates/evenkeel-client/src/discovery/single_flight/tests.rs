use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn failure() -> DiscoveryError {
    DiscoveryError::Unusable { what: "it".into(), problem: "broken".into() }
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_share_a_value_and_an_error() {
    let shared = Arc::new(SingleFlight::<u32>::default());
    let fetches = Arc::new(AtomicUsize::new(0));
    let ask = |outcome: Result<u32, DiscoveryError>| {
        let (shared, fetches) = (Arc::clone(&shared), Arc::clone(&fetches));
        tokio::spawn(async move {
            let fetch = async {
                fetches.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                outcome
            };
            shared.get(fetch).await
        })
    };
    let failing: Vec<_> = (0..50).map(|_| ask(Err(failure()))).collect();
    for task in failing {
        assert!(task.await.unwrap().is_err());
    }
    assert_eq!(fetches.load(Ordering::SeqCst), 1);

    let good: Vec<_> = (0..50).map(|number| ask(Ok(number))).collect();
    let mut values = Vec::new();
    for task in good {
        values.push(*task.await.unwrap().unwrap());
    }
    assert_eq!(fetches.load(Ordering::SeqCst), 2);
    values.dedup();
    assert_eq!(values.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_fetch_is_taken_over_by_the_next_caller() {
    let shared = Arc::new(SingleFlight::<u32>::default());
    let leader = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move { shared.get(std::future::pending()).await }
    });
    tokio::task::yield_now().await;
    let next = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move { shared.get(async { Ok(7) }).await }
    });
    tokio::task::yield_now().await;
    assert!(!next.is_finished());
    leader.abort();
    assert_eq!(*next.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_fetch_started_before_a_clear_is_not_kept() {
    let shared = SingleFlight::<u32>::default();
    let fetch = async {
        shared.clear();
        Ok(1)
    };
    assert_eq!(*shared.get(fetch).await.unwrap(), 1);
    assert!(shared.peek().is_none());
    assert_eq!(*shared.get(async { Ok(2) }).await.unwrap(), 2);
}

#[tokio::test]
async fn a_failed_renewal_leaves_the_old_value() {
    let shared = SingleFlight::<u32>::default();
    let old = shared.get(async { Ok(1) }).await.unwrap();
    assert!(shared.renew(&old, async { Err(failure()) }).await.is_err());
    assert_eq!(*shared.get(async { Ok(2) }).await.unwrap(), 1);
    assert_eq!(*shared.renew(&old, async { Ok(3) }).await.unwrap(), 3);
    assert_eq!(*shared.renew(&old, async { Ok(4) }).await.unwrap(), 3, "it has been renewed since");
}
