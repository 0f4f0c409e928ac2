//! Lists from scripted bodies.

use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use http::Method;
use k8s_openapi::api::core::v1::Pod;

use super::super::testing::{BodyStep, ReaderFixture, Script, response};
use super::*;
use crate::transport::{TransportError, TransportFault};

const JSON: &str = "application/json";
const LIST: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},"items":[
    {"metadata":{"name":"a"}},{"metadata":{"name":7}},{"metadata":{"name":"c"}}]}"#;

/// In the middle of the second item.
fn middle() -> usize {
    LIST.find("7}").unwrap()
}

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Pod>())
}

async fn begin(fixture: &ReaderFixture, response: http::Response<Body>) -> Result<ListStream<Pod>, Error> {
    fixture.reader().list_stream(&pods(), response).await
}

/// All items of a list, as text.
async fn all(stream: &mut ListStream<Pod>) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(item) = stream.next().await {
        words.push(item.map_or_else(|error| error.to_string(), |pod| pod.key().to_string()));
    }
    words
}

#[tokio::test]
async fn an_undecodable_item_is_skipped() {
    let fixture = ReaderFixture::new(Method::GET);
    let mut stream = begin(&fixture, response(200, JSON, LIST)).await.unwrap();
    assert!(stream.meta().is_none(), "the end has not come");
    assert_eq!(stream.next().await.unwrap().unwrap().key().as_str(), "a");
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.is_about_one_item(), "{error}");
    assert!(error.to_string().contains("items[1]"), "{error}");
    assert_eq!(all(&mut stream).await, ["c"]);
    let meta = stream.meta().unwrap();
    assert_eq!((meta.resource_version.as_str(), meta.continue_token.as_str()), ("7", "more"));
    assert!(stream.is_terminated() && stream.next().await.is_none());
}

#[tokio::test]
async fn items_are_returned_before_the_list_ends_and_are_not_read_ahead() {
    let fixture = ReaderFixture::new(Method::GET);
    let (first, rest) = LIST.split_at(middle());
    let (script, watched) =
        Script::body([BodyStep::Chunk(first.into()), BodyStep::Wait, BodyStep::Chunk(rest.into()), BodyStep::Hang]);
    let mut stream = begin(&fixture, http::Response::new(script)).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().key().as_str(), "a");
    assert_eq!(watched.polled(), 1);
    drop(stream);
    assert_eq!(watched.dropped(), 1, "dropping it ends the request");
}

#[tokio::test]
async fn a_list_that_breaks_off_is_not_complete() {
    let fixture = ReaderFixture::new(Method::GET);
    let mut cut = begin(&fixture, response(200, JSON, &LIST[..middle()])).await.unwrap();
    let words = all(&mut cut).await;
    assert!(words.last().unwrap().contains("stream ended at byte"), "{words:?}");
    assert!(cut.meta().is_none());

    let lost = BodyStep::Fail(Box::new(TransportError::bare(TransportFault::Reset, "api.test")));
    let (script, _) = Script::body([BodyStep::Chunk(LIST[..middle()].to_owned().into()), lost]);
    let mut lost = begin(&fixture, http::Response::new(script)).await.unwrap();
    let words = all(&mut lost).await;
    assert_eq!(words.len(), 2);
    assert!(words[1].ends_with("api.test reset the connection"), "{words:?}");
    assert!(lost.meta().is_none() && lost.next().await.is_none());
}

#[tokio::test]
async fn a_body_that_is_not_a_list_is_an_error() {
    let fixture = ReaderFixture::new(Method::GET);
    assert!(begin(&fixture, response(403, JSON, r#"{"kind":"Status","code":403}"#)).await.unwrap_err().is_forbidden());
    for (body, problem) in
        [("", "0-length body instead of a list"), (r#"{"kind":"Table","rows":[]}"#, "expected a list, found Table")]
    {
        let mut stream = begin(&fixture, response(200, JSON, body)).await.unwrap();
        let words = all(&mut stream).await;
        assert!(words.len() == 1 && words[0].ends_with(problem), "{words:?}");
        assert!(stream.meta().is_none());
    }
}

#[tokio::test]
async fn a_list_above_the_limit_is_an_error() {
    let mut fixture = ReaderFixture::new(Method::GET);
    fixture.limits.list = 50;
    let mut stream = begin(&fixture, response(200, JSON, LIST)).await.unwrap();
    let words = all(&mut stream).await;
    assert!(words.len() == 1 && words[0].contains("larger than the limit of 50 bytes"), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_applies_within_a_list() {
    use std::time::Duration;

    use super::super::execute::Deadline;

    let fixture = ReaderFixture::new(Method::GET);
    let (script, _) = Script::body([BodyStep::Chunk(LIST[..middle()].to_owned().into()), BodyStep::Hang]);
    let mut stream = begin(&fixture, http::Response::new(script)).await.unwrap();
    let deadline = Deadline::after(Duration::from_secs(30));
    stream.timing.sleep = deadline.map(|deadline| Box::pin(sleep_until(deadline.at)));
    stream.timing.time = Some(ReadDeadline { request: fixture.request.clone(), deadline, previous: None });
    let words = all(&mut stream).await;
    assert!(words.len() == 2 && words[1].ends_with("no response within 30s"), "{words:?}");
}
