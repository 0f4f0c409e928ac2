//! [`PortTransport`]: carries streams to ports over the protocol that the server has.
//!
//! One handshake offers both. With `SPDY/3.1+portforward.k8s.io` a stream has a [`Tunnel`], which another one used before it if
//! possible.
//!
//! With `v4.channel.k8s.io` every stream is a WebSocket of its own. It has two channels: the data in both directions, and the
//! error message of the server. The server starts each with the number of the port, in two bytes, little endian. The protocol
//! has no message for the end of one direction.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use evenkeel_base::channels::{BoxIo, ChannelProtocol, ChannelReader, ChannelWriter, Role, Session, SessionSettings};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tunnel::{IdleTunnels, Tunnel};
use crate::error::{Error, RequestName};
use crate::rest::Request;

/// The subprotocols, the preferred one first.
pub(super) const PROTOCOLS: &[&str] = &[TUNNEL, "v4.channel.k8s.io"];
/// The subprotocol of a tunnel.
pub(super) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The channel of the data.
const DATA: u8 = 0;
/// The channel of the error message.
const ERROR: u8 = 1;
/// The length of the port number that starts a channel.
const PREFIX: usize = 2;

/// A stream to a port, whatever protocol carries it.
pub(super) struct OpenedPort {
    /// The data in both directions. Dropping it closes the stream.
    pub(super) data: BoxIo,
    /// The error message of the server. It is complete when the data has ended.
    pub(super) error: Box<dyn AsyncRead + Send + Unpin>,
    /// Whether the pod sees that the data was shut down.
    pub(super) half_close: bool,
}

/// Opens streams to the ports of one pod.
pub(super) struct PortTransport {
    /// The request of `pods/X/portforward`, without its ports.
    request: Request,
    idle: Arc<IdleTunnels>,
}

impl PortTransport {
    pub(super) fn new(request: Request) -> Self {
        PortTransport { request, idle: Arc::default() }
    }

    pub(super) fn request_name(&self) -> &RequestName {
        self.request.name()
    }

    /// Checks that the server forwards ports of the pod. A tunnel waits for the first stream; with the older protocol the
    /// connection is closed again.
    pub(super) async fn reach(&self, port: u16) -> Result<(), Error> {
        let (io, protocol) = self.upgrade(port).await?;
        if protocol == TUNNEL {
            self.idle.add(Tunnel::start(io));
        }
        Ok(())
    }

    pub(super) async fn open(&self, port: u16) -> Result<OpenedPort, Error> {
        while let Some(tunnel) = self.idle.take() {
            // After an error the tunnel is closed: the connection may have been lost while it was idle.
            if let Ok(opened) = tunnel.open(port, &self.idle).await {
                return Ok(opened);
            }
        }
        let (io, protocol) = self.upgrade(port).await?;
        if protocol != TUNNEL {
            return Ok(open_channels(io, port));
        }
        let opened = Tunnel::start(io).open(port, &self.idle).await;
        opened.map_err(|source| Error::Session { request: self.request.name().clone(), source })
    }

    async fn upgrade(&self, port: u16) -> Result<(BoxIo, &'static str), Error> {
        self.request.clone().query("ports", u32::from(port)).upgrade(PROTOCOLS).await
    }
}

/// Starts a session with the channels of one port.
fn open_channels(io: BoxIo, port: u16) -> OpenedPort {
    let settings = SessionSettings {
        role: Role::Client,
        protocol: ChannelProtocol::V4,
        inbound: vec![DATA, ERROR],
        outbound: vec![DATA],
    };
    let (session, driver) = Session::new(io, &settings);
    let reader = |channel| PortChannel { reader: session.reader(channel), port, prefix: [0; PREFIX], seen: 0 };
    let (data, error) = (reader(DATA), reader(ERROR));
    let writer = session.writer(DATA);
    tokio::spawn(driver);
    OpenedPort {
        data: Box::new(ChannelData { reader: data, writer, is_shut_down: false, _session: session }),
        error: Box::new(error),
        half_close: false,
    }
}

/// The data channel of a port in both directions, and the session that has it.
struct ChannelData {
    reader: PortChannel,
    writer: ChannelWriter,
    is_shut_down: bool,
    _session: Session,
}

/// A channel that starts with the number of its port.
struct PortChannel {
    reader: ChannelReader,
    port: u16,
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix were read.
    seen: usize,
}

impl AsyncRead for PortChannel {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.seen < PREFIX {
            let mut prefix = ReadBuf::new(&mut this.prefix[this.seen..]);
            ready!(Pin::new(&mut this.reader).poll_read(context, &mut prefix))?;
            let length = prefix.filled().len();
            if length == 0 {
                return Poll::Ready(Ok(()));
            }
            this.seen += length;
            if this.seen == PREFIX && u16::from_le_bytes(this.prefix) != this.port {
                let problem = "the server forwards another port than the requested one";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, problem)));
            }
        }
        Pin::new(&mut this.reader).poll_read(context, into)
    }
}

impl AsyncRead for ChannelData {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, into)
    }
}

impl AsyncWrite for ChannelData {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_shut_down {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the stream was shut down")));
        }
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    /// Ends the writes of this side. There is no message for it.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut_down = true;
        Poll::Ready(Ok(()))
    }
}
