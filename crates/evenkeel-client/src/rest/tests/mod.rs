//! Requests against a scripted service.

mod attempt_observer;
mod bodies;
mod credentials;
mod metrics;
mod negotiation;
#[cfg(target_os = "linux")]
mod plugins;
mod requests;
mod retries;
mod spans;
mod throttling;
mod write_observer;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::ResourceInfo;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::*;
use crate::client::{Client, ClientBuilder};
use crate::config::{Config, ServerUrl};
use crate::transport::{Body, BoxError, Lane, TransportError, TransportFault};

/// One response of the script.
#[derive(Clone, Debug)]
enum ScriptStep {
    /// A response with this code, these headers and this body.
    Response(u16, Vec<(&'static str, String)>, Bytes),
    /// No response.
    Fail(TransportFault),
    /// No response, and an error of another type.
    Foreign(std::io::ErrorKind, &'static str),
    /// Hangs.
    Hang,
    /// Sends the head of a response, then hangs.
    HangInBody,
    /// Sends a truncated body.
    Cut,
}

impl ScriptStep {
    fn ok() -> Self {
        ScriptStep::Response(200, Vec::new(), Bytes::from_static(b"{}"))
    }

    fn code(code: u16) -> Self {
        ScriptStep::Response(code, Vec::new(), Bytes::new())
    }

    /// A response with a `Retry-After`.
    fn later(code: u16, seconds: &str) -> Self {
        ScriptStep::Response(code, vec![("retry-after", seconds.to_owned())], Bytes::new())
    }

    fn header(self, name: &'static str, value: &str) -> Self {
        match self {
            ScriptStep::Response(code, mut headers, body) => {
                headers.push((name, value.to_owned()));
                ScriptStep::Response(code, headers, body)
            }
            other => other,
        }
    }

    fn body(self, bytes: impl Into<Bytes>) -> Self {
        match self {
            ScriptStep::Response(code, headers, _) => ScriptStep::Response(code, headers, bytes.into()),
            other => other,
        }
    }
}

/// A received request.
#[derive(Debug)]
struct Seen {
    at: Duration,
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    lane: Lane,
}

/// Responds by a script and records requests. After the script it responds with success.
#[derive(Clone)]
struct Script {
    started: Instant,
    steps: Arc<Mutex<VecDeque<ScriptStep>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Script {
    fn new(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        Script {
            started: Instant::now(),
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            seen: Arc::default(),
        }
    }

    /// Always the same response.
    fn always(step: ScriptStep) -> Self {
        Script::new(std::iter::repeat_n(step, 1000))
    }

    fn config() -> Config {
        Config::new(ServerUrl::parse("https://api.example:6443").unwrap())
    }

    fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    fn client_with(&self, change: impl FnOnce(&mut Config)) -> Client {
        let mut config = Script::config();
        change(&mut config);
        ClientBuilder::service(config, self.clone()).build().unwrap()
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// When requests were received, in milliseconds.
    fn times(&self) -> Vec<u128> {
        self.seen.lock().unwrap().iter().map(|seen| seen.at.as_millis()).collect()
    }

    fn urls(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.url).collect()
    }
}

impl tower_service::Service<http::Request<Body>> for Script {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let script = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            script.seen.lock().unwrap().push(Seen {
                at: script.started.elapsed(),
                method: parts.method,
                url: parts.uri.to_string(),
                headers: parts.headers,
                body,
                lane: parts.extensions.get::<Lane>().copied().unwrap_or_default(),
            });
            let step = script.steps.lock().unwrap().pop_front().unwrap_or_else(ScriptStep::ok);
            match step {
                ScriptStep::Response(code, headers, body) => {
                    let mut response = http::Response::builder().status(code);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    Ok(response.body(Body::full(body))?)
                }
                ScriptStep::Fail(fault) => Err(TransportError::bare(fault, "api.example").into()),
                ScriptStep::Foreign(kind, words) => Err(std::io::Error::new(kind, words).into()),
                ScriptStep::Hang => std::future::pending().await,
                ScriptStep::HangInBody => Ok(http::Response::new(Body::new(Dangling { cut: false }))),
                ScriptStep::Cut => Ok(http::Response::new(Body::new(Dangling { cut: true }))),
            }
        })
    }
}

/// A body that hangs or is truncated.
struct Dangling {
    cut: bool,
}

impl http_body::Body for Dangling {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        if self.cut { Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into()))) } else { Poll::Pending }
    }
}

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true))
}

fn get(client: &Client) -> Request {
    client.request(Method::GET, Path::raw("/version"))
}

fn post(client: &Client) -> Request {
    client.request(Method::POST, Path::raw("/things")).body("x", "text/plain")
}
