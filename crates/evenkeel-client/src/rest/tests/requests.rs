//! How requests are built, and responses decoded.

use http::header::{ACCEPT, AUTHORIZATION, HeaderName};

use super::*;
use crate::config::Redirects;
use crate::error::Error;

#[tokio::test(start_paused = true)]
async fn req_001_the_first_mistake_is_returned_and_nothing_is_sent() {
    let script = Script::new([]);
    let info = pods();
    let request = script.client().request(Method::GET, Path::resource(&info).name("a/b"));
    let request = request.header(HeaderName::from_static("x-a"), "a\nb").query("a", "b");
    for error in [
        request.send().await.unwrap_err(),
        request.list::<()>(&info).await.unwrap_err(),
        request.stream().await.unwrap_err(),
        request.watch::<()>(&info).await.unwrap_err(),
    ] {
        assert_eq!(error.to_string(), r#""a/b" is no name: it may not contain '/'"#);
    }
    assert_eq!(script.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn req_002_setters_after_a_mistake_have_no_effect() {
    let script = Script::new([]);
    let request = script.client().request(Method::GET, Path::raw("/../x")).max_retries(1).accept("a/b");
    assert!(matches!(request.send().await, Err(Error::Request(RequestError::Segment { part: "path", .. }))));
    assert_eq!(script.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn req_011_a_raw_path_brings_its_query_along() {
    let script = Script::new([]);
    let client = script.client_with(|config| config.server = ServerUrl::parse("https://api.example/base/").unwrap());
    client.request(Method::GET, Path::raw("/foo?x=y&a=1&x=z%20z")).query("b", true).send().await.unwrap();
    assert_eq!(script.urls(), ["/base/foo?a=1&b=true&x=y&x=z+z"]);
}

#[tokio::test(start_paused = true)]
async fn chc_10_the_server_receives_the_timeout_of_requests_but_not_of_streams() {
    let script = Script::new([]);
    let info = pods();
    let client = script.client_with(|config| config.timeout = Some(Duration::from_secs(30)));
    let list = ScriptStep::ok().body(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#);
    let path = || Path::resource(&info);
    client.request(Method::GET, path().name("a")).send().await.unwrap();
    // Better than client-go, which ignores the client's timeout for lists.
    script.steps.lock().unwrap().push_back(list.clone());
    client.request(Method::GET, path()).list::<()>(&info).await.unwrap();
    script.steps.lock().unwrap().push_back(list);
    client.request(Method::GET, path()).query("timeoutSeconds", 5).no_timeout().list::<()>(&info).await.unwrap();
    client.request(Method::GET, path()).query("watch", true).watch::<()>(&info).await.unwrap();
    client.request(Method::GET, path().name("a").subresource("log")).stream().await.unwrap();
    assert_eq!(
        script.urls(),
        [
            "/api/v1/pods/a?timeout=30s",
            "/api/v1/pods?timeout=30s",
            "/api/v1/pods?timeoutSeconds=5",
            "/api/v1/pods?watch=true",
            "/api/v1/pods/a/log",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn req_017_proxied_requests_get_no_extra_parameters() {
    // Better than client-go, which sends the timeout to proxied programs too.
    let script = Script::new([]);
    let info = pods();
    let client = script.client_with(|config| config.timeout = Some(Duration::from_secs(30)));
    let path = Path::resource(&info).namespace("ns").name("web").subresource("proxy").suffix("metrics");
    client.request(Method::GET, path).query("x", 1).send().await.unwrap();
    assert_eq!(script.urls(), ["/api/v1/namespaces/ns/pods/web/proxy/metrics?x=1"]);
}

#[tokio::test(start_paused = true)]
async fn req_016_a_requests_timeout_replaces_the_clients() {
    let script = Script::new([]);
    let client = script.client_with(|config| config.timeout = Some(Duration::from_secs(30)));
    get(&client).timeout(Duration::from_millis(1500)).query("timeout", "1h").send().await.unwrap();
    get(&client).timeout(Duration::ZERO).query("timeout", "1h").send().await.unwrap();
    get(&client).no_timeout().send().await.unwrap();
    get(&client).timeout(Duration::MAX).max_retries(0).send().await.unwrap();
    let urls = script.urls();
    assert_eq!(urls[..3], ["/version?timeout=1.5s", "/version?timeout=1h", "/version"]);
}

#[tokio::test(start_paused = true)]
async fn cfg_019_no_time_is_no_limit() {
    let script = Script::new([]);
    let client = script.client_with(|config| config.timeout = Some(Duration::ZERO));
    get(&client).send().await.unwrap();
    assert_eq!(script.urls(), ["/version"]);
}

#[tokio::test(start_paused = true)]
async fn req_018_bytes_values_and_streams_are_different_methods() {
    // Better than client-go, where a string is a file name.
    let script = Script::new([]);
    let client = script.client();
    let things = || client.request(Method::POST, Path::raw("/things"));
    things().body("/etc/passwd", "text/plain").send().await.unwrap();
    things().json(&serde_json::json!({"a": 1})).send().await.unwrap();
    things().stream_body(Body::full("abc"), "application/octet-stream").send().await.unwrap();
    let seen = script.seen();
    let sent: Vec<_> =
        seen.iter().map(|seen| (&seen.body[..], seen.headers["content-type"].to_str().unwrap())).collect();
    assert_eq!(
        sent,
        [
            (&b"/etc/passwd"[..], "text/plain"),
            (b"{\"a\":1}\n", "application/json"),
            (b"abc", "application/octet-stream"),
        ]
    );
    let unwritable = std::collections::HashMap::from([(vec![1], 1)]);
    let error = things().json(&unwritable).send().await.unwrap_err();
    assert!(matches!(error, Error::Request(RequestError::Body { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn req_020_the_preflight_check_is_for_send_only() {
    let script = Script::new([]);
    let info = pods();
    let request = script.client().request(Method::GET, Path::resource(&info).namespace("").name("a"));
    assert!(matches!(request.send().await, Err(Error::Request(RequestError::Invalid { .. }))));
    assert_eq!(script.count(), 0);
    request.watch::<()>(&info).await.unwrap();
    request.stream().await.unwrap();
    assert_eq!(script.urls(), ["/api/v1/pods/a", "/api/v1/pods/a"]);
}

#[tokio::test(start_paused = true)]
async fn req_021_setting_a_header_replaces_it_for_all_attempts() {
    let script = Script::new([ScriptStep::later(429, "0")]);
    let name = HeaderName::from_static("x-a");
    get(&script.client())
        .header(name.clone(), "1")
        .header(name.clone(), "2")
        .accept("text/plain")
        .send()
        .await
        .unwrap();
    let seen = script.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert_eq!(seen.headers.get_all(&name).iter().collect::<Vec<_>>(), ["2"]);
        assert_eq!(seen.headers[ACCEPT], "text/plain");
        assert_eq!(seen.method, Method::GET);
    }
}

#[tokio::test(start_paused = true)]
async fn req_023_methods_are_constants() {
    // Better than client-go, where "get" for "GET" is sent and silently never retried.
    let script = Script::new([ScriptStep::Fail(TransportFault::Closed)]);
    get(&script.client()).send().await.unwrap();
    let methods: Vec<Method> = script.seen().into_iter().map(|seen| seen.method).collect();
    assert_eq!(methods, [Method::GET, Method::GET]);
    let other = Method::from_bytes(b"get").unwrap();
    assert_ne!(other, Method::GET, "who insists on another method gets another one");
}

#[tokio::test(start_paused = true)]
async fn sec_37_header_values_cannot_inject_headers() {
    let script = Script::new([]);
    let name = HeaderName::from_static("x-a");
    for value in ["a\r\nx-b: c", "a\nb", "a\0b", "a\x7fb", "a\x1bb"] {
        let error = get(&script.client()).header(name.clone(), value).send().await.unwrap_err();
        let text = error.to_string();
        assert_eq!(
            text, r#"the header "x-a" cannot be sent: its value has a control character"#,
            "the value is not shown"
        );
    }
    assert_eq!(script.count(), 0);
    get(&script.client()).header(name.clone(), "grüße").send().await.unwrap();
    assert_eq!(script.seen()[0].headers[&name].as_bytes(), "grüße".as_bytes());
}

#[tokio::test(start_paused = true)]
async fn sec_5_a_request_shows_no_secret() {
    let script = Script::always(ScriptStep::Fail(TransportFault::Refused));
    let request = get(&script.client())
        .header(AUTHORIZATION, "Bearer hunter2")
        .query("token", "hunter2")
        .json(&serde_json::json!({"password": "hunter2"}));
    let error = request.send().await.unwrap_err();
    for text in [format!("{request:?}"), format!("{error}"), format!("{error:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn sec_39_a_redirect_is_refused_by_default() {
    let script = Script::always(ScriptStep::code(302).header("location", "https://evil.example/steal?token=hunter2"));
    let client = script.client();
    let error = get(&client).send().await.unwrap_err();
    let Error::Redirected { code, location, .. } = &error else { panic!("{error:?}") };
    assert_eq!((code.as_u16(), location.as_str()), (302, "https://evil.example/steal"));
    assert!(matches!(get(&client).watch::<()>(&pods()).await, Err(Error::Redirected { .. })));
    assert_eq!(script.count(), 2);
    let client = script.client_with(|config| config.redirects = Redirects::SameOrigin);
    assert!(matches!(get(&client).send().await, Err(Error::Redirected { .. })), "never to another server");
}

#[tokio::test(start_paused = true)]
async fn res_011_redirects_on_the_same_server_can_be_followed() {
    let to = |location| ScriptStep::code(307).header("location", location);
    let script = Script::new([to("/a?b=c"), to("https://api.example:6443/d"), ScriptStep::ok()]);
    let client = script.client_with(|config| config.redirects = Redirects::SameOrigin);
    get(&client).query("x", "y").send().await.unwrap();
    assert_eq!(script.urls(), ["/version?x=y", "/a?b=c", "/d"]);

    let script = Script::always(to("/again"));
    let client = script.client_with(|config| config.redirects = Redirects::SameOrigin);
    assert!(matches!(get(&client).send().await, Err(Error::Redirected { .. })));
    assert_eq!(script.seen().len(), 4, "three hops at most");
    assert!(matches!(post(&client).send().await, Err(Error::Redirected { .. })));
    assert_eq!(script.seen().len(), 1, "reads only");
}

#[tokio::test(start_paused = true)]
async fn sec_40_responses_have_a_limit_by_their_kind() {
    let big = ScriptStep::ok().body(vec![b' '; 101]);
    let script = Script::new([big.clone(), big.clone(), ScriptStep::code(500).body(vec![b' '; 101])]);
    let client = script.client_with(|config| {
        config.limits.object = 100;
        config.limits.list = 100;
        config.limits.error = 100;
    });
    assert!(matches!(get(&client).send().await, Err(Error::TooLarge { limit: 100, .. })));
    assert!(matches!(get(&client).list::<()>(&pods()).await, Err(Error::TooLarge { limit: 100, .. })));
    let error = get(&client).send().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 500, "an error that is too long is still that error");
    let script = Script::new([ScriptStep::ok().body(vec![b' '; 100])]);
    let client = script.client_with(|config| config.limits.object = 100);
    assert_eq!(get(&client).send().await.unwrap().bytes().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn cfg_010_a_service_replaces_connections() {
    let script = Script::new([]);
    let client = script.client_with(|config| config.server = ServerUrl::parse("https://nowhere.invalid").unwrap());
    get(&client).send().await.unwrap();
    client.clone().request(Method::GET, Path::raw("/other")).send().await.unwrap();
    assert_eq!(script.urls(), ["/version", "/other"], "one service for all clones");
}

/// Appends to a header and passes the request on.
#[derive(Clone)]
struct Mark<S>(S, &'static str);

impl<S> tower_service::Service<http::Request<Body>> for Mark<S>
where
    S: tower_service::Service<http::Request<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> S::Future {
        request.headers_mut().append("x-mark", http::HeaderValue::from_static(self.1));
        self.0.call(request)
    }
}

struct MarkLayer(&'static str);

impl<S> tower_layer::Layer<S> for MarkLayer {
    type Service = Mark<S>;

    fn layer(&self, inner: S) -> Mark<S> {
        Mark(inner, self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn cfg_020_later_layers_are_further_out_and_see_every_attempt() {
    let script = Script::new([ScriptStep::later(429, "0")]);
    let builder = ClientBuilder::service(Script::config(), script.clone());
    let client = builder.layer(MarkLayer("inner")).layer(MarkLayer("outer")).build().unwrap();
    get(&client).send().await.unwrap();
    let seen = script.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert_eq!(seen.headers.get_all("x-mark").iter().collect::<Vec<_>>(), ["outer", "inner"]);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_and_streams_have_separate_lanes() {
    let script = Script::new([]);
    let client = script.client();
    get(&client).send().await.unwrap();
    get(&client).stream().await.unwrap();
    get(&client).watch::<()>(&pods()).await.unwrap();
    let lanes: Vec<Lane> = script.seen().into_iter().map(|seen| seen.lane).collect();
    assert_eq!(lanes, [Lane::Calls, Lane::Streams, Lane::Streams]);
}

#[test]
fn requests_can_be_sent_on_any_thread() {
    fn is_send<T: Send>(_: T) {}
    let client = Client::from_service(Mark(Never, ""));
    let request = get(&client);
    let info = pods();
    is_send(request.send());
    is_send(request.list::<()>(&info));
    is_send(request.stream());
    is_send(request.watch::<()>(&info));
    is_send(request);
}

#[derive(Clone)]
struct Never;

impl tower_service::Service<http::Request<Body>> for Never {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = std::future::Pending<Result<http::Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        std::future::pending()
    }
}
