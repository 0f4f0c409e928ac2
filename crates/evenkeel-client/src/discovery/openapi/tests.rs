use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::discovery::testing::Fake;

fn gv(text: &str) -> GroupVersion {
    text.parse().unwrap()
}

fn index(paths: &[(&str, &str)]) -> Value {
    let paths: serde_json::Map<_, _> =
        paths.iter().map(|(path, url)| ((*path).to_owned(), json!({"serverRelativeURL": url}))).collect();
    json!({"paths": paths})
}

fn server() -> Fake {
    let fake = Fake::default();
    fake.json(
        "/openapi/v3",
        &index(&[("api/v1", "/openapi/v3/api/v1?hash=A%2B1"), ("apis/apps/v1", "/openapi/v3/apis/apps/v1?hash=B")]),
    );
    fake.json("/openapi/v3/api/v1", &json!({"openapi": "3.0.0"}));
    fake.json("/openapi/v3/apis/apps/v1", &json!({"openapi": "3.0.0", "info": {}}));
    fake
}

#[tokio::test]
async fn oap_001_documents_are_fetched_from_the_urls_of_the_index_with_their_hash() {
    let fake = server();
    let openapi = fake.client().openapi();
    let schema = openapi.schema_value(&gv("v1")).await.unwrap();
    assert_eq!(schema, json!({"openapi": "3.0.0"}));
    let proto = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    openapi.schema_as(&gv("apps/v1"), proto).await.unwrap();
    let requests = fake.requests();
    assert_eq!(requests[1].target, "/openapi/v3/api/v1?hash=A%2B1");
    assert_eq!(requests[1].accept, "application/json");
    assert_eq!((requests[2].target.as_str(), requests[2].accept.as_str()), ("/openapi/v3/apis/apps/v1?hash=B", proto));
}

#[tokio::test]
async fn oap_001_the_servers_base_path_is_not_doubled() {
    for url in ["/base/openapi/v3/api/v1?hash=A", "/openapi/v3/api/v1?hash=A"] {
        let fake = Fake::default();
        fake.json("/base/openapi/v3", &index(&[("api/v1", url)])).json("/base/openapi/v3/api/v1", &json!({}));
        fake.client_at("https://host/base").openapi().schema(&gv("v1")).await.unwrap();
        assert_eq!(fake.requests()[1].target, "/base/openapi/v3/api/v1?hash=A", "{url}");
    }
    // Every path below the base path is accepted.
    let fake = Fake::default();
    fake.json("/base/openapi/v3", &index(&[("api/v1", "/base/schemas/core")])).json("/base/schemas/core", &json!({}));
    fake.client_at("https://host/base").openapi().schema(&gv("v1")).await.unwrap();
    assert_eq!(fake.requests()[1].target, "/base/schemas/core");
}

#[tokio::test]
async fn oap_002_successes_are_cached_and_failures_are_not() {
    // Better than client-go, which caches the error too.
    let fake = server();
    fake.fail("/openapi/v3", 503);
    let openapi = fake.client().openapi();
    assert!(openapi.schema(&gv("v1")).await.unwrap_err().is_transient());
    fake.json("/openapi/v3", &index(&[("api/v1", "/openapi/v3/api/v1?hash=A")])).fail("/openapi/v3/api/v1", 503);
    assert!(openapi.schema(&gv("v1")).await.unwrap_err().is_transient());
    fake.json("/openapi/v3/api/v1", &json!({}));
    fake.requests();
    for _ in 0..3 {
        openapi.schema(&gv("v1")).await.unwrap();
    }
    assert_eq!(fake.asked_paths(), ["/openapi/v3/api/v1?hash=A"]);
    openapi.clone().invalidate();
    openapi.schema(&gv("v1")).await.unwrap();
    assert_eq!(fake.asked_paths(), ["/openapi/v3", "/openapi/v3/api/v1?hash=A"]);
}

#[tokio::test]
async fn oap_003_group_versions_are_sorted_and_unknown_ones_are_a_typed_error() {
    let fake = Fake::default();
    let paths = [
        "version",
        "apis",
        "apis/b",
        "apis/b/v2",
        "apis/a/v1",
        "apis/b/v1",
        "api/v1",
        "api",
        "apis/a/v1/x",
        ".well-known/openid",
    ];
    let paths: Vec<_> = paths.iter().map(|path| (*path, "/openapi/v3/x")).collect();
    fake.json("/openapi/v3", &index(&paths));
    let openapi = fake.client().openapi();
    let all: Vec<_> = openapi.index().await.unwrap().group_versions().iter().map(GroupVersion::api_version).collect();
    assert_eq!(all, ["v1", "a/v1", "b/v1", "b/v2"]);
    let error = openapi.schema(&gv("c/v1")).await.unwrap_err();
    assert!(matches!(&error, DiscoveryError::NoSchema { group_version } if *group_version == gv("c/v1")));
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "the server has no OpenAPI document for c/v1");
}

