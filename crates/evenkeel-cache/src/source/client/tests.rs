//! A client as a source, against the embedded server.

use std::future::poll_fn;
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, Rule, WatchAction};
use evenkeel_client::transport::TransportError;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

async fn server() -> ApiServer {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let maps = server.client().api::<ConfigMap>().namespace("default");
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let map = json!({"metadata": {"name": name, "labels": {"app": app}}, "data": {"k": "v"}});
        maps.create(&serde_json::from_value(map).unwrap()).await.unwrap();
    }
    server
}

async fn listed(source: &dyn ListerWatcher, request: ListRequest) -> Result<(Vec<String>, String), SourceError> {
    let mut items = source.list(request).await?;
    let mut names = Vec::new();
    loop {
        match poll_fn(|context| items.poll_next(context)).await? {
            ListPart::Object(object) => names.push(object.key().to_string()),
            ListPart::Unreadable(error) => names.push(error.to_string()),
            ListPart::End { continue_token, .. } => return Ok((names, continue_token)),
        }
    }
}

fn urls(server: &ApiServer) -> Vec<String> {
    server.requests().iter().map(|request| request.path.clone()).filter(|url| url.contains("configmaps?")).collect()
}

#[tokio::test(start_paused = true)]
async fn lwa_003_lists_and_watches_carry_the_selectors() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"))
        .labels("app=web")
        .fields("metadata.name!=c");
    let (names, _) = listed(&source, ListRequest::not_older_than("0")).await.unwrap();
    assert_eq!(names, ["default/a"]);
    let mut watch = source.watch(WatchRequest::from_version("0", Duration::from_secs(300))).await.unwrap();
    let event = poll_fn(|context| watch.poll_next(context)).await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Added(object) if object.key().name() == "a"));
}

#[tokio::test(start_paused = true)]
async fn lwa_004_requests_share_no_state() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"));
    let page = |token: &str| ListRequest { limit: 2, continue_token: token.into(), ..ListRequest::default() };
    let (first, token) = listed(&source, page("")).await.unwrap();
    let (second, end) = listed(&source, page(&token)).await.unwrap();
    assert_eq!((first.len(), second.len(), end.as_str()), (2, 1, ""));
    assert_eq!(listed(&source, ListRequest::default()).await.unwrap().0.len(), 3, "no limit and no token are left");
}

#[tokio::test(start_paused = true)]
async fn lwa_006_a_source_can_disable_watch_list() {
    let server = server().await;
    let source = ApiSource::from(server.client().api::<ConfigMap>());
    assert!(source.supports_watch_list(), "the default");
    assert!(!source.without_watch_list().supports_watch_list());
}

#[tokio::test(start_paused = true)]
async fn lwa_007_a_watch_returns_every_event() {
    let server = server().await;
    let maps = server.client().api::<ConfigMap>().namespace("default");
    let version = maps.list(&ListParams::default()).await.unwrap().meta.resource_version;
    let source = ApiSource::new(maps.clone());
    let request = WatchRequest::from_version(version.as_str(), Duration::from_secs(300));
    let mut watch = source.watch(request).await.unwrap();
    let patch = evenkeel_client::Patch::merge(&json!({"data": {"k": "w"}}));
    maps.patch("a", &patch).await.unwrap();
    maps.delete("a").await.unwrap();
    let mut next = async || poll_fn(|context| watch.poll_next(context)).await.unwrap().unwrap();
    assert!(matches!(next().await, WatchEvent::Modified(object) if object.key().name() == "a"));
    assert!(matches!(next().await, WatchEvent::Deleted(object) if object.key().name() == "a"));
}

