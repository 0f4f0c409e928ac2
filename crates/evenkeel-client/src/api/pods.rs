//! The verbs of pods only: logs, exec, attach, port-forward, copy, debug containers, eviction, binding, proxy.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use evenkeel_core::Status;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, EphemeralContainer, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::params::whole_seconds;
use super::request::{ApiRequest, read_json, verb};
use super::scope::{Addressable, Namespaced};
use super::{Api, Subresource};
use crate::error::Error;
use crate::remote::{AddDebugContainer, CopyFrom, CopyTo, Exec, PortForward};
use crate::rest::{ByteStream, Path, Request};
use crate::wire::{ResponseShape, Wire};

impl Api<Pod, Namespaced> {
    /// Reads the log of a container. Set the options, then await it for the whole text, or [`stream`](Logs::stream) it.
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
        Logs {
            request: self.request(Method::GET, Some(name), Some("log"), ResponseShape::Full).accept("text/plain, */*"),
        }
    }

    /// Runs a command in a container. Set the options, then await it for a [`RemoteProcess`](crate::RemoteProcess), or
    /// collect its [`output`](Exec::output).
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// let pods = client.core_v1().pods("default");
    /// let output = pods.exec("web-0", ["cat", "/etc/hostname"]).container("app").output().await?;
    /// println!("{}: {}", output.status, String::from_utf8_lossy(&output.stdout));
    /// # Ok(())
    /// # }
    /// ```
    pub fn exec<I>(&self, name: &str, command: I) -> Exec
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.exec_request(name).command(command)
    }

    fn exec_request(&self, name: &str) -> Exec {
        Exec::new(self.request(Method::GET, Some(name), Some("exec"), ResponseShape::Full).accept("*/*"))
    }

    /// Attaches to the main process of a container. Set the options, then await it.
    ///
    /// Closing standard input ends it for the process too, if the container has `stdinOnce`.
    pub fn attach(&self, name: &str) -> Exec {
        Exec::new(self.request(Method::GET, Some(name), Some("attach"), ResponseShape::Full).accept("*/*"))
    }

    /// Copies a local file or directory into a container, as `kubectl cp` does. The container needs `tar`.
    ///
    /// `destination` is the path of the copy, not of the directory that contains it. That directory must exist. A directory
    /// is merged into an existing one.
    ///
    /// # Guarantees
    /// - Modes and modification times of files are kept, symbolic links are copied as links. Owner, setuid and setgid are not
    ///   kept. Devices, named pipes and sockets are skipped, and listed in the report.
    /// - Memory is bounded: files are streamed.
    /// - An error means that the copy is incomplete. Files that were copied before stay in the container, the last one
    ///   possibly in part.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// let pods = client.core_v1().pods("default");
    /// let report = pods.copy_to("web-0", "./site", "/usr/share/nginx/html").container("nginx").await?;
    /// println!("{} files, {} bytes", report.files, report.bytes);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_to(&self, name: &str, source: impl Into<PathBuf>, destination: impl Into<String>) -> CopyTo {
        CopyTo::new(self.exec_request(name), source.into(), destination.into())
    }

    /// Copies a file or directory out of a container, as `kubectl cp` does. The container needs `tar`, and is not trusted.
    ///
    /// `destination` is the path of the copy, not of the directory that contains it. Parent directories are created. A
    /// directory is merged into an existing one; existing files are replaced. A source that ends with a slash is a directory,
    /// also if its path is a symbolic link.
    ///
    /// # Guarantees
    /// - Nothing is written outside of the destination, whatever the container sends: entries with other paths are an error,
    ///   and symbolic links in the destination are not followed.
    /// - Only files and directories are created. Symbolic links, devices and named pipes are skipped, and listed in the report;
    ///   hard links become files.
    ///   Setuid, setgid and the sticky bit are removed, and the umask of this process applies.
    /// - A file gets its name once it is complete. After an error or a cancellation the destination has the files that were
    ///   complete before it.
    /// - [`CopyLimits`](crate::remote::CopyLimits) bound bytes, entries and paths. Memory is bounded: files are streamed.
    ///
    /// Not guaranteed: safety against other local users who can change the destination at the same time.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// let pods = client.core_v1().pods("default");
    /// let report = pods.copy_from("web-0", "/var/log/nginx", "./logs").await?;
    /// for entry in &report.skipped {
    ///     println!("not copied: {:?} ({:?})", entry.path, entry.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_from(&self, name: &str, source: impl Into<String>, destination: impl Into<PathBuf>) -> CopyFrom {
        CopyFrom::new(self.exec_request(name), source.into(), destination.into())
    }

    /// Adds an ephemeral container to a pod and waits until it runs, as `kubectl debug` does. A container without a name gets
    /// the name `debugger-` and five random characters.
    ///
    /// An ephemeral container cannot be changed or removed; it stays in the pod when its process has ended.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use k8s_openapi::api::core::v1::EphemeralContainer;
    ///
    /// let pods = client.core_v1().pods("default");
    /// let shell = EphemeralContainer {
    ///     image: Some("busybox".into()),
    ///     target_container_name: Some("app".into()),
    ///     stdin: Some(true),
    ///     tty: Some(true),
    ///     ..EphemeralContainer::default()
    /// };
    /// let debugger = pods.debug("web-0", shell).await?;
    /// let process = debugger.attach().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn debug(&self, name: &str, container: EphemeralContainer) -> AddDebugContainer {
        AddDebugContainer::new(self.clone(), name.to_owned(), container)
    }

    /// Connects to the ports of a pod, or forwards local ports to them. Nothing is sent before a stream is opened.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// let forward = client.core_v1().pods("default").port_forward("web-0");
    /// let mut stream = forward.connect(8080).await?;
    /// stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    /// let mut response = String::new();
    /// stream.read_to_string(&mut response).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn port_forward(&self, name: &str) -> PortForward {
        let request = self.request(Method::GET, Some(name), Some("portforward"), ResponseShape::Full).accept("*/*");
        PortForward::new(request, format!("{}/{name}", self.scope.0))
    }

    /// Evicts a pod. The server responds with 429 while a disruption budget does not allow it.
    pub fn evict(&self, name: &str) -> ApiRequest<Status, verb::Delete> {
        let request = self.wire(Wire::Json).request(Method::POST, Some(name), Some("eviction"), ResponseShape::Full);
        let namespace = self.scope.0.to_string();
        let metadata = ObjectMeta { name: Some(name.into()), namespace: Some(namespace), ..ObjectMeta::default() };
        ApiRequest::evict(request, &self.info, read_json, metadata)
    }

    /// Binds a pod to a node. The binding names both; its namespace is ignored.
    pub fn bind(&self, binding: &Binding) -> ApiRequest<Status, verb::Write> {
        self.wire(Wire::Json).subresource::<Binding>("binding").post_named(binding)
    }

    /// Returns the subresource of ephemeral containers.
    pub fn ephemeral_containers(&self) -> Subresource<Pod, Namespaced> {
        self.subresource("ephemeralcontainers")
    }

    /// Returns the subresource that resizes running pods.
    pub fn resize(&self) -> Subresource<Pod, Namespaced> {
        self.subresource("resize")
    }

    /// Builds a request that the API server proxies to a pod.
    pub fn proxy(&self, method: Method, target: ProxyTarget<'_>, path: &str) -> Request {
        proxy(self, method, target, path)
    }
}

