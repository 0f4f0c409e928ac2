//! Compressed and idle responses.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::error::Error;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn compressed(bytes: &[u8]) -> ScriptStep {
    ScriptStep::ok().header("content-encoding", "gzip").body(gzip(bytes))
}

#[tokio::test(start_paused = true)]
async fn sec_42_compressed_responses_and_errors_are_decoded() {
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
    let refusal = ScriptStep::code(404).header("content-encoding", "gzip").header("content-type", "application/json");
    let script = Script::new([compressed(b"{\"a\":1}"), refusal.body(gzip(status.as_bytes()))]);
    let client = script.client();
    assert_eq!(&get(&client).send().await.unwrap().bytes()[..], b"{\"a\":1}");
    assert!(get(&client).send().await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn sec_42_unrequested_encodings_and_excessive_inflation_are_rejected() {
    let bomb = compressed(&vec![b' '; 8 << 20]);
    let odd = ScriptStep::ok().header("content-encoding", "br");
    let script = Script::new([odd, bomb.clone(), bomb, compressed(&[b' '; 200])]);
    let client = script.client_with(|config| config.limits.object = 4 << 20);
    let error = get(&client).send().await.unwrap_err();
    assert!(matches!(&error, Error::Unreadable { problem, .. } if problem.contains("br")), "{error}");
    let error = get(&client).send().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "a thousand times larger than what came: {error}");
    let patient = script.client_with(|config| {
        config.limits.object = 4 << 20;
        config.limits.inflation = usize::MAX;
    });
    let error = get(&patient).send().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit, .. } if limit == 4 << 20), "{error}");
    let strict = script.client_with(|config| config.limits.object = 100);
    let error = get(&strict).send().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 100, .. }), "it is the size that counts, not what came: {error}");
}

#[tokio::test(start_paused = true)]
async fn responses_may_be_compressed_and_streams_may_not() {
    let script = Script::new([]);
    let client = script.client();
    get(&client).send().await.unwrap();
    get(&client).stream().await.unwrap();
    get(&client).watch::<()>(&pods()).await.unwrap();
    get(&script.client_with(|config| config.compression = false)).send().await.unwrap();
    get(&client).header(http::header::ACCEPT_ENCODING, "br").send().await.unwrap();
    let asked: Vec<_> = script.seen().into_iter().map(|seen| seen.headers["accept-encoding"].clone()).collect();
    assert_eq!(asked, ["gzip", "identity", "identity", "identity", "br"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_body_fails_a_request_and_not_a_watch() {
    let script = Script::new([ScriptStep::HangInBody, ScriptStep::HangInBody]);
    let client = script.client();
    let error = get(&client).send().await.unwrap_err();
    assert!(matches!(&error, Error::Transport { source, .. } if source.fault() == TransportFault::Timeout), "{error}");
    assert_eq!(script.started.elapsed(), client.config().connections.body_idle_timeout);
    let mut watch = get(&client).watch::<()>(&pods()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(3600), watch.next()).await.is_err());
}
