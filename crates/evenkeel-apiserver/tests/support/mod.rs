//! A plain HTTP/1.1 client for tests: one connection per request, and no headers of its own.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test uses a part of it, and a failed unwrap fails the test"
)]

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A client of one server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: String,
}

impl Client {
    /// Returns a client of a server at `http://host:port`.
    pub(crate) fn new(url: &str) -> Self {
        Client { address: url.strip_prefix("http://").expect("a plain URL").to_owned() }
    }

    /// Sends one request on a new connection and returns when the headers have arrived.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: String,
        headers: &[(String, String)],
    ) -> Response<Incoming> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", &self.address);
        if !body.is_empty() {
            request = request.header("content-type", content_type);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    /// Sends JSON and reads the whole response.
    pub(crate) async fn json(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let reply = self.send(method, path, content_type, body, &[]).await;
        let status = reply.status().as_u16();
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}