impl Api<Service, Namespaced> {
    /// Builds a request that the API server proxies to a service.
    pub fn proxy(&self, method: Method, target: ProxyTarget<'_>, path: &str) -> Request {
        proxy(self, method, target, path)
    }
}

/// The target of a proxied request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTarget<'a> {
    /// The name of the pod or service.
    pub name: &'a str,
    /// `http` or `https`; empty for `http`.
    pub scheme: &'a str,
    /// The number or the name of the port; empty for the first port.
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
        Err(fault) => api.client.request(method, Path::resource(&api.info)).invalid(fault),
        Ok(namespace) => {
            let proxy = Path::resource(&api.info).namespace(namespace.unwrap_or_default()).name(&name);
            api.client.request(method, proxy.subresource("proxy").suffix(path)).accept("*/*")
        }
    }
}

/// The stream of a container's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A request for a log. Does nothing until it is awaited or streamed.
#[derive(Debug)]
#[must_use = "a log is not read until it is awaited or streamed"]
pub struct Logs {
    request: Request,
}

impl Logs {
    /// Selects the container; required if the pod has more than one.
    pub fn container(self, name: impl Into<String>) -> Self {
        self.query("container", name)
    }

    /// Continues with new lines. For [`stream`](Self::stream): the stream ends when the container ends.
    pub fn follow(self) -> Self {
        self.query("follow", "true")
    }

    /// Reads the log of the container's previous run.
    pub fn previous(self) -> Self {
        self.query("previous", "true")
    }

    /// Skips older lines. Rounded up to whole seconds.
    pub fn since(self, age: Duration) -> Self {
        self.query("sinceSeconds", whole_seconds(age).to_string())
    }

    /// Skips lines before this time.
    pub fn since_time(self, time: Timestamp) -> Self {
        self.query("sinceTime", format!("{time:.0}"))
    }

    /// Prefixes every line with its timestamp.
    pub fn timestamps(self) -> Self {
        self.query("timestamps", "true")
    }

    /// Reads the last lines only.
    pub fn tail_lines(self, lines: u64) -> Self {
        self.query("tailLines", lines.to_string())
    }

    /// Limits the size of the log.
    pub fn limit_bytes(self, bytes: u64) -> Self {
        self.query("limitBytes", bytes.to_string())
    }

    /// Reads one of the streams only. Servers that do not separate them reject the request.
    pub fn only(self, stream: LogStream) -> Self {
        let stream = match stream {
            LogStream::Stdout => "Stdout",
            LogStream::Stderr => "Stderr",
        };
        self.query("stream", stream)
    }

    /// Does not verify the certificate of the node.
    pub fn insecure_skip_tls_verify_backend(self) -> Self {
        self.query("insecureSkipTLSVerifyBackend", "true")
    }

    /// Reads the log as it is written.
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

    /// Reads the whole log. Invalid UTF-8 is replaced.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let response = self.request.send().await?;
            Ok(String::from_utf8_lossy(response.bytes()).into_owned())
        })
    }
}
