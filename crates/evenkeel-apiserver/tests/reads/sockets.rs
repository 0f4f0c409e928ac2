//! Framing on the wire, and headers that do not wait for the first event.

use bytes::Bytes;
use evenkeel_apiserver::ApiServer;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::support::Client;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// Writes without a socket.
async fn add(server: &ApiServer, name: &str) {
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
    let request = Request::post(PATH).header("content-type", "application/json");
    let body = Full::new(Bytes::from(object.to_string()));
    let response = server.service().call(request.body(body).unwrap()).await.unwrap();
    assert_eq!(response.status(), 201);
}

/// Reads until the text contains something.
async fn read_until(stream: &mut TcpStream, text: &mut String, wanted: &str) {
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the connection ended: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
}

#[tokio::test]
async fn wat_1_over_http_1_a_watch_is_chunked_and_its_headers_are_sent_at_once() {
    let server = ApiServer::start().await.unwrap();
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let request = format!("GET {PATH}?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    read_until(&mut stream, &mut text, "\r\n\r\n").await;
    let head = text.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    assert!(head.contains("transfer-encoding: chunked\r\n") && head.contains("content-type: application/json\r\n"));
    assert!(head.ends_with("\r\n\r\n"), "no event yet: {head}");
    add(&server, "a").await;
    read_until(&mut stream, &mut text, "}\n\r\n").await;
    assert!(text.contains("{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\""), "{text}");
}

#[tokio::test]
async fn wat_1_over_http_2_a_watch_is_a_stream_beside_others() {
    let server = ApiServer::start().await.unwrap();
    let stream = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let executor = TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("{}{PATH}?watch=true", server.url());
    let mut watches = Vec::new();
    for _ in 0..3 {
        let request = Request::get(&uri).body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!((response.status(), response.version()), (http::StatusCode::OK, http::Version::HTTP_2));
        assert_eq!(response.headers()["content-type"], "application/json");
        watches.push(response.into_body());
    }
    add(&server, "a").await;
    for mut watch in watches {
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    }
}

#[tokio::test(start_paused = true)]
async fn wat_2_wat_23_over_http_1_whole_lines_then_the_end_of_the_body() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    for name in ["a", "b", "c"] {
        add(&server, name).await;
    }
    let response = client.send("GET", &format!("{PATH}?watch=true&timeoutSeconds=1"), "", String::new(), &[]).await;
    let bytes = response.into_body().collect().await.expect("a body with its proper end").to_bytes();
    let lines: Vec<Value> =
        std::str::from_utf8(&bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn wat_24_watches_over_sockets_end_with_the_server() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::new(server.url());
    let response = client.send("GET", &format!("{PATH}?watch=true"), "", String::new(), &[]).await;
    let body = tokio::spawn(response.into_body().collect());
    server.shutdown().await;
    // Requests abandoned after the grace period end within their body.
    assert!(body.await.unwrap().expect("a clean end").to_bytes().is_empty());
}
