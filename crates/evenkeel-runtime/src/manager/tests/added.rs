//! Controllers that are added to a running manager.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::sync::Semaphore;

use super::*;
use crate::controller::{ControllerError, Source};

fn controller(server: &ApiServer, name: &str) -> Controller<ConfigMap> {
    Controller::<ConfigMap>::new(&server.client()).named(name)
}

/// Adds a controller that records what it reconciles.
fn add(handle: &ManagerHandle, controller: Controller<ConfigMap>, log: &Log) -> AddedController {
    let log = log.clone();
    let name = controller.handle().name().to_owned();
    handle.controller(controller, move |config, _| {
        log.note(format!("{name} {}", config.key().name()));
        async { Ok(Next::done()) }
    })
}

#[tokio::test(start_paused = true)]
async fn dwc_008_a_controller_begins_at_once_or_when_this_process_leads() {
    let (server, log) = (server().await, Log::default());
    let ballot = Ballot::new(&log);
    let manager = Manager::new(&server.client()).election(ballot.clone());
    let handle = manager.handle();
    let running = start(manager);
    create(&server, "a").await;
    settle().await;
    let early = add(&handle, controller(&server, "dwc-008-early"), &log);
    pass(60).await;
    assert_eq!(log.take(), ["+campaign"], "it is a standby");
    assert!(early.handle().not_ready().is_empty(), "its caches are filled");
    ballot.leads.send_replace(true);
    settle().await;
    assert_eq!(log.take(), ["dwc-008-early a"]);
    let late = add(&handle, controller(&server, "dwc-008-late"), &log);
    settle().await;
    assert_eq!(log.take(), ["dwc-008-late a"]);
    drop(early);
    late.detach();
    settle().await;
    create(&server, "b").await;
    settle().await;
    assert_eq!(log.take(), ["dwc-008-late b"], "a dropped handle stops its controller, a detached one does not");
    running.end().await.unwrap();
    let too_late = add(&handle, controller(&server, "dwc-008-too-late"), &log);
    assert_eq!(too_late.stop().await.unwrap().dropped_keys, 0);
}

