//! Metrics of controllers.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;

type Seen = BTreeMap<String, f64>;

fn seen(recorder: &DebuggingRecorder) -> Seen {
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let named = snapshot.into_iter().filter(|(key, ..)| key.key().name().starts_with("controller_runtime_"));
    named
        .map(|(key, _, _, value)| {
            let key = key.key();
            let mut name = key.name().trim_start_matches("controller_runtime_").to_owned();
            for label in key.labels() {
                match label.key() {
                    "controller" => assert_eq!(label.value(), "co-029"),
                    other => name = format!("{name} {other}={}", label.value()),
                }
            }
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(values) => values.len() as f64,
            };
            (name, value)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn co_029_metrics_have_controller_runtime_names_and_start_at_zero() {
    let recorder = DebuggingRecorder::new();
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let built = controller(&client, "co-029").concurrency(2).timeout(secs(100)).owns::<Secret>();
    let standby = ::metrics::with_local_recorder(&recorder, || built.standby().unwrap());
    let zero: Seen = [
        ("reconcile_total result=success", 0.0),
        ("reconcile_total result=error", 0.0),
        ("reconcile_total result=requeue", 0.0),
        ("reconcile_total result=requeue_after", 0.0),
        ("reconcile_errors_total", 0.0),
        ("terminal_reconcile_errors_total", 0.0),
        ("reconcile_panics_total", 0.0),
        ("reconcile_timeouts_total", 0.0),
        ("reconcile_time_seconds", 0.0),
        ("max_concurrent_reconciles", 2.0),
        ("active_workers", 0.0),
        ("out_of_scope_keys_total", 0.0),
        ("own_write_seconds", 0.0),
        ("own_write_timeouts_total", 0.0),
        ("parked_keys", 0.0),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    assert_eq!(seen(&recorder), zero);
    let (shutdown, requested) = oneshot::channel::<()>();
    let ended = tokio::spawn(standby.lead(requested, move |parent, ctx| {
        let before = log.note("run");
        async move {
            match before {
                0 => Ok(Next::requeue()),
                1 => Ok(Next::after(secs(1))),
                2 => Err(ReconcileError::new("for now")),
                3 => panic!("for now"),
                4 => {
                    pass(secs(200)).await;
                    Ok(Next::done())
                }
                5 => {
                    ctx.api::<Secret>().namespace("default").create(&child("c", &parent)).await?;
                    Ok(Next::requeue())
                }
                6 => Err(ReconcileError::terminal("for good")),
                7 => Ok(Next::done()),
                _ => std::future::pending().await,
            }
        }
    }));
    pass(secs(300)).await;
    touch(&client, "a", 1).await;
    settle().await;
    touch(&client, "a", 2).await;
    settle().await;
    let now = seen(&recorder);
    let expected = [
        ("reconcile_total result=success", 1.0),
        ("reconcile_total result=error", 4.0),
        ("reconcile_total result=requeue", 2.0),
        ("reconcile_total result=requeue_after", 1.0),
        ("reconcile_errors_total", 4.0),
        ("terminal_reconcile_errors_total", 1.0),
        ("reconcile_panics_total", 1.0),
        ("reconcile_timeouts_total", 1.0),
        ("active_workers", 1.0),
        ("own_write_seconds", 1.0),
        ("own_write_timeouts_total", 0.0),
    ];
    for (name, value) in expected {
        assert_eq!(now[name], value, "{name} of {now:?}");
    }
    let _ = shutdown.send(());
    assert!(ended.await.unwrap().is_err());
    assert_eq!(seen(&recorder)["active_workers"], -1.0, "one less than at the last check");
}
