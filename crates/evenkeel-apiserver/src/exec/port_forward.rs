//! Forwarded ports of pods (MSC-7).
//!
//! `run_channels` serves a request with `v4.channel.k8s.io`: two channels per port, the data in both directions and the error
//! message. The server starts each with the number of the port, in two bytes, little endian.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_base::channels::{BoxIo, ChannelProtocol, ChannelReader, ChannelWriter, Role, Session, SessionSettings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, split};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::port_tunnel::TUNNEL;

/// The subprotocols, the preferred one first.
pub(crate) const PROTOCOLS: &[&str] = &[TUNNEL, "v4.channel.k8s.io"];
/// The most ports of one request: each has two channels, and 255 is no channel.
pub(crate) const MAX_PORTS: usize = 127;
/// The size of the buffer of one direction.
const BUFFER: usize = 64 * 1024;

/// The future of a [`PortHandler`]. The text of an error is sent to the client.
pub type PortFuture = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;

/// Serves the forwarded ports of pods: a closure, or [`LocalAddresses`].
///
/// The future is dropped when the client closes the connection, and when the server stops.
pub trait PortHandler: Send + Sync + 'static {
    /// Serves one connection, which ends when the future completes.
    fn serve(&self, connection: PortConnection) -> PortFuture;
}

impl<F, Serving> PortHandler for F
where
    F: Fn(PortConnection) -> Serving + Send + Sync + 'static,
    Serving: Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    fn serve(&self, connection: PortConnection) -> PortFuture {
        Box::pin(self(connection))
    }
}

/// A connection to a port of a pod.
#[derive(Debug)]
#[non_exhaustive]
pub struct PortConnection {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The port.
    pub port: u16,
    /// The data in both directions.
    pub stream: PortStream,
}

/// The data of a [`PortConnection`]. Its end is the end that the client sent.
///
/// Clients with the channel protocol can neither send nor see the end of one direction, only that of the connection.
pub struct PortStream(BoxIo);

impl AsyncRead for PortStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl fmt::Debug for PortStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortStream")
    }
}

/// Connects the ports of all pods to addresses that this process can reach. A port without an address is refused.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_apiserver::{ApiServer, LocalAddresses};
///
/// let ports = LocalAddresses::new().port(80, "127.0.0.1:8080".parse()?);
/// let server = ApiServer::builder().port_forward(ports).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LocalAddresses {
    ports: Vec<(u16, SocketAddr)>,
    others: Option<SocketAddr>,
}

impl LocalAddresses {
    /// Returns a handler that refuses all ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects all ports without an address of their own to this address.
    pub fn all(address: SocketAddr) -> Self {
        LocalAddresses { ports: Vec::new(), others: Some(address) }
    }

    /// Connects a port of the pods to this address. The first of several addresses of a port decides.
    pub fn port(mut self, port: u16, address: SocketAddr) -> Self {
        self.ports.push((port, address));
        self
    }

    fn address(&self, port: u16) -> Option<SocketAddr> {
        self.ports.iter().find(|(known, _)| *known == port).map(|(_, address)| *address).or(self.others)
    }
}

impl PortHandler for LocalAddresses {
    fn serve(&self, connection: PortConnection) -> PortFuture {
        let address = self.address(connection.port);
        Box::pin(async move {
            let Some(address) = address else { return Err("connection refused: the port has no address".into()) };
            let stream = TcpStream::connect(address).await;
            let stream = stream.map_err(|error| format!("failed to connect to {address}: {error}"))?;
            // Only the latency depends on it.
            let _ = stream.set_nodelay(true);
            copy(connection.stream, stream).await;
            Ok(())
        })
    }
}

/// Copies in both directions until the pod's side ends. Dropping the connection passes all other ends on.
async fn copy(client: PortStream, mut pod: TcpStream) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_pod, mut to_pod) = pod.split();
    let upload = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            let Ok(length) = from_client.read(&mut buffer).await else { return };
            let data = buffer.get(..length).unwrap_or_default();
            let written = if data.is_empty() { to_pod.shutdown().await } else { to_pod.write_all(data).await };
            if data.is_empty() || written.is_err() {
                // What the pod sends still reaches the client.
                return std::future::pending().await;
            }
        }
    };
    let download = async {
        let mut buffer = vec![0; BUFFER];
        while let Ok(length @ 1..) = from_pod.read(&mut buffer).await {
            if to_client.write_all(buffer.get(..length).unwrap_or_default()).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = upload => {}
        () = download => {}
    }
}

/// The pod of a request for ports that passed all checks.
#[derive(Clone, Debug)]
pub(crate) struct ForwardedPod {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
}

impl ForwardedPod {
    /// Serves one connection, over whatever protocol. An error is the message for the client.
    pub(crate) async fn serve(self, handler: Arc<dyn PortHandler>, port: u16, stream: BoxIo) -> Result<(), String> {
        let ForwardedPod { namespace, pod, uid } = self;
        let connection = PortConnection { namespace, pod: pod.clone(), port, stream: PortStream(stream) };
        let served = handler.serve(connection).await;
        served.map_err(|error| format!("error forwarding port {port} to pod {pod}, uid {uid}: {error}"))
    }
}

/// Serves all ports of a request until the last connection ends.
pub(crate) async fn run_channels(target: ForwardedPod, ports: Vec<u16>, handler: Arc<dyn PortHandler>, io: BoxIo) {
    // The data of port `i` has channel `2i`, its error `2i + 1`.
    let id = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    let settings = SessionSettings {
        role: Role::Server,
        protocol: ChannelProtocol::V4,
        inbound: (0..ports.len()).map(|port| id(port * 2)).collect(),
        outbound: (0..ports.len() * 2).map(id).collect(),
    };
    let (session, driver) = Session::new(io, &settings);
    let serving = async {
        let mut connections = JoinSet::new();
        for (at, port) in ports.into_iter().enumerate() {
            let (reader, mut writer) = (session.reader(id(at * 2)), session.writer(id(at * 2)));
            let mut error = session.writer(id(at * 2 + 1));
            let (target, handler) = (target.clone(), Arc::clone(&handler));
            connections.spawn(async move {
                // An error of a write means that the connection has ended.
                let _ = writer.write_all(&port.to_le_bytes()).await;
                let _ = error.write_all(&port.to_le_bytes()).await;
                if let Err(message) = target.serve(handler, port, Box::new(PortChannel { reader, writer })).await {
                    let _ = error.write_all(message.as_bytes()).await;
                }
            });
        }
        let finished = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            () = finished => session.close(),
            _ = session.ended() => return,
        }
        let _ = session.ended().await;
    };
    tokio::join!(driver, serving);
}

/// The data channel of a port in both directions.
struct PortChannel {
    reader: ChannelReader,
    writer: ChannelWriter,
}

impl AsyncRead for PortChannel {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, into)
    }
}

impl AsyncWrite for PortChannel {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    /// There is no message for the end of one direction.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
