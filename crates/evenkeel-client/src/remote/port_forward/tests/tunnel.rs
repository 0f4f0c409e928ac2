use std::io;
use std::time::Duration;

use evenkeel_base::channels::Role;
use evenkeel_base::spdy::{INBOUND_LIMIT, SpdySession, SpdyStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::super::transport::{PROTOCOLS, TUNNEL};
use super::super::{PortForward, PortForwardError, PortStream};
use super::Fixture;
use crate::error::Error;
use crate::remote::SessionError;

fn fixture() -> Fixture {
    Fixture::with_protocols(&[TUNNEL], [])
}

impl Fixture {
    /// Returns the server's side of the next tunnel.
    async fn tunnel(&mut self) -> SpdySession {
        let (session, driver) = SpdySession::new(self.connections.recv().await.unwrap(), Role::Server);
        tokio::spawn(driver);
        session
    }

    fn handshakes(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

/// Accepts the two streams of a connection.
async fn pair(server: &SpdySession) -> (SpdyStream, SpdyStream) {
    (server.accept().await.unwrap(), server.accept().await.unwrap())
}

/// Opens a stream on a tunnel that is idle, with the server's two streams.
async fn connect(forward: &PortForward, server: &SpdySession, port: u16) -> (PortStream, SpdyStream, SpdyStream) {
    let (stream, (error, data)) = tokio::join!(forward.connect(port), pair(server));
    (stream.unwrap(), error, data)
}

/// Opens a stream on a new tunnel.
async fn first(fixture: &mut Fixture, port: u16) -> (SpdySession, PortStream, SpdyStream, SpdyStream) {
    let forward = fixture.forward.clone();
    let accept = async {
        let server = fixture.tunnel().await;
        let (error, data) = pair(&server).await;
        (server, error, data)
    };
    let (stream, (server, error, data)) = tokio::join!(forward.connect(port), accept);
    (server, stream.unwrap(), error, data)
}

#[tokio::test(start_paused = true)]
async fn pfw_005_a_connection_is_an_error_stream_and_a_data_stream() {
    let mut fixture = fixture();
    let (server, mut stream, mut error, mut data) = first(&mut fixture, 80).await;
    assert_eq!(error.read(&mut [0]).await.unwrap(), 0, "the client ends the error stream at once");
    let header = |stream: &SpdyStream, name| stream.headers().get(name).unwrap_or_default().to_owned();
    let headers = |stream: &SpdyStream| ["streamType", "port", "requestID"].map(|name| header(stream, name));
    assert_eq!(headers(&error), ["error", "80", "0"]);
    assert_eq!(headers(&data), ["data", "80", "0"]);
    data.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    drop(stream);
    let (_stream, error, data) = connect(&fixture.forward, &server, 81).await;
    assert_eq!(headers(&error), ["error", "81", "1"]);
    assert_eq!(headers(&data), ["data", "81", "1"]);
    assert_eq!(fixture.handshakes(), 1, "the second one uses the connection of the first");
}

#[tokio::test]
async fn pfw_003_the_first_connection_uses_the_tunnel_with_which_the_listener_began() {
    let mut fixture = fixture();
    let listener = fixture.forward.listen([":80"]).addresses(["127.0.0.1"]).await.unwrap();
    let server = fixture.tunnel().await;
    let mut local = TcpStream::connect(listener.ports()[0].local[0]).await.unwrap();
    let (_error, mut data) = pair(&server).await;
    data.write_all(b"!").await.unwrap();
    assert_eq!(local.read_u8().await.unwrap(), b'!');
    assert_eq!(fixture.handshakes(), 1);
}

#[tokio::test(start_paused = true)]
async fn pfw_006_each_direction_ends_alone_and_dropping_the_stream_closes_its_connection() {
    let mut fixture = fixture();
    let (server, mut stream, _error, mut data) = first(&mut fixture, 80).await;
    assert!(stream.has_half_close());
    stream.write_all(b"question").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut text = String::new();
    data.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "question");
    data.write_all(b"answer").await.unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"answer");
    drop(stream);
    data.until_reset().await;
    server.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn chc_25_and_pfw_007_the_error_of_a_port_fails_only_its_stream() {
    let mut fixture = fixture();
    let (_server, mut stream, _error, mut data) = first(&mut fixture, 80).await;
    let (_other_server, mut refused, mut error, other) = first(&mut fixture, 81).await;
    error.write_all(b"connection refused").await.unwrap();
    error.shutdown().await.unwrap();
    drop(other);
    let failed = refused.read_u8().await.unwrap_err();
    assert_eq!(PortForwardError::in_io(&failed).unwrap().message, "connection refused");
    data.write_all(b"fine").await.unwrap();
    data.shutdown().await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "fine");
}

#[tokio::test(start_paused = true)]
async fn pfw_008_a_lost_tunnel_fails_its_streams_and_the_next_one_opens_another() {
    let mut fixture = fixture();
    let (server, mut stream, error, data) = first(&mut fixture, 80).await;
    drop((server, error, data));
    assert_eq!(stream.read_u8().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let (_server, _stream, _error, _data) = first(&mut fixture, 80).await;
    assert_eq!(fixture.handshakes(), 2);
}

#[tokio::test(start_paused = true)]
async fn pfw_009_a_stream_that_is_not_read_does_not_stop_new_ones() {
    let mut fixture = fixture();
    let (server, mut unread, _error, mut data) = first(&mut fixture, 80).await;
    let total = 4 * INBOUND_LIMIT;
    let writing = tokio::spawn(async move {
        data.write_all(&vec![7; total]).await.unwrap();
        data.shutdown().await.unwrap();
        data
    });
    // Time advances only while nothing can make progress.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!writing.is_finished());
    let (_second, mut stream, _error, mut data) = first(&mut fixture, 80).await;
    data.write_all(b"!").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'!');
    assert_eq!(fixture.handshakes(), 2);
    let mut read = Vec::new();
    unread.read_to_end(&mut read).await.unwrap();
    assert_eq!(read.len(), total);
    drop((writing.await.unwrap(), server));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_idle_tunnels_is_bounded() {
    let mut fixture = fixture();
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(first(&mut fixture, 80).await);
    }
    let mut servers = Vec::new();
    for (server, mut stream, _error, mut data) in open {
        data.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        servers.push(server);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(servers.iter().filter(|server| server.is_available()).count(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_reply_is_an_error_after_30_seconds() {
    let mut fixture = fixture();
    let started = Instant::now();
    let forward = fixture.forward.clone();
    let (connected, _server) = tokio::join!(forward.connect(80), fixture.tunnel());
    let error = connected.unwrap_err();
    assert!(matches!(&error, Error::Session { source: SessionError::ReplyTimeout { .. }, .. }), "{error:?}");
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_does_not_reply_any_more_is_replaced() {
    let mut fixture = fixture();
    let (_silent, mut stream, _error, mut data) = first(&mut fixture, 80).await;
    data.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    drop(stream);
    let started = Instant::now();
    let (_server, _second, _error, _data) = first(&mut fixture, 80).await;
    assert_eq!((started.elapsed(), fixture.handshakes()), (Duration::from_secs(30), 2));
}

#[tokio::test(start_paused = true)]
async fn dropping_all_handles_closes_the_tunnel() {
    let mut fixture = fixture();
    let (server, stream, _error, _data) = first(&mut fixture, 80).await;
    let Fixture { forward, .. } = fixture;
    drop(forward);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(server.is_available(), "the stream keeps its tunnel");
    drop(stream);
    server.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pfw_010_one_handshake_offers_the_tunnel_and_then_channels() {
    assert_eq!(PROTOCOLS, ["SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io"]);
    let mut fixture = Fixture::new([]);
    let _stream = fixture.forward.connect(80).await.unwrap();
    let _server = fixture.server(80).await;
    assert_eq!(fixture.handshakes(), 1);
    // A refusal is the result; no other protocol is tried.
    for code in [401, 403, 404] {
        let fixture = Fixture::with_protocols(&[TUNNEL], [code]);
        assert_eq!(fixture.forward.connect(80).await.unwrap_err().status().unwrap().code, code);
        assert_eq!(fixture.handshakes(), 1);
    }
}
