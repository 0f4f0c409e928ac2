//! What observers of attempts receive.

use super::*;
use crate::attempt_observer::ObservedAttempt;
use crate::error::Error;

type Attempts = Arc<Mutex<Vec<String>>>;

/// Returns a client whose observer records every attempt under this name.
fn observed(client: &Client, name: &'static str, seen: &Attempts) -> Client {
    let seen = Arc::clone(seen);
    client.with_attempt_observer(move |attempt: &ObservedAttempt<'_>| {
        let outcome = match attempt.outcome {
            Ok(status) => status.as_u16().to_string(),
            Err(error) => format!("{:?}", error.fault()),
        };
        seen.lock().unwrap().push(format!("{name}: {} {outcome}", attempt.request));
    })
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_reported_with_its_outcome() {
    let steps = [ScriptStep::Fail(TransportFault::Reset), ScriptStep::later(503, "1"), ScriptStep::ok()];
    let (script, seen) = (Script::new(steps), Attempts::default());
    let client = observed(&script.client(), "a", &seen);
    get(&client).send().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["a: GET /version Reset", "a: GET /version 503", "a: GET /version 200"]);
}

#[tokio::test(start_paused = true)]
async fn the_newest_observer_is_first_and_a_dropped_attempt_is_not_reported() {
    let (script, seen) = (Script::new([ScriptStep::Hang, ScriptStep::ok()]), Attempts::default());
    let client = observed(&observed(&script.client(), "outer", &seen), "inner", &seen);
    let request = get(&client).timeout(Duration::from_secs(1));
    assert!(matches!(request.send().await, Err(Error::Timeout { .. })));
    assert!(seen.lock().unwrap().is_empty(), "nothing is known of an attempt that was dropped");
    request.send().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["inner: GET /version 200", "outer: GET /version 200"]);
}
