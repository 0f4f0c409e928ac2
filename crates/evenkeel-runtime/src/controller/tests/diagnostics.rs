//! The diagnostics of a controller.

use super::*;
use crate::Manager;

/// Returns the enqueue reasons, newest first.
fn reasons(diagnostics: &Diagnostics, controller: &str) -> Vec<String> {
    let queued = diagnostics.section("queued").unwrap_or_default();
    let text = |reason: &Value| {
        format!("{}: {}", reason["key"].as_str().unwrap_or_default(), reason["why"].as_str().unwrap_or_default())
    };
    queued[controller].as_array().into_iter().flatten().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn diagnostics_show_why_each_key_was_enqueued() {
    let server = server().await;
    let (client, diagnostics, trigger) = (server.client(), Diagnostics::new(), Trigger::new());
    trigger.reconcile(key("early"));
    let a = create(&client, "a").await;
    let built = controller(&client, "why").owns::<Secret>().triggered_by(&trigger).resync(secs(100));
    let running = start(built.diagnostics(&diagnostics), |_, _| async { Ok(Next::done()) });
    settle().await;
    assert_eq!(
        reasons(&diagnostics, "why"),
        ["default/a: ConfigMap default/a is in the initial list", "default/early: trigger",]
    );
    let secrets = client.api::<Secret>().namespace("default");
    secrets.create(&child("c", &a)).await.unwrap();
    touch(&client, "a", 1).await;
    settle().await;
    secrets.delete("c").await.unwrap();
    settle().await;
    trigger.reconcile(key("a"));
    assert_eq!(reasons(&diagnostics, "why")[0], "default/a: trigger");
    assert_eq!(reasons(&diagnostics, "why")[1], "default/a: Secret default/c was deleted");
    let mut both = reasons(&diagnostics, "why")[2..4].to_vec();
    both.sort();
    assert_eq!(both, ["default/a: ConfigMap default/a was updated", "default/a: Secret default/c was added"]);
    pass(secs(150)).await;
    assert_eq!(reasons(&diagnostics, "why")[0], "default/a: ConfigMap default/a is unchanged: resync");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn diagnostics_show_each_failed_key_once() {
    let server = server().await;
    let (client, diagnostics) = (server.client(), Diagnostics::new());
    for name in ["bad", "broken", "slow", "good"] {
        create(&client, name).await;
    }
    let limiter = evenkeel_queue::limiter::Exponential::new(secs(10), secs(1000));
    let built = controller(&client, "failures").limiter(limiter).diagnostics(&diagnostics);
    let running = start(built, |object, ctx| async move {
        match object.key().name() {
            "bad" => Err(ReconcileError::new("no room")),
            "broken" => Err(ReconcileError::terminal("never")),
            "slow" if ctx.attempt() == 1 => Ok(Next::requeue()),
            "slow" => Ok(Next::after(secs(600))),
            _ => Ok(Next::done()),
        }
    });
    pass(secs(35)).await;
    let report = diagnostics.section("controllers").unwrap()["failures"].clone();
    assert_eq!(report["queue"]["failing"], 1);
    assert_eq!(report["informers"].as_object().unwrap().len(), 1);
    let failures = report["failures"].as_array().unwrap();
    let texts: Vec<_> = failures.iter().map(|failed| (&failed["key"], &failed["error"], &failed["failures"])).collect();
    assert_eq!(
        texts,
        [(&json!("default/bad"), &json!("no room"), &json!(3)), (&json!("default/broken"), &json!("never"), &json!(1)),]
    );
    assert_eq!((&failures[0]["terminal"], &failures[1]["terminal"]), (&json!(false), &json!(true)));
    assert_eq!(failures[0]["seconds_ago"], 5.0);
    let reasons = reasons(&diagnostics, "failures");
    let of =
        |key: &str| reasons.iter().filter(|reason| reason.starts_with(key)).map(String::as_str).collect::<Vec<_>>();
    assert_eq!(
        of("default/bad"),
        [
            "default/bad: retry after failure 3",
            "default/bad: retry after failure 2",
            "default/bad: retry after failure 1",
            "default/bad: ConfigMap default/bad is in the initial list",
        ]
    );
    assert_eq!(of("default/slow")[..2], ["default/slow: requeue after 600s", "default/slow: requeue"]);
    assert_eq!(of("default/broken").len(), 1);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn diagnostics_show_parked_keys_until_own_writes_are_seen() {
    let server = server().await;
    let (client, diagnostics) = (server.client(), Diagnostics::new());
    let built = controller(&client, "parked").owns::<Secret>().diagnostics(&diagnostics);
    let running = with_a_parked_key(&server, built).await;
    let report = |diagnostics: &Diagnostics| diagnostics.section("controllers").unwrap()["parked"].clone();
    assert_eq!(report(&diagnostics)["parked"], 1);
    assert_eq!(report(&diagnostics)["parked_keys"], json!([{"key": "default/a"}]));
    pass(secs(5)).await;
    assert_eq!((&report(&diagnostics)["parked"], &report(&diagnostics)["parked_keys"]), (&json!(0), &json!([])));
    assert!(reasons(&diagnostics, "parked").contains(&"default/a: own writes seen".to_owned()));
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_most_a_thousand_reasons_are_kept_and_the_oldest_are_evicted() {
    let server = server().await;
    let (diagnostics, trigger) = (Diagnostics::new(), Trigger::new());
    let built = controller(&server.client(), "bounded").triggered_by(&trigger).diagnostics(&diagnostics);
    let standby = built.standby().unwrap();
    for number in 0..1001 {
        trigger.reconcile(key(&number.to_string()));
    }
    let report = reasons(&diagnostics, "bounded");
    assert_eq!((report.len(), &*report[0], &*report[999]), (1000, "default/1000: trigger", "default/1: trigger"));
    drop(standby);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_or_dropped_controller_leaves_no_diagnostics() {
    let server = server().await;
    let (client, diagnostics) = (server.client(), Diagnostics::new());
    create(&client, "a").await;
    let nothing = json!({"errors": []});
    let standby = controller(&client, "removed").diagnostics(&diagnostics).standby().unwrap();
    let (queue, shared) = (standby.started.queue.downgrade(), Arc::downgrade(&standby.started.shared));
    assert!(diagnostics.report()["controllers"]["removed"]["informers"].is_object());
    drop(standby);
    assert_eq!(diagnostics.report(), nothing);
    settle().await;
    assert!(queue.upgrade().is_none() && shared.upgrade().is_none());

    let running = start(controller(&client, "removed").diagnostics(&diagnostics), |_, _| async { Ok(Next::done()) });
    settle().await;
    assert_eq!(reasons(&diagnostics, "removed").len(), 1);
    running.end().await.unwrap();
    assert_eq!(diagnostics.report(), nothing);

    // Without diagnostics, nothing is recorded.
    let standby = controller(&client, "removed").standby().unwrap();
    assert!(!standby.started.history.is_open() && standby.started.diagnostics_entry.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_manager_sets_the_diagnostics_of_controllers_without_their_own() {
    let server = server().await;
    let (client, diagnostics, other) = (server.client(), Diagnostics::new(), Diagnostics::new());
    let named = |name: &str| Controller::<ConfigMap>::new(&client).named(name);
    let manager = Manager::new(&client)
        .controller(named("managed-1"), |_, _| async { Ok(Next::done()) })
        .controller(named("managed-2"), |_, _| async { Ok(Next::done()) })
        .controller(named("managed-3").diagnostics(&other), |_, _| async { Ok(Next::done()) })
        .diagnostics(&diagnostics);
    let (shutdown, requested) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(requested));
    settle().await;
    let names = |diagnostics: &Diagnostics| {
        let controllers = diagnostics.section("controllers").unwrap_or_default();
        controllers.as_object().map(|report| report.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    assert_eq!(names(&diagnostics), ["managed-1", "managed-2"]);
    assert_eq!(names(&other), ["managed-3"]);
    shutdown.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert!(names(&diagnostics).is_empty() && names(&other).is_empty());
}
