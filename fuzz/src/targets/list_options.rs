//! Options of lists and continue tokens (FUZ-26). The first line is a query, the second one the content of a continue token.

use form_urlencoded::{Serializer, parse};
use serde_json::{Value, json};

use crate::input::Input;
use crate::test_server::{TestResponse, TestServer};

const CONFIG_MAPS: &str = "/api/v1/configmaps";
const OBJECTS: usize = 9;

thread_local! {
    static SERVER_OF_THREAD: TestServer = TestServer::with_objects(&objects());
}

/// Objects in two namespaces, with labels.
fn objects() -> Vec<(&'static str, Value)> {
    let mut objects = vec![("/api/v1/namespaces", json!({"metadata": {"name": "other"}}))];
    for index in 0..OBJECTS {
        let namespace = ["/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/other/configmaps"][index % 2];
        let labels = json!({"index": index.to_string(), "odd": (index % 2 == 1).to_string()});
        objects.push((namespace, json!({"metadata": {"name": format!("m-{index}"), "labels": labels}})));
    }
    objects
}

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let (query, token) = (input.text_line(), input.line());
    SERVER_OF_THREAD.with(|server| {
        check_query(server, &query);
        check_token(server, token);
        check_pages(server, &query);
    });
}

/// Any query has a list as its response, or an error of the request.
fn check_query(server: &TestServer, query: &str) {
    let Some(response) = server.send("GET", &format!("{CONFIG_MAPS}?{query}"), &[], "") else { return };
    check(&response, query);
    let is_from_cache = parse(query.as_bytes()).any(|(key, version)| key == "resourceVersion" && version == "0");
    let limit = parse(query.as_bytes()).find(|(key, _)| key == "limit").filter(|_| !is_from_cache);
    let limit = limit.and_then(|(_, limit)| limit.parse::<usize>().ok());
    if let Some(items) = response.body["items"].as_array()
        && let Some(limit) = limit.filter(|limit| *limit > 0)
        && response.body["kind"] == "ConfigMapList"
    {
        assert!(items.len() <= limit, "{} items with {query}", items.len());
    }
}

/// Any token is the position of a page, or an error of the request.
fn check_token(server: &TestServer, token: &[u8]) {
    for token in [String::from_utf8_lossy(token).into_owned(), base64(token)] {
        let query = Serializer::new(String::new()).append_pair("limit", "2").append_pair("continue", &token).finish();
        let response = server.send("GET", &format!("{CONFIG_MAPS}?{query}"), &[], "").expect("a valid request");
        check(&response, &query);
    }
}

/// The pages of a list are the list, with any selector and any size of pages.
fn check_pages(server: &TestServer, query: &str) {
    let selectors: Vec<(String, String)> = parse(query.as_bytes())
        .filter(|(key, _)| key == "labelSelector" || key == "fieldSelector")
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect();
    let limit = 1 + query.len() % (OBJECTS + 1);
    let list = |more: &[(&str, &str)]| {
        let mut serializer = Serializer::new(String::new());
        serializer.extend_pairs(&selectors).extend_pairs(more);
        server.send("GET", &format!("{CONFIG_MAPS}?{}", serializer.finish()), &[], "").expect("a valid request")
    };
    let whole = list(&[]);
    let Some(expected) = names(&whole) else { return };
    let (mut found, mut token) = (Vec::new(), String::new());
    for _ in 0..=OBJECTS + 8 {
        let page = list(&[("limit", &limit.to_string()), ("continue", &token)]);
        found.extend(names(&page).expect("a page of a list"));
        token = page.body["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        let revision = |list: &TestResponse| list.body["metadata"]["resourceVersion"].clone();
        assert_eq!(revision(&page), revision(&whole), "all pages are of one revision");
    }
    assert_eq!(found, expected, "pages of {limit} with {selectors:?}");
}

fn names(response: &TestResponse) -> Option<Vec<String>> {
    let items = response.body["items"].as_array()?;
    let name = |item: &Value| format!("{}/{}", item["metadata"]["namespace"], item["metadata"]["name"]);
    Some(items.iter().map(name).collect())
}

fn check(response: &TestResponse, query: &str) {
    let is_too_new = response.status.as_u16() == 504 && response.text.contains("Too large resource version");
    assert!(!response.status.is_server_error() || is_too_new, "{query}: {response:?}");
    if response.status.is_client_error() {
        assert_eq!(response.body["kind"], "Status", "{query}: {response:?}");
    }
}

/// Go's unpadded encoding for URLs.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}