#[tokio::test(start_paused = true)]
async fn lwa_012_a_failed_request_returns_its_cause() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"));
    server.faults().fail_next(1, 403, None);
    let error = source.watch(WatchRequest::from_version("0", Duration::from_secs(300))).await.err().unwrap();
    assert!(error.status().is_some_and(|status| status.is_forbidden()), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lwa_010_a_failed_watch_request_is_an_error_not_an_empty_watch() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"));
    server.faults().add(Rule::new(Action::Drop));
    let lost = source.watch(WatchRequest::from_version("0", Duration::from_secs(300))).await.err().unwrap();
    assert!(matches!(lost, SourceError::Connection(_)), "{lost:?}");
    let lost = source.list(ListRequest::default()).await.err().unwrap();
    assert!(matches!(lost, SourceError::Connection(_)), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_can_be_requested() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default").metadata());
    assert!(source.is_metadata_only());
    let mut items = source.list(ListRequest::default()).await.unwrap();
    let ListPart::Object(object) = poll_fn(|context| items.poll_next(context)).await.unwrap() else {
        panic!("an object comes first");
    };
    assert_eq!((object.kind(), object.path("data").unwrap().is_none()), ("PartialObjectMetadata", true));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_an_exact_version_is_requested_as_such() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"));
    let exact = |version: &str| ListRequest { is_exact: true, ..ListRequest::not_older_than(version) };
    let version = server.client().api::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    listed(&source, exact(version.resource_version().as_str())).await.unwrap();
    let asked = urls(&server);
    assert!(asked.iter().any(|url| url.contains("resourceVersionMatch=Exact")), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn lwa_008_the_end_of_a_watch_is_distinguishable() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"));
    let ends = async |action: WatchAction| {
        server.faults().clear();
        server.faults().add(Rule::watch(action));
        let mut watch = source.watch(WatchRequest::from_version("0", Duration::from_secs(300))).await.unwrap();
        let mut events = 0;
        loop {
            match poll_fn(|context| watch.poll_next(context)).await {
                Some(Ok(_)) => events += 1,
                Some(Err(error)) => return (events, Some(error)),
                None => return (events, None),
            }
        }
    };
    assert!(matches!(ends(WatchAction::CloseAfterEvents(2)).await, (2, None)));
    let (events, lost) = ends(WatchAction::CloseMidFrame { event: 1, byte: 10 }).await;
    assert!(matches!((events, &lost), (1, Some(SourceError::Connection(_)))), "{lost:?}");
    let (events, cut) = ends(WatchAction::TruncateFrame { event: 1, byte: 10 }).await;
    assert!(matches!((events, &cut), (1, Some(SourceError::Garbled(StreamError::Truncated { .. })))), "{cut:?}");
}

#[tokio::test(start_paused = true)]
async fn lwa_009_an_event_that_cannot_be_read_does_not_end_the_watch() {
    let server = server().await;
    let source = ApiSource::new(server.client().api::<ConfigMap>().namespace("default"));
    server.faults().add(Rule::watch(WatchAction::CorruptFrame { event: 1, byte: 5 }));
    let mut watch = source.watch(WatchRequest::from_version("0", Duration::from_secs(300))).await.unwrap();
    let mut next = async || poll_fn(|context| watch.poll_next(context)).await;
    assert!(matches!(next().await, Some(Ok(WatchEvent::Added(_)))));
    let error = next().await.unwrap().unwrap_err();
    assert!(matches!(error, SourceError::Unreadable(_)), "{error:?}");
    assert!(matches!(next().await, Some(Ok(WatchEvent::Added(object))) if object.key().name() == "c"));
}

#[tokio::test(start_paused = true)]
async fn ref_024_a_table_is_not_a_list() {
    let scene = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}"#;
    let mut decoder = evenkeel_core::codec::ListDecoder::<ConfigMap>::new(
        evenkeel_core::codec::Codec::Json,
        Arc::new(ResourceInfo::of::<ConfigMap>()),
    );
    decoder.push(scene.into());
    let error = decoder.next_item().and_then(|_| decoder.finish().map(|_| ())).unwrap_err();
    assert!(error.is_fatal(), "so the list fails, and is not taken for an empty one: {error}");
}

#[tokio::test(start_paused = true)]
async fn the_transport_fault_determines_the_source_error() {
    let server = server().await;
    let missing = server.client().api::<ConfigMap>().namespace("default").get("missing").await.unwrap_err();
    let Error::Api { request, .. } = missing else { panic!("the server answered") };
    let said = |fault| {
        let source = TransportError::bare(fault, "api.test");
        SourceError::from(Error::Transport { request: request.clone(), source, previous: None })
    };
    assert!(matches!(said(TransportFault::Refused), SourceError::ConnectionRefused(_)));
    assert!(matches!(said(TransportFault::Resolve), SourceError::ConnectionRefused(_)), "no listener");
    for fault in [TransportFault::Reset, TransportFault::Closed, TransportFault::Http2Lost, TransportFault::Timeout] {
        assert!(matches!(said(fault), SourceError::Connection(_)), "{fault:?}");
    }
    assert!(matches!(said(TransportFault::Tls), SourceError::Other(_)), "which will not pass by itself");
    let late = Error::Timeout { request: request.clone(), limit: Duration::from_secs(30), previous: None };
    assert!(matches!(SourceError::from(late), SourceError::Connection(_)));
    let endless = Error::TooLarge { request, limit: 1 };
    assert!(matches!(SourceError::from(endless), SourceError::Other(_)));
}
