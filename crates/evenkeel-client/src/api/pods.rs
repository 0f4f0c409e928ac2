//! What only Pods can do: show their logs, be evicted, be bound to a node, be talked to.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use evenkeel_core::Status;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::call::{Call, read_json, verb};
use super::params::whole_seconds;
use super::scope::{Addressable, Namespaced};
use super::{Api, Subresource};
use crate::error::Error;
use crate::rest::{ByteStream, Path, Request};
use crate::wire::{Part, Wire};

impl Api<Pod, Namespaced> {
    /// The log of a pod's container. Say which part of it, then await it for a text, or
    /// [`stream`](Logs::stream) it.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// let pods = client.core_v1().pods("default");
    /// let text = pods.logs("web-0").container("app").tail_lines(20).await?;
    /// let mut follow = pods.logs("web-0").follow().stream().await?;
    /// while let Some(chunk) = follow.next().await {
    ///     print!("{}", String::from_utf8_lossy(&chunk?));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn logs(&self, name: &str) -> Logs {
        Logs { request: self.request(Method::GET, Some(name), Some("log"), Part::All).accept("text/plain, */*") }
    }

    /// Asks for a pod to be deleted, if the disruption budgets allow it; if they do not, the answer is a 429.
    pub fn evict(&self, name: &str) -> Call<Status, verb::Delete> {
        let request = self.wire(Wire::Json).request(Method::POST, Some(name), Some("eviction"), Part::All);
        let namespace = self.scope.0.to_string();
        let metadata = ObjectMeta { name: Some(name.into()), namespace: Some(namespace), ..ObjectMeta::default() };
        Call::evict(request, &self.info, read_json, metadata)
    }

    /// Puts a pod onto a node. The binding names both; its namespace is not looked at.
    pub fn bind(&self, binding: &Binding) -> Call<Status, verb::Write> {
        self.wire(Wire::Json).subresource::<Binding>("binding").post_named(binding)
    }

    /// The containers that are put into running pods to look at them.
    pub fn ephemeral_containers(&self) -> Subresource<Pod, Namespaced> {
        self.subresource("ephemeralcontainers")
    }

    /// The resources of running pods.
    pub fn resize(&self) -> Subresource<Pod, Namespaced> {
        self.subresource("resize")
    }

    /// A request to a program in a pod, through the API server.
    pub fn proxy(&self, method: Method, target: ProxyTarget<'_>, path: &str) -> Request {
        proxy(self, method, target, path)
    }
}

impl Api<Service, Namespaced> {
    /// A request to a program behind a service, through the API server.
    pub fn proxy(&self, method: Method, target: ProxyTarget<'_>, path: &str) -> Request {
        proxy(self, method, target, path)
    }
}

/// A program that the API server is to forward a request to: the name of its pod or service, and perhaps more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTarget<'a> {
    /// The name of the pod or service.
    pub name: &'a str,
    /// `http` or `https`; empty for `http`.
    pub scheme: &'a str,
    /// The number or the name of the port; empty for the first.
    pub port: &'a str,
}

impl fmt::Display for ProxyTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scheme, self.port) {
            ("", "") => f.write_str(self.name),
            ("", port) => write!(f, "{}:{port}", self.name),
            (scheme, port) => write!(f, "{scheme}:{}:{port}", self.name),
        }
    }
}

fn proxy<K>(api: &Api<K, Namespaced>, method: Method, target: ProxyTarget<'_>, path: &str) -> Request {
    let name = target.to_string();
    match api.scope.address() {
        Err(fault) => api.client.request(method, Path::resource(&api.info)).fault(fault),
        Ok(namespace) => {
            let proxy = Path::resource(&api.info).namespace(namespace.unwrap_or_default()).name(&name);
            api.client.request(method, proxy.subresource("proxy").suffix(path)).accept("*/*")
        }
    }
}

/// What a container writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// A part of a log. Does nothing until it is awaited or streamed.
#[derive(Debug)]
#[must_use = "a log is not read until it is awaited or streamed"]
pub struct Logs {
    request: Request,
}

impl Logs {
    /// Of this container; needed if the pod has more than one.
    pub fn container(self, name: impl Into<String>) -> Self {
        self.query("container", name)
    }

    /// Go on as the log grows. Only makes sense with [`stream`](Self::stream).
    pub fn follow(self) -> Self {
        self.query("follow", "true")
    }

    /// Of the container's last run, not of the present one.
    pub fn previous(self) -> Self {
        self.query("previous", "true")
    }

    /// Only what is younger than this, in whole seconds: a part of one is one.
    pub fn since(self, age: Duration) -> Self {
        self.query("sinceSeconds", whole_seconds(age).to_string())
    }

    /// Only what came after this.
    pub fn since_time(self, time: Timestamp) -> Self {
        self.query("sinceTime", format!("{time:.0}"))
    }

    /// Every line begins with its time.
    pub fn timestamps(self) -> Self {
        self.query("timestamps", "true")
    }

    /// Only the last lines.
    pub fn tail_lines(self, lines: u64) -> Self {
        self.query("tailLines", lines.to_string())
    }

    /// No more than this.
    pub fn limit_bytes(self, bytes: u64) -> Self {
        self.query("limitBytes", bytes.to_string())
    }

    /// Only one of the streams; servers that cannot tell them apart refuse.
    pub fn only(self, stream: LogStream) -> Self {
        let stream = match stream {
            LogStream::Stdout => "Stdout",
            LogStream::Stderr => "Stderr",
        };
        self.query("stream", stream)
    }

    /// Do not check the certificate of the node that has the log.
    pub fn insecure_skip_tls_verify_backend(self) -> Self {
        self.query("insecureSkipTLSVerifyBackend", "true")
    }

    /// Reads the log as it comes.
    pub async fn stream(self) -> Result<ByteStream, Error> {
        self.request.stream().await
    }

    fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value: String = value.into();
        self.request = self.request.query(name, value);
        self
    }
}

impl IntoFuture for Logs {
    type Output = Result<String, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

    /// Reads the log to its end. Bytes that are no UTF-8 are replaced.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let answer = self.request.send().await?;
            Ok(String::from_utf8_lossy(answer.bytes()).into_owned())
        })
    }
}
