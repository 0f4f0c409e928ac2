//! The controller in an inspector.

use super::*;
use crate::Manager;
use crate::inspect::Inspector;

fn names(report: &Value, of: &str) -> Vec<String> {
    report[of].as_array().into_iter().flatten().map(|source| source["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the last step of a key, and its state.
fn last_step(inspector: &Inspector, key: &str) -> (String, String) {
    let report = inspector.report(Some(key));
    let step = report["follow"]["steps"].as_array().and_then(|steps| steps.last()).unwrap();
    let text = |field: &str| step[field].as_str().unwrap().to_owned();
    (text("text"), text("stage"))
}

#[tokio::test(start_paused = true)]
async fn the_inspector_shows_informers_queue_failures_and_enqueue_reasons() {
    let server = server().await;
    let (client, inspector) = (server.client(), Inspector::new());
    let a = create(&client, "a").await;
    let built = controller(&client, "inspected").owns::<Secret>().inspector(&inspector);
    let running = start(built, |object, ctx| async move {
        match object.key().name() {
            "bad" if ctx.attempt() == 1 => Err(ReconcileError::new("no room")),
            "broken" => Err(ReconcileError::terminal("never")),
            _ => Ok(Next::done()),
        }
    });
    settle().await;
    let secrets = client.api::<Secret>().namespace("default");
    let secret = secrets.create(&child("c", &a)).await.unwrap();
    create(&client, "bad").await;
    create(&client, "broken").await;
    pass(secs(1)).await;
    let report = inspector.report(Some("default/c"));
    assert_eq!((names(&report, "informers").len(), names(&report, "queues")), (2, vec!["inspected".to_owned()]));
    let errors: Vec<_> = report["errors"].as_array().unwrap().iter().map(|error| error["error"].clone()).collect();
    assert_eq!(errors, ["no room", "never"]);
    assert_eq!(last_step(&inspector, "default/broken"), ("failed; not retried".to_owned(), "done".to_owned()));
    let row = &report["keys"]["rows"][0];
    assert_eq!(
        (&row["key"], &row["state"], &row["error"]),
        (&json!("default/broken"), &json!("gave up"), &json!("never"))
    );
    assert_eq!(
        (&report["queues"][0]["counts"]["failed"], &report["queues"][0]["counts"]["planned"]),
        (&json!(2), &json!(0))
    );
    let steps = report["follow"]["steps"].as_array().unwrap();
    let added = steps.iter().find(|step| step["cause"].is_object()).unwrap();
    assert_eq!((&added["key"], &added["source"]), (&json!("default/a"), &json!("inspected")));
    assert_eq!((&added["cause"]["kind"], &added["cause"]["key"]), (&json!("Secret"), &json!("default/c")));
    assert_eq!(added["cause"]["version"], secret.resource_version());
    running.end().await.unwrap();
    settle().await;
    let report = inspector.report(None);
    assert!(names(&report, "informers").is_empty() && names(&report, "queues").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_requeued_key_is_shown_as_delayed() {
    let server = server().await;
    let (client, inspector) = (server.client(), Inspector::new());
    create(&client, "often").await;
    create(&client, "later").await;
    let built = controller(&client, "coming-back").inspector(&inspector);
    let running = start(built, |object, _| async move {
        match object.key().name() {
            "later" => Ok(Next::after(secs(60)).priority(5)),
            _ => Ok(Next::requeue()),
        }
    });
    settle().await;
    for key in ["default/often", "default/later"] {
        let delayed = ("finished; delayed".to_owned(), "delayed".to_owned());
        assert_eq!(last_step(&inspector, key), delayed, "{key}");
    }
    // No failure: the reconcile asked for it.
    let report = inspector.report(None);
    let counts = &report["queues"][0]["counts"];
    assert!(counts["failed"] == 0 && counts["planned"].as_u64() >= Some(2), "{counts}");
    let rows = report["keys"]["rows"].as_array().unwrap();
    let later = rows.iter().find(|row| row["key"] == "default/later").unwrap();
    assert_eq!((&later["state"], &later["why"]), (&json!("scheduled"), &json!("planned by its reconcile")));
    assert!(later["next"].as_f64() > later["since"].as_f64(), "{later}");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_is_in_flight_until_it_is_requeued() {
    let server = server().await;
    let (client, inspector) = (server.client(), Inspector::new());
    let built = controller(&client, "parked_keys").owns::<Secret>().inspector(&inspector);
    let running = with_a_parked_key(&server, built).await;
    assert_eq!(last_step(&inspector, "default/a").1, "workers");
    let row = &inspector.report(None)["keys"]["rows"][0];
    assert_eq!((&row["key"], &row["state"]), (&json!("default/a"), &json!("parked")));
    pass(secs(5)).await;
    let report = inspector.report(Some("default/a"));
    let steps = report["follow"]["steps"].as_array().unwrap();
    let released = steps.iter().find(|step| step["text"] == "finished; requeued").unwrap();
    assert_eq!(released["stage"], "queue");
    assert_eq!(last_step(&inspector, "default/a"), ("reconciled".to_owned(), "done".to_owned()));
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_sets_the_inspector_of_controllers_without_their_own() {
    let server = server().await;
    let (client, inspector, other) = (server.client(), Inspector::new(), Inspector::new());
    let named = |name: &str| Controller::<ConfigMap>::new(&client).named(name);
    let manager = Manager::new(&client)
        .controller(named("shown-1"), |_, _| async { Ok(Next::done()) })
        .controller(named("shown-2"), |_, _| async { Ok(Next::done()) })
        .controller(named("shown-3").inspector(&other), |_, _| async { Ok(Next::done()) })
        .inspector(&inspector);
    let (shutdown, requested) = oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(requested));
    settle().await;
    let report = inspector.report(None);
    assert_eq!(names(&report, "queues"), ["shown-1", "shown-2"]);
    assert_eq!(names(&report, "informers").len(), 1, "a shared informer is shown once");
    assert_eq!(names(&other.report(None), "queues"), ["shown-3"]);
    shutdown.send(()).unwrap();
    running.await.unwrap().unwrap();
}
