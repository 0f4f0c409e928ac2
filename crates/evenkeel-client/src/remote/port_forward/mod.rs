//! [`PortForward`]: connections to the ports of a pod.
//!
//! ```text
//! PortForward::connect ──► transport ──► PortStream        one stream of bytes, with the error of the pod's port
//!        ▲
//! ListenPorts ──► PortListener: accepts local connections; relay copies between each and a PortStream
//! ```

mod listen;
mod relay;
mod spec;
mod stream;
#[cfg(test)]
mod tests;
mod transport;
mod tunnel;

use std::fmt;
use std::sync::Arc;

pub use self::listen::{BindFailure, BoundPort, ListenError, ListenPorts, PortListener};
pub use self::relay::ForwardError;
pub use self::spec::{ForwardedPort, PortSpecError};
pub use self::stream::{PortForwardError, PortStream};
use self::transport::PortTransport;
use crate::error::{Error, RequestName};
use crate::rest::{Request, RequestError};

/// Connects to the ports of a pod. Returned by [`Api<Pod>::port_forward`](crate::Api::port_forward).
///
/// [`connect`](Self::connect) opens a stream to a port, any number of times and concurrently. [`listen`](Self::listen)
/// binds local ports and forwards their connections, as `kubectl port-forward` does. Nothing is sent before.
///
/// # Guarantees
///
/// - A port that fails, for example because no process listens on it, fails only its stream. The error of the stream
///   contains a [`PortForwardError`] with the server's message.
/// - A lost connection to the API server fails the streams that it carried. The next [`connect`](Self::connect) opens a new
///   one.
/// - Streams are independent of this handle. Dropping a [`PortStream`] closes it.
/// - Streams do not disturb each other: each has a connection of its own. After a stream that the pod has ended, a later one
///   uses its connection, unless the server has only the older protocol. Up to 8 connections wait for that, until this
///   handle and its clones are dropped.
#[derive(Clone)]
pub struct PortForward {
    transport: Arc<PortTransport>,
    /// `namespace/name`, for errors.
    pod: Arc<str>,
}

impl PortForward {
    pub(crate) fn new(request: Request, pod: String) -> Self {
        PortForward { transport: Arc::new(PortTransport::new(request)), pod: pod.into() }
    }

    /// Opens a stream to a port of the pod.
    ///
    /// Whether a process listens on the port is known only later: the server accepts a stream before it connects. A refused one
    /// is an error of the first read.
    ///
    /// # Errors
    /// Returns an error if the pod does not exist, if the server does not allow port-forward, or if the connection fails.
    pub async fn connect(&self, port: u16) -> Result<PortStream, Error> {
        if port == 0 {
            return Err(RequestError::Invalid { problem: PortSpecError::RemoteZero.to_string() }.into());
        }
        let opened = self.transport.open(port).await?;
        Ok(PortStream::new(opened, Arc::clone(&self.pod), port))
    }

    /// Binds local ports and forwards their connections to ports of the pod. Set the options, then await it for a
    /// [`PortListener`].
    ///
    /// The server is contacted first: an unknown pod is an error at once. A process that listens on the port is not needed yet.
    ///
    /// A port is `5000` (the same port on both sides), `8888:5000` (local port, port of the pod) or `:5000` (any free
    /// local port), as for kubectl; or a [`ForwardedPort`].
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let forward = client.core_v1().pods("default").port_forward("web-0");
    /// let listener = forward.listen([":8080"]).await?;
    /// for port in listener.ports() {
    ///     println!("{:?} -> {}", port.local, port.remote);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen<I>(&self, ports: I) -> ListenPorts
    where
        I: IntoIterator,
        I::Item: TryInto<ForwardedPort>,
        PortSpecError: From<<I::Item as TryInto<ForwardedPort>>::Error>,
    {
        let ports = ports.into_iter().map(|port| port.try_into().map_err(PortSpecError::from)).collect();
        ListenPorts::new(self.clone(), ports)
    }

    pub(super) fn request_name(&self) -> &RequestName {
        self.transport.request_name()
    }

    /// Returns `namespace/name` of the pod.
    pub(super) fn pod(&self) -> &str {
        &self.pod
    }
}

impl fmt::Debug for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortForward").field("pod", &self.pod).finish_non_exhaustive()
    }
}
