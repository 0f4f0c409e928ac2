//! Outcomes of a reconcile, and their effect on the key.

use super::*;

#[tokio::test(start_paused = true)]
async fn co_001_done_waits_for_the_next_event() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-001-done"), {
        let log = log.clone();
        move |object, ctx| {
            log.note(format!("{} {}", object.key(), ctx.attempt()));
            async { Ok(Next::done()) }
        }
    });
    pass(secs(3600)).await;
    assert_eq!(log.take(), ["default/a 1"]);
    touch(&client, "a", 1).await;
    settle().await;
    assert_eq!(log.take(), ["default/a 1"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_001_requeues_and_errors_share_one_growing_backoff() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-001-requeue"), {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            assert_eq!(ctx.attempt() as usize, before + 1);
            async move {
                match before {
                    0 | 2 => Ok(Next::requeue()),
                    1 | 3 => Err(ReconcileError::new("not yet")),
                    _ => Ok(Next::done()),
                }
            }
        }
    });
    pass(secs(60)).await;
    let gaps = log.gaps();
    assert_eq!(gaps.len(), 4);
    for (gap, expected) in gaps.iter().zip([5, 10, 20, 40]) {
        assert!(*gap >= ms(expected) && *gap < ms(expected + 5), "{gaps:?}");
    }
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_001_after_requeues_the_key_and_resets_its_backoff() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-001-after"), {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            let attempt = ctx.attempt();
            async move {
                match before {
                    0 => Err(ReconcileError::new("the first time")),
                    1 => {
                        assert_eq!(attempt, 2);
                        Ok(Next::after(secs(30)))
                    }
                    _ => {
                        assert_eq!(attempt, 1, "a success has no failures");
                        Ok(Next::after(Duration::ZERO))
                    }
                }
            }
        }
    });
    pass(secs(300)).await;
    let gaps = log.gaps();
    assert_eq!(gaps.len(), 2, "zero means never");
    assert!(gaps[1] >= secs(30) && gaps[1] < secs(31), "{gaps:?}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_002_a_terminal_error_is_not_retried_and_resets_the_backoff() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-002"), {
        let log = log.clone();
        move |_, ctx| {
            let before = log.note("run");
            let attempt = ctx.attempt();
            async move {
                match before {
                    0 | 1 => Err(ReconcileError::new("for now")),
                    2 => {
                        assert_eq!(attempt, 3);
                        Err(ReconcileError::terminal("for good"))
                    }
                    _ => {
                        assert_eq!(attempt, 1);
                        Ok(Next::done())
                    }
                }
            }
        }
    });
    pass(secs(3600)).await;
    assert_eq!(log.len(), 3);
    touch(&client, "a", 1).await;
    settle().await;
    assert_eq!(log.len(), 4);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_003_a_requeued_key_keeps_its_priority_unless_next_sets_another() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-003"), {
        let log = log.clone();
        move |_, ctx| {
            log.note(format!("priority {}", ctx.priority()));
            let run = log.len();
            async move {
                match run {
                    1 => Err(ReconcileError::new("not yet")),
                    2 => Ok(Next::requeue()),
                    3 => Ok(Next::after(secs(1))),
                    4 => Ok(Next::requeue().priority(7)),
                    5 => Ok(Next::after(secs(1)).priority(9)),
                    _ => Ok(Next::done()),
                }
            }
        }
    });
    pass(secs(60)).await;
    let low = "priority -100";
    assert_eq!(log.take(), [low, low, low, low, "priority 7", "priority 9"], "that of the first list is low");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_004_workers_reconcile_different_keys_concurrently_and_one_key_once() {
    let server = server().await;
    let client = server.client();
    for number in 0..10 {
        create(&client, &format!("p{number}")).await;
    }
    let (now, most) = (Arc::new(Mutex::new(Vec::<ObjectKey>::new())), Arc::new(Mutex::new(0)));
    let running = start(controller(&client, "co-004").concurrency(3), {
        let (now, most) = (now.clone(), most.clone());
        move |object, _| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                {
                    let mut now = now.lock().unwrap();
                    assert!(!now.contains(object.key()));
                    now.push(object.key().clone());
                    let mut most = most.lock().unwrap();
                    *most = now.len().max(*most);
                }
                pass(secs(1)).await;
                now.lock().unwrap().retain(|key| key != object.key());
                Ok(Next::done())
            }
        }
    });
    for round in 0..20 {
        touch(&client, "p3", round).await;
        pass(ms(300)).await;
    }
    pass(secs(10)).await;
    assert_eq!(*most.lock().unwrap(), 3);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_005_the_backoff_is_configurable() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let limiter = evenkeel_queue::limiter::Exponential::new(secs(1), secs(3));
    let running = start(controller(&client, "co-005").limiter(limiter), {
        let log = log.clone();
        move |_, _| {
            log.note("run");
            async { Err(ReconcileError::new("never")) }
        }
    });
    pass(secs(14)).await;
    let gaps: Vec<_> = log.gaps().iter().map(Duration::as_secs).collect();
    assert_eq!(gaps, [1, 2, 3, 3, 3]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_006_a_panic_is_retried_and_affects_no_other_key() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "bad").await;
    create(&client, "good").await;
    let running = start(controller(&client, "co-006"), {
        let log = log.clone();
        move |object, _| {
            let before = log.note(object.key());
            // Not only in the future, but also in the function that returns it.
            assert!(!(object.key().name() == "bad" && before == 0), "the first time");
            async move {
                assert!(!(object.key().name() == "bad" && before == 1), "the second time");
                Ok(Next::done())
            }
        }
    });
    pass(secs(10)).await;
    let mut lines = log.take();
    lines.sort();
    assert_eq!(lines, ["default/bad", "default/bad", "default/bad", "default/good"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_006_a_panic_propagates_if_it_is_not_recovered() {
    let server = server().await;
    let client = server.client();
    create(&client, "bad").await;
    let running = start(controller(&client, "co-006-out").recover_panics(false), |_, _| async { panic!("as it is") });
    let error = running.ended.await.unwrap_err();
    assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&"as it is"));
}

#[tokio::test(start_paused = true)]
async fn co_007_a_reconcile_that_exceeds_the_timeout_is_dropped_and_retried() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-007").timeout(secs(5)), {
        let log = log.clone();
        move |_, _| {
            let (log, before) = (log.clone(), log.note("started"));
            async move {
                if before == 0 {
                    pass(secs(3600)).await;
                }
                log.note("finished");
                Ok(Next::done())
            }
        }
    });
    pass(secs(60)).await;
    assert_eq!(log.gaps().len(), 2);
    assert_eq!(log.take(), ["started", "started", "finished"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_requeued_has_failed_once() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "dropped"), {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.attempt());
            async move { Ok(if ctx.attempt() < 4 { Next::requeue() } else { Next::done() }) }
        }
    });
    pass(secs(60)).await;
    assert_eq!(log.take(), ["1", "2", "3", "4"]);
    running.end().await.unwrap();
}
