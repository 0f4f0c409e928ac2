use http::{HeaderMap, Method, Uri};

use super::*;
use crate::listener::flow::QueueStats;

fn observe(metrics: &Metrics, method: Method, path: &str, served: bool) -> Arc<Series> {
    let uri: Uri = path.parse().unwrap();
    let info = RequestInfo::of(&method, &uri, &HeaderMap::new());
    metrics.series(&info, |_| served.then_some(ServedResource { deprecated: false }))
}

#[test]
fn equal_labels_share_a_series() {
    let metrics = Metrics::default();
    let first = observe(&metrics, Method::GET, "/api/v1/namespaces/a/pods/b", true);
    let second = observe(&metrics, Method::GET, "/api/v1/namespaces/x/pods/y", true);
    assert!(Arc::ptr_eq(&first, &second));
    let other = observe(&metrics, Method::GET, "/api/v1/namespaces/x/pods", true);
    assert!(!Arc::ptr_eq(&first, &other));
}

#[test]
fn mtx_002_unknown_resources_and_paths_fold_into_few_series() {
    let metrics = Metrics::default();
    for number in 0..100 {
        let served = observe(&metrics, Method::GET, &format!("/api/v1/kind{number}"), false);
        served.observe(404, std::time::Duration::ZERO, None);
        observe(&metrics, Method::GET, &format!("/path{number}"), false).observe(404, std::time::Duration::ZERO, None);
        observe(&metrics, Method::from_bytes(format!("M{number}").as_bytes()).unwrap(), "/path", false);
    }
    assert_eq!(metrics.series.read().unwrap().len(), 3, "LIST, GET and OTHER");
    let response = metrics.text(&StoreFacts::default(), &QueueStats::default());
    assert!(response.contains(
        "apiserver_request_total{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",\
         subresource=\"\",verb=\"LIST\",version=\"\",code=\"404\"} 100\n"
    ));
}

#[test]
fn mtx_002_the_number_of_series_is_limited() {
    let metrics = Metrics::default();
    for number in 0..MAX_SERIES + 100 {
        observe(&metrics, Method::GET, &format!("/apis/g/v1/kind{number}"), true);
    }
    let series = metrics.series.read().unwrap().len();
    assert!(series <= MAX_SERIES + 1, "{series}");
}

#[test]
fn known_paths_have_a_label() {
    for (path, label) in [
        ("/healthz", "/healthz"),
        ("/readyz/ping", "/readyz"),
        ("/openapi/v3/apis/apps/v1", "/openapi/v3"),
        ("/apis/apps/v1", "/apis"),
        ("/apisx", ""),
        ("/", "/"),
        ("/anything", ""),
    ] {
        assert_eq!(known_path(path), label, "{path}");
    }
}

