//! Over real sockets.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

async fn serve(inspector: &Inspector) -> (InspectServer, SocketAddr) {
    let server = inspector.serve("127.0.0.1:0").await.unwrap();
    let address = server.address();
    (server, address)
}

/// Asks for something, and reads until the other side closes.
async fn ask(address: SocketAddr, head: &str) -> String {
    let mut stream = send(address, head).await;
    let mut answer = Vec::new();
    // A connection that is reset has said what it had to say.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn send(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

async fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost:1")).await
}

/// Opens a stream of events, and waits until something has come.
async fn open(address: SocketAddr) -> (TcpStream, String) {
    let mut stream = send(address, "GET /events HTTP/1.1\r\nHost: localhost").await;
    let mut head = vec![0; 4096];
    let length = stream.read(&mut head).await.unwrap();
    head.truncate(length);
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn the_page_and_its_files_come_with_headers_that_keep_others_out() {
    let inspector = Inspector::new();
    let (server, address) = serve(&inspector).await;
    assert_eq!(server.url(), format!("http://{address}/"));
    let types = [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/picture.js", "text/javascript"),
        ("/lists.js", "text/javascript"),
        ("/words.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
        ("/state", "application/json"),
    ];
    for (path, media_type) in types {
        let answer = get(address, path).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        assert!(answer.contains(&format!("content-type: {media_type}")), "{path}: {answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{path}");
        assert!(
            answer.contains("x-content-type-options: nosniff") && answer.contains("cache-control: no-cache"),
            "{path}"
        );
        assert!(!answer.contains("access-control-"), "{path}");
    }
    let page = get(address, "/").await;
    assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains("//cdn"), "{page}");
    assert!(get(address, "/nothing").await.starts_with("HTTP/1.1 404 "));
    server.shutdown().await;
}

#[tokio::test]
async fn on_this_machine_only_those_are_answered_who_ask_for_this_machine() {
    let (_server, address) = serve(&Inspector::new()).await;
    for path in ["/", "/state", "/events"] {
        let other = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: evil.example")).await;
        assert!(other.starts_with("HTTP/1.1 403 ") && other.contains("names another machine"), "{other}");
        let none = ask(address, &format!("GET {path} HTTP/1.0")).await;
        assert!(none.starts_with("HTTP/1.0 403 "), "{none}");
    }
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8082", "[::1]:7"] {
        assert!(ask(address, &format!("GET /state HTTP/1.1\r\nHost: {host}")).await.contains("200 OK"), "{host}");
    }
}

#[tokio::test]
async fn it_can_only_be_read() {
    let (_server, address) = serve(&Inspector::new()).await;
    let answer = ask(address, "POST /state HTTP/1.1\r\nHost: localhost").await;
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD"), "{answer}");
    let head = ask(address, "HEAD /events HTTP/1.1\r\nHost: localhost").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
    let long = format!("/state?follow={}", "x".repeat(2000));
    assert!(get(address, &long).await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_followed_that_is_named_in_the_query() {
    let world = World::start(&["a"]).await;
    let (_server, address) = serve(&world.inspector).await;
    let answer = get(address, "/state?follow=default%2Fa").await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let state: Value = serde_json::from_str(body).unwrap();
    assert_eq!(state["follow"]["key"], "default/a");
    assert_eq!(state["follow"]["steps"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn events_come_as_a_stream_until_the_server_ends() {
    let inspector = Inspector::new();
    let (server, address) = serve(&inspector).await;
    let (mut stream, told) = open(address).await;
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n") && told.contains("content-type: text/event-stream"), "{told}");
    server.shutdown().await;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"), "the end is told");
}

#[tokio::test]
async fn one_stream_too_many_is_refused_with_a_sentence_and_pages_are_still_served() {
    let inspector = Inspector::new();
    let (server, address) = serve(&inspector).await;
    let mut open_ones = Vec::new();
    for _ in 0..STREAMS {
        open_ones.push(open(address).await);
    }
    let refused = get(address, "/events").await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("16 pages are open already"), "{refused}");
    // Those that say nothing make room for others; those that last do not.
    let mut idle = Vec::new();
    for _ in 0..crate::serve::CONNECTIONS {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(get(address, "/").await.contains("200 OK"));
    inspector.note("still there");
    let (stream, _) = &mut open_ones[0];
    let mut told = String::new();
    while !told.contains("still there") {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await.unwrap();
        assert!(length > 0, "the stream has ended: {told}");
        told.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_read_is_dropped_and_its_place_is_free() {
    let inspector = Inspector::new();
    let (_server, address) = serve(&inspector).await;
    let (mut stream, _) = open(address).await;
    assert_eq!(inner(&inspector).places.available_permits(), STREAMS - 1);
    // More than all buffers on the way can hold.
    let text = "x".repeat(1000);
    let mut turns = 0;
    while inner(&inspector).places.available_permits() < STREAMS {
        for note in 0..50 {
            inspector.note(format_args!("{text}{note}"));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        turns += 1;
        assert!(turns < 100_000, "it is never dropped");
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it was cut off");
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = Inspector::new().serve(address.to_string()).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{address} is in use")), "{error}");
    let error = Inspector::new().serve("nowhere").await.unwrap_err().to_string();
    assert!(error.contains("\"nowhere\""), "{error}");
}

#[tokio::test]
async fn an_address_of_the_whole_machine_is_shown_as_one_that_can_be_opened() {
    let server = Inspector::new().serve(":0").await.unwrap();
    let (port, url) = (server.address().port(), server.url());
    assert!([format!("http://127.0.0.1:{port}/"), format!("http://[::1]:{port}/")].contains(&url), "{url}");
}
