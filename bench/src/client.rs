//! Two clients: one for the server in this process, one for HTTP.

use bytes::Bytes;
use evenkeel_apiserver::{Body, InProcess};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::Failure;

/// Sends a request to the server in this process.
pub(crate) async fn call(
    service: &mut InProcess,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Response<Body>, Failure> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    Ok(service.call(request.body(Full::new(Bytes::from(body)))?).await?)
}

/// Sends a request and fails unless the response has this code.
pub(crate) async fn expect(
    service: &mut InProcess,
    method: Method,
    path: &str,
    body: Option<&Value>,
    code: u16,
) -> Result<(), Failure> {
    let reply = call(service, method, path, body).await?;
    if reply.status().as_u16() == code {
        return Ok(());
    }
    let text = reply.into_body().collect().await?.to_bytes();
    Err(format!("{path}: {}", String::from_utf8_lossy(&text)).into())
}

/// One HTTP connection.
pub(crate) enum Connection {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(crate) async fn http1(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::Builder::new().max_buf_size(4 << 20).handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection::Http1(sender))
    }

    pub(crate) async fn http2(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(8 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Connection::Http2(sender))
    }

    pub(crate) async fn send(&mut self, method: Method, uri: &str, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let host = uri.split('/').nth(2).unwrap_or("localhost").to_owned();
        let path = uri.splitn(4, '/').nth(3).unwrap_or_default();
        let request = Request::builder().method(method).header("content-type", "application/json");
        Ok(match self {
            Connection::Http1(sender) => {
                let request = request.uri(format!("/{path}")).header("host", host).body(Full::new(body))?;
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Connection::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request.uri(uri).body(Full::new(body))?).await?
            }
        })
    }
}

/// Reads a body to its end and returns its length.
pub(crate) async fn drain<B>(mut body: B) -> Result<usize, Failure>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Failure>,
{
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.map_err(Into::into)?.data_ref().map_or(0, Bytes::len);
    }
    Ok(length)
}
