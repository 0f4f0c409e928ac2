//! Forwarded ports over the tunnel: SPDY/3.1 in a WebSocket, with the streams of all connections.
//!
//! A connection is a pair of streams with the same `requestID`: one for the error message, one for the data.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_base::channels::{BoxIo, Role};
use evenkeel_base::spdy::{ResetStatus, SpdySession, SpdyStream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::port_forward::{ForwardedPod, PortHandler};

/// The subprotocol of the tunnel.
pub(crate) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The longest time between the two streams of a connection, as in the kubelet.
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves all connections of a tunnel until the client closes it.
pub(crate) async fn run_tunnel(target: ForwardedPod, handler: Arc<dyn PortHandler>, io: BoxIo) {
    let (session, driver) = SpdySession::new(io, Role::Server);
    let serving = async {
        // Dropping it ends all connections.
        let mut connections = JoinSet::new();
        let mut unpaired = Unpaired::default();
        loop {
            tokio::select! {
                stream = session.accept() => match stream {
                    Some(stream) => if let Some(pair) = unpaired.add(stream) {
                        connections.spawn(pair.serve(target.clone(), Arc::clone(&handler)));
                    },
                    None => break,
                },
                () = unpaired.expired() => {}
                Some(_) = connections.join_next() => {}
            }
        }
        // A client that announced its end still waits for the connections that are open.
        tokio::select! {
            () = async { while connections.join_next().await.is_some() {} } => session.close(),
            _ = session.ended() => return,
        }
        let _ = session.ended().await;
    };
    tokio::join!(driver, serving);
}

/// Streams whose counterpart has not arrived.
#[derive(Default)]
struct Unpaired(HashMap<String, (Instant, SpdyStream)>);

/// The two streams of a connection.
struct StreamPair {
    port: u16,
    error: SpdyStream,
    data: SpdyStream,
}

impl Unpaired {
    /// Adds a stream. Returns the pair if it is complete. A stream with invalid headers is refused.
    fn add(&mut self, stream: SpdyStream) -> Option<StreamPair> {
        let headers = stream.headers();
        let id = headers.get("requestID").unwrap_or_default().to_owned();
        let is_known = matches!(headers.get("streamType"), Some("error" | "data"));
        if id.is_empty() || !is_known || port(&stream).is_none() {
            stream.reset(ResetStatus::REFUSED_STREAM);
            return None;
        }
        let Some((_, other)) = self.0.remove(&id) else {
            self.0.insert(id, (Instant::now() + PAIR_TIMEOUT, stream));
            return None;
        };
        let (error, data) = if kind(&stream) == Some("error") { (stream, other) } else { (other, stream) };
        let port = port(&data).filter(|_| kind(&error) == Some("error") && kind(&data) == Some("data"));
        port.map(|port| StreamPair { port, error, data })
    }

    /// Waits until a stream has been alone for too long, and refuses it.
    async fn expired(&mut self) {
        let first = self.0.iter().min_by_key(|(_, (deadline, _))| *deadline);
        let Some((id, deadline)) = first.map(|(id, (deadline, _))| (id.clone(), *deadline)) else {
            return std::future::pending().await;
        };
        sleep_until(deadline).await;
        self.0.remove(&id);
    }
}

fn kind(stream: &SpdyStream) -> Option<&str> {
    stream.headers().get("streamType")
}

fn port(stream: &SpdyStream) -> Option<u16> {
    stream.headers().get("port")?.parse().ok().filter(|port| *port > 0)
}

impl StreamPair {
    async fn serve(self, target: ForwardedPod, handler: Arc<dyn PortHandler>) {
        let StreamPair { port, mut error, data } = self;
        let until_reset = data.until_reset();
        let (returned, data_back) = oneshot::channel();
        let data = HandlerStream { stream: Some(data), returned: Some(returned) };
        let served = tokio::select! {
            served = target.serve(handler, port, Box::new(data)) => served,
            // Nothing reads or sends any more.
            () = until_reset => return,
        };
        // Errors mean that the client has closed the connection.
        if let Err(message) = served {
            let _ = error.write_all(message.as_bytes()).await;
        }
        let _ = error.shutdown().await;
        // The data ends after the error, which the client looks for when the data has ended.
        if let Ok(mut data) = data_back.await {
            let _ = data.shutdown().await;
        }
    }
}

/// The data of a connection. Dropping it returns the stream, which must end after the error message.
struct HandlerStream {
    stream: Option<SpdyStream>,
    returned: Option<oneshot::Sender<SpdyStream>>,
}

impl HandlerStream {
    fn stream(&mut self) -> io::Result<Pin<&mut SpdyStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for HandlerStream {
    fn drop(&mut self) {
        if let (Some(stream), Some(returned)) = (self.stream.take(), self.returned.take()) {
            // An error means that the connection is ending.
            let _ = returned.send(stream);
        }
    }
}

impl AsyncRead for HandlerStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, into)
    }
}

impl AsyncWrite for HandlerStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