#[tokio::test(start_paused = true)]
async fn dwc_009_a_controller_is_stopped_alone_and_reports_the_dropped_keys() {
    let (server, log) = (server().await, Log::default());
    let client = server.client();
    let manager = Manager::new(&client);
    let (handle, informers) = (manager.handle(), manager.informers().clone());
    let kept = log.clone();
    let running = start(manager.controller(controller(&server, "dwc-009-kept"), move |config, _| {
        kept.note(format!("kept {}", config.key().name()));
        async { Ok(Next::done()) }
    }));
    for number in 0..5 {
        create(&server, &format!("m{number}")).await;
    }
    pass(1).await;
    assert_eq!(log.take().len(), 5);
    let gate = Arc::new(Semaphore::new(0));
    let added = handle.controller(controller(&server, "dwc-009").owns::<Secret>(), {
        let (log, gate) = (log.clone(), Arc::clone(&gate));
        move |config, _| {
            let (log, gate) = (log.clone(), Arc::clone(&gate));
            async move {
                log.note(format!("+{}", config.key().name()));
                gate.acquire().await?.forget();
                log.note(format!("-{}", config.key().name()));
                Ok(Next::done())
            }
        }
    });
    let secrets = added.handle().watch(Source::<Secret>::of()).unwrap();
    pass(1).await;
    assert_eq!(log.take(), ["+m0"]);
    assert_eq!(informers.statuses().len(), 2);
    let stopping = tokio::spawn(added.stop());
    pass(5).await;
    assert!(!stopping.is_finished(), "the reconcile has the grace period");
    gate.add_permits(1);
    let report = stopping.await.unwrap().unwrap();
    assert_eq!((report.dropped_keys, log.take()), (4, vec!["-m0".to_owned()]));
    let names: Vec<_> = informers.statuses().into_iter().map(|status| status.name).collect();
    assert_eq!(names, ["configmaps"], "the informer of secrets is released");
    assert!(matches!(secrets.synced().await, Err(ControllerError::SourceRemoved { .. })));
    create(&server, "after").await;
    settle().await;
    assert_eq!(log.take(), ["kept after"], "the other one is left alone");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_009_a_reconcile_that_exceeds_the_grace_is_dropped_and_the_manager_continues() {
    let (server, log) = (server().await, Log::default());
    let reconciled = log.clone();
    let manager = Manager::new(&server.client()).controller(controller(&server, "dwc-009-fast"), move |config, _| {
        reconciled.note(format!("reconcile {}", config.key().name()));
        async { Ok(Next::done()) }
    });
    let handle = manager.handle();
    let running = start(manager);
    create(&server, "a").await;
    pass(1).await;
    let slow = controller(&server, "dwc-009-slow").grace(Duration::from_secs(3));
    let added = handle.controller(slow, |_, _| std::future::pending());
    pass(1).await;
    let started = Instant::now();
    let error = added.stop().await.unwrap_err();
    assert!(matches!(error, ControllerError::GraceExceeded { running: 1, .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    log.take();
    create(&server, "b").await;
    settle().await;
    assert_eq!(log.take(), ["reconcile b"]);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_009_a_standby_is_stopped_too_and_its_keys_are_counted() {
    let (server, log) = (server().await, Log::default());
    let ballot = Ballot::new(&log);
    let manager = Manager::new(&server.client()).election(ballot.clone());
    let (handle, informers) = (manager.handle(), manager.informers().clone());
    let running = start(manager);
    create(&server, "a").await;
    let added = add(&handle, controller(&server, "dwc-009-standby"), &log);
    pass(1).await;
    assert_eq!(added.stop().await.unwrap().dropped_keys, 1);
    assert!(informers.statuses().is_empty());
    ballot.leads.send_replace(true);
    settle().await;
    assert_eq!(log.take(), ["+campaign"], "it never reconciles");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dwc_009_a_controller_that_fails_stops_the_manager() {
    let (server, log) = (server().await, Log::default());
    let manager = Manager::new(&server.client());
    let handle = manager.handle();
    let running = start(manager);
    settle().await;
    let added = add(&handle, controller(&server, "dwc-009-invalid").labels("!!"), &log);
    let error = running.ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ManagerError::Controller(ControllerError::InvalidConfig { .. })), "{error}");
    assert!(added.stop().await.is_ok());

    let client = server.client();
    let named = |name: &str| Controller::<ConfigMap>::new(&client).named(name);
    let manager = Manager::new(&client).controller(named("dwc-009-once"), |_, _| async { Ok(Next::done()) });
    let handle = manager.handle();
    let running = start(manager);
    settle().await;
    let own = InformerFactory::builder(&client).build();
    let _twice = add(&handle, named("dwc-009-twice").informers(&own), &log);
    let error = running.ended.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("dwc-009-twice") && error.contains("Manager::with_informers"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dwc_007_a_name_is_free_when_its_controller_has_ended_and_its_gauges_are_zero() {
    let (server, log) = (server().await, Log::default());
    let recorder = DebuggingRecorder::new();
    let manager = Manager::new(&server.client());
    let handle = manager.handle();
    let running = start(manager);
    settle().await;
    create(&server, "a").await;
    for _ in 0..3 {
        let added = add(&handle, controller(&server, "dwc-007"), &log);
        settle().await;
        assert_eq!(log.take(), ["dwc-007 a"]);
        added.stop().await.unwrap();
        let again = controller(&server, "dwc-007").standby().unwrap();
        assert_eq!(again.name(), "dwc-007", "it is not numbered");
    }
    running.end().await.unwrap();

    let standby = ::metrics::with_local_recorder(&recorder, || controller(&server, "dwc-007").standby().unwrap());
    let concurrency = || {
        let snapshot = recorder.snapshotter().snapshot().into_vec();
        let name = crate::controller::metrics::MAX_CONCURRENT;
        snapshot.into_iter().find(|(key, ..)| key.key().name() == name).map(|(.., value)| value)
    };
    assert!(matches!(concurrency(), Some(DebugValue::Gauge(workers)) if workers.into_inner() == 1.0));
    drop(standby);
    assert!(matches!(concurrency(), Some(DebugValue::Gauge(workers)) if workers.into_inner() == 0.0));
}
