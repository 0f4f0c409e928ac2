//! Tests over real sockets.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn serve(inspector: &Inspector) -> (InspectServer, SocketAddr) {
    let server = inspector.serve("127.0.0.1:0").await.unwrap();
    let address = server.address();
    (server, address)
}

/// Sends a request and reads until the server closes the connection.
async fn request(address: SocketAddr, head: &str) -> String {
    let mut stream = send(address, head).await;
    let mut response = Vec::new();
    // A reset after the response is not an error here.
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).unwrap()
}

async fn send(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

async fn get(address: SocketAddr, path: &str) -> String {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost:1")).await
}

/// Opens an event stream and waits for its first bytes.
async fn open(address: SocketAddr) -> (TcpStream, String) {
    let mut stream = send(address, "GET /events HTTP/1.1\r\nHost: localhost").await;
    let mut head = vec![0; 4096];
    let length = stream.read(&mut head).await.unwrap();
    head.truncate(length);
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn the_page_and_its_files_have_protective_headers() {
    let inspector = Inspector::new();
    let (server, address) = serve(&inspector).await;
    assert_eq!(server.url(), format!("http://{address}/"));
    let types = [
        ("/", "text/html"),
        ("/look.css", "text/css"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/picture.js", "text/javascript"),
        ("/lists.js", "text/javascript"),
        ("/format.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
        ("/state", "application/json"),
    ];
    for (path, media_type) in types {
        let response = get(address, path).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {response}");
        assert!(response.contains(&format!("content-type: {media_type}")), "{path}: {response}");
        assert!(response.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{path}");
        assert!(
            response.contains("x-content-type-options: nosniff") && response.contains("cache-control: no-cache"),
            "{path}"
        );
        assert!(!response.contains("access-control-"), "{path}");
    }
    let page = get(address, "/").await;
    assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains("//cdn"), "{page}");
    assert!(get(address, "/nothing").await.starts_with("HTTP/1.1 404 "));
    server.shutdown().await;
}

#[tokio::test]
async fn on_loopback_only_requests_with_a_local_host_header_are_served() {
    let (_server, address) = serve(&Inspector::new()).await;
    for path in ["/", "/state", "/events"] {
        let other = request(address, &format!("GET {path} HTTP/1.1\r\nHost: evil.example")).await;
        assert!(other.starts_with("HTTP/1.1 403 ") && other.contains("does not name this machine"), "{other}");
        let none = request(address, &format!("GET {path} HTTP/1.0")).await;
        assert!(none.starts_with("HTTP/1.0 403 "), "{none}");
    }
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8082", "[::1]:7"] {
        assert!(request(address, &format!("GET /state HTTP/1.1\r\nHost: {host}")).await.contains("200 OK"), "{host}");
    }
}

#[tokio::test]
async fn only_get_and_head_are_allowed() {
    let (_server, address) = serve(&Inspector::new()).await;
    let response = request(address, "POST /state HTTP/1.1\r\nHost: localhost").await;
    assert!(response.starts_with("HTTP/1.1 405 ") && response.contains("allow: GET, HEAD"), "{response}");
    let head = request(address, "HEAD /events HTTP/1.1\r\nHost: localhost").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
    let long = format!("/state?follow={}", "x".repeat(2000));
    assert!(get(address, &long).await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test(start_paused = true)]
async fn the_query_names_the_followed_key() {
    let fixture = Fixture::start(&["a"]).await;
    let (_server, address) = serve(&fixture.inspector).await;
    let response = get(address, "/state?follow=default%2Fa").await;
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let state: Value = serde_json::from_str(body).unwrap();
    assert_eq!(state["follow"]["key"], "default/a");
    assert_eq!(state["follow"]["steps"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn an_event_stream_lasts_until_the_server_shuts_down() {
    let inspector = Inspector::new();
    let (server, address) = serve(&inspector).await;
    let (mut stream, head) = open(address).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("content-type: text/event-stream"), "{head}");
    server.shutdown().await;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"), "the stream has a final chunk");
}

#[tokio::test]
async fn a_stream_above_the_limit_is_refused_and_the_page_is_still_served() {
    let inspector = Inspector::new();
    let (server, address) = serve(&inspector).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(open(address).await);
    }
    let refused = get(address, "/events").await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("16 pages are already open"), "{refused}");
    // Idle connections are evicted for new ones; event streams are not.
    let mut idle = Vec::new();
    for _ in 0..crate::serve::CONNECTIONS {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(get(address, "/").await.contains("200 OK"));
    inspector.note("still there");
    let (stream, _) = &mut streams[0];
    let mut received = String::new();
    while !received.contains("still there") {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await.unwrap();
        assert!(length > 0, "the stream ended: {received}");
        received.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_dropped_and_frees_its_slot() {
    let inspector = Inspector::new();
    let (_server, address) = serve(&inspector).await;
    let (mut stream, _) = open(address).await;
    assert_eq!(inner(&inspector).slots.available_permits(), STREAMS - 1);
    // More than all socket buffers can hold.
    let text = "x".repeat(1000);
    let mut rounds = 0;
    while inner(&inspector).slots.available_permits() < STREAMS {
        for note in 0..50 {
            inspector.note(format_args!("{text}{note}"));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        rounds += 1;
        assert!(rounds < 100_000, "the client is never dropped");
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the stream was cut off");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let occupied = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = occupied.local_addr().unwrap();
    let error = Inspector::new().serve(address.to_string()).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{address} is in use")), "{error}");
    let error = Inspector::new().serve("nowhere").await.unwrap_err().to_string();
    assert!(error.contains("\"nowhere\""), "{error}");
}

#[tokio::test]
async fn the_url_of_an_unspecified_address_names_loopback() {
    let server = Inspector::new().serve(":0").await.unwrap();
    let (port, url) = (server.address().port(), server.url());
    assert!([format!("http://127.0.0.1:{port}/"), format!("http://[::1]:{port}/")].contains(&url), "{url}");
}