#[test]
fn sec_48_urls_that_lead_away_from_the_server_are_not_followed() {
    for url in [
        "https://evil.example/openapi/v3/api/v1",
        "//evil.example/openapi/v3/api/v1",
        "/openapi/v3/../../secrets",
        "/openapi/v3/%2e%2e/secrets",
        "/openapi/v3/..%2fsecrets",
        "/openapi/v3/api\\..\\secrets",
        "/openapi/v3//evil.example",
        "/openapi/v3/api/v1#fragment",
        "/openapi/v3/a b",
        "/openapi/v3/./x",
        "openapi/v3/api/v1",
        "@evil.example/",
        "",
    ] {
        assert!(server_relative(url, "").is_err(), "{url}");
    }
    // With a base path, other programs behind the same proxy are outside of the server.
    for url in ["/other/openapi/v3/api/v1", "/base2/openapi/v3/api/v1", "/base/../other/api", "/base"] {
        assert!(server_relative(url, "/base").is_err(), "{url}");
    }
    let good = server_relative("/openapi/v3/apis/apps/v1?hash=A&x=1", "").unwrap();
    assert_eq!((good.path(), good.hash()), ("/openapi/v3/apis/apps/v1", Some("A")));
}

#[tokio::test]
async fn sec_48_one_invalid_url_does_not_affect_the_others() {
    let fake = server();
    fake.json("/openapi/v3", &index(&[("api/v1", "/openapi/v3/api/v1"), ("apis/evil/v1", "https://evil.example/x")]));
    let openapi = fake.client().openapi();
    assert!(openapi.schema(&gv("v1")).await.is_ok());
    let error = openapi.schema(&gv("evil/v1")).await.unwrap_err();
    let text = "the URL of the OpenAPI document of evil/v1 is invalid: it is outside of the server";
    assert_eq!(error.to_string(), text);
    assert_eq!(fake.asked_paths(), ["/openapi/v3", "/openapi/v3/api/v1"]);
}

#[tokio::test]
async fn a_changed_document_causes_a_refetch_of_the_index() {
    let fake = server();
    let openapi = fake.client().openapi();
    openapi.index().await.unwrap();
    fake.fail("/openapi/v3/api/v1", 301).json("/openapi/v3", &index(&[("api/v1", "/openapi/v3/new?hash=N")]));
    fake.json("/openapi/v3/new", &json!({"new": true}));
    assert_eq!(openapi.schema_value(&gv("v1")).await.unwrap(), json!({"new": true}));
    let paths: Vec<_> = fake.requests().into_iter().map(|requests| requests.target).collect();
    assert_eq!(paths, ["/openapi/v3", "/openapi/v3/api/v1?hash=A%2B1", "/openapi/v3", "/openapi/v3/new?hash=N"]);
}

#[test]
fn the_document_cache_is_bounded() {
    let mut schemas = Schemas::default();
    let key = |number: usize| SchemaKey { path: format!("{number}"), hash: None, media_type: JSON.to_owned() };
    let large = Bytes::from(vec![0; MAX_REMEMBERED / 4]);
    for number in 0..9 {
        schemas.put(key(number), large.clone());
        schemas.put(key(number), large.clone());
    }
    assert_eq!(schemas.known.len(), 4);
    assert_eq!(schemas.order.len(), 4);
    assert!(schemas.bytes <= MAX_REMEMBERED);
    assert!(schemas.known.contains_key(&key(8)) && !schemas.known.contains_key(&key(4)));
    schemas.put(key(9), Bytes::from(vec![0; MAX_REMEMBERED + 1]));
    assert_eq!((schemas.known.len(), schemas.bytes), (0, 0));
}

proptest! {
    #[test]
    fn sec_48_whatever_url_is_accepted_stays_on_the_server(
        url in prop_oneof!["[ -~]{0,40}", "(/base)?/openapi/v3/[a-z./%2e@:?#\\\\]{0,20}", ".{0,20}"],
        base in prop_oneof![Just(""), Just("/base")],
    ) {
        if let Ok(accepted) = server_relative(&url, base) {
            let whole: http::Uri = format!("https://host{base}{}", accepted.path()).parse().unwrap();
            prop_assert_eq!(whole.authority().unwrap().as_str(), "host");
            prop_assert!(whole.path().starts_with(base));
            prop_assert!(whole.path().split('/').all(|segment| segment != ".." && segment != "."));
        }
    }
}
