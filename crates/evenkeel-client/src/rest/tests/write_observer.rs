//! What observers of writes receive when there is no usable response.

use super::*;
use crate::write_observer::{ObservedWrite, WriteResult};

/// Sends a delete of one pod that gets these responses, and returns what the observer received.
async fn observed(steps: impl IntoIterator<Item = ScriptStep>) -> Vec<String> {
    let script = Script::new(steps);
    let writes = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&writes);
    let client = script.client_with(|config| config.timeout = Some(Duration::from_secs(30)));
    let client = client.with_write_observer(move |write: &ObservedWrite<'_>| {
        let result = match write.result {
            WriteResult::Unknown => "unknown",
            WriteResult::Removed { .. } => "removed",
            _ => "other",
        };
        recorded.lock().unwrap().push(format!("{:?} {} {result}", write.verb, write.key.unwrap()));
    });
    let info = pods();
    let _ = client.request(Method::DELETE, Path::resource(&info).namespace("ns").name("a")).send().await;
    std::mem::take(&mut *writes.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_response_was_lost_is_reported_as_unknown() {
    let html = ScriptStep::ok().header("content-type", "text/html").body("<p>");
    for step in [
        ScriptStep::Fail(TransportFault::Reset),
        ScriptStep::Fail(TransportFault::Timeout),
        ScriptStep::Hang,
        ScriptStep::HangInBody,
        ScriptStep::Cut,
        ScriptStep::code(500),
        ScriptStep::code(504),
        html,
    ] {
        assert_eq!(observed([step.clone()]).await, ["Delete ns/a unknown"], "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_did_not_happen_is_not_reported() {
    for step in [
        ScriptStep::Fail(TransportFault::Refused),
        ScriptStep::Fail(TransportFault::Tls),
        ScriptStep::Fail(TransportFault::ConnectTimeout),
        ScriptStep::code(403),
        ScriptStep::code(404),
        ScriptStep::code(409),
        ScriptStep::code(429),
    ] {
        assert!(observed([step.clone()]).await.is_empty(), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_repeated_is_reported_once() {
    let done = ScriptStep::ok().body(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#);
    assert_eq!(observed([ScriptStep::later(503, "1"), done]).await, ["Delete ns/a removed"]);
}