/// The metrics of a whole server, in process.
mod server {
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};

    use crate::http_types::Body;
    use crate::server::ApiServer;

    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn start() -> ApiServer {
        ApiServer::builder().in_process_only().start().await.unwrap()
    }

    async fn send(server: &ApiServer, request: http::request::Builder, body: &'static str) -> Response<Body> {
        server.service().serve(request.body(Full::<bytes::Bytes>::from(body)).unwrap()).await.unwrap()
    }

    async fn create(server: &ApiServer, body: &'static str) {
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        assert_eq!(send(server, request, body).await.status(), 201);
    }

    async fn scrape(server: &ApiServer) -> String {
        let response = send(server, Request::get("/metrics"), "").await;
        assert_eq!(response.status(), 200);
        let media = response.headers()["content-type"].to_str().unwrap();
        assert!(media.starts_with("text/plain; version=0.0.4"), "{media}");
        String::from_utf8(response.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// Returns the value of the only sample with this name and these labels.
    fn value(text: &str, name: &str, labels: &[&str]) -> String {
        let is_sample = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        };
        let samples: Vec<&str> = text.lines().filter(is_sample).collect();
        let [sample] = samples[..] else { panic!("{name} {labels:?}: {samples:?} of\n{text}") };
        sample.rsplit_once(' ').unwrap().1.to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn mtx_001_metrics_are_text_and_need_credentials() {
        let text = scrape(&start().await).await;
        assert!(text.lines().all(|line| line.starts_with("# ") || line.split(' ').count() >= 2), "{text}");
        let server = ApiServer::builder().in_process_only().token("right").start().await.unwrap();
        let stranger = Request::get("/metrics").header("authorization", "Bearer wrong");
        assert_eq!(send(&server, stranger, "").await.status(), 401);
    }

    #[tokio::test(start_paused = true)]
    async fn mtx_002_requests_are_counted_by_verb_resource_scope_and_code() {
        let server = start().await;
        create(&server, r#"{"metadata":{"name":"a"}}"#).await;
        send(&server, Request::get(CONFIG_MAPS), "").await;
        send(&server, Request::get(format!("{CONFIG_MAPS}/none")), "").await;
        let apply = Request::patch(format!("{CONFIG_MAPS}/b?fieldManager=me&dryRun=All"))
            .header("content-type", "application/apply-patch+yaml");
        send(&server, apply, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#).await;
        send(&server, Request::delete(format!("{CONFIG_MAPS}?labelSelector=x")), "").await;
        let text = scrape(&server).await;
        let exact = "apiserver_request_total{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",\
                     scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\",code=\"201\"} 1\n";
        assert!(text.contains(exact), "{text}");
        let total = |labels: &[&str]| value(&text, "apiserver_request_total", labels);
        assert_eq!(total(&["verb=\"LIST\"", "scope=\"namespace\"", "code=\"200\""]), "1");
        assert_eq!(total(&["verb=\"GET\"", "scope=\"resource\"", "code=\"404\""]), "1");
        assert_eq!(total(&["verb=\"APPLY\"", "dry_run=\"All\"", "code=\"201\""]), "1");
        assert_eq!(total(&["verb=\"DELETECOLLECTION\"", "code=\"200\""]), "1");
        let other = scrape(&start().await).await;
        assert!(!other.contains("configmaps\",scope"), "servers share nothing: {other}");
    }

    #[tokio::test(start_paused = true)]
    async fn mtx_003_watches_sizes_durations_and_objects_are_shown() {
        let server = start().await;
        create(&server, r#"{"metadata":{"name":"a"}}"#).await;
        let watch = send(&server, Request::get(format!("{CONFIG_MAPS}?watch=true&resourceVersion=0")), "").await;
        let mut watch = watch.into_body();
        watch.frame().await.unwrap().unwrap();
        send(&server, Request::get(format!("{CONFIG_MAPS}/a")), "").await;
        let text = scrape(&server).await;
        let watches = ["verb=\"WATCH\"", "resource=\"configmaps\""];
        assert_eq!(value(&text, "apiserver_longrunning_requests", &watches), "1");
        assert_eq!(value(&text, "apiserver_watch_events_total", &["resource=\"configmaps\""]), "1");
        // kube-system has two from the start.
        assert_eq!(value(&text, "apiserver_resource_objects", &["group=\"\"", "resource=\"configmaps\""]), "3");
        assert_eq!(value(&text, "apiserver_request_duration_seconds_count", &["verb=\"POST\""]), "1");
        assert_eq!(value(&text, "apiserver_response_sizes_count", &["verb=\"GET\"", "configmaps"]), "1");
        // The scrape itself is a read in flight.
        assert_eq!(value(&text, "apiserver_current_inflight_requests", &["readOnly"]), "1");
        assert_eq!(value(&text, "apiserver_current_inflight_requests", &["mutating"]), "0");
        assert_eq!(value(&text, "watch_cache_capacity", &["resource=\"configmaps\""]), "4096");
        assert_eq!(value(&text, "evenkeel_apiserver_store_watchers", &[]), "1");
        if cfg!(target_os = "linux") {
            assert_ne!(value(&text, "process_resident_memory_bytes", &[]), "0");
            assert_ne!(value(&text, "process_open_fds", &[]), "0");
        }
        drop(watch);
        let text = scrape(&server).await;
        assert_eq!(value(&text, "apiserver_longrunning_requests", &watches), "0");
        assert_eq!(value(&text, "apiserver_request_total", &watches), "1");
    }

    #[tokio::test(start_paused = true)]
    async fn ops_2_a_record_has_the_latency_and_the_size_of_the_response() {
        let server = start().await;
        server.faults().add(crate::Faults::parse("delay:ms=70").unwrap());
        let response = send(&server, Request::get("/version"), "").await;
        let length = response.collect().await.unwrap().to_bytes().len() as u64;
        let record = &server.requests()[0];
        assert_eq!((record.latency.as_millis(), record.bytes), (70, Some(length)));
        send(&server, Request::get(format!("{CONFIG_MAPS}?watch=true")), "").await;
        assert_eq!(server.requests()[1].bytes, None);
    }
}
