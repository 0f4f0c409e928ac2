use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role as Side};

use super::super::frame::{self, DataFrame, Frame, FrameDecoder};
use super::super::headers::{HeaderEncoder, StreamHeaders};
use super::super::{INBOUND_LIMIT, ResetStatus, SpdyError, SpdySession};
use crate::channels::{ChannelError, Role};

/// A client and a server over memory, each with its driver as a task.
fn sessions(buffer: usize) -> (SpdySession, SpdySession) {
    let (ours, theirs) = duplex(buffer);
    let (client, driver) = SpdySession::new(ours, Role::Client);
    tokio::spawn(driver);
    let (server, driver) = SpdySession::new(theirs, Role::Server);
    tokio::spawn(driver);
    (client, server)
}

/// The server's end as a bare WebSocket.
struct Peer {
    socket: WebSocketStream<DuplexStream>,
    decoder: FrameDecoder,
    encoder: HeaderEncoder,
}

async fn against_socket() -> (SpdySession, Peer) {
    let (ours, theirs) = duplex(64 * 1024);
    let (session, driver) = SpdySession::new(ours, Role::Client);
    tokio::spawn(driver);
    let socket = WebSocketStream::from_raw_socket(theirs, Side::Server, None).await;
    (session, Peer { socket, decoder: FrameDecoder::new(), encoder: HeaderEncoder::default() })
}

impl Peer {
    async fn message(&mut self, message: Message) {
        std::future::poll_fn(|cx| Pin::new(&mut self.socket).poll_ready(cx)).await.unwrap();
        Pin::new(&mut self.socket).start_send(message).unwrap();
        std::future::poll_fn(|cx| Pin::new(&mut self.socket).poll_flush(cx)).await.unwrap();
    }

    async fn send(&mut self, bytes: impl Into<Bytes>) {
        self.message(Message::Binary(bytes.into())).await;
    }

    async fn receive(&mut self) -> Option<Message> {
        std::future::poll_fn(|cx| Pin::new(&mut self.socket).poll_next(cx)).await.and_then(Result::ok)
    }

    /// Returns the next frame; `None` at the end of the connection.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode().unwrap() {
                return Some(frame);
            }
            match self.receive().await? {
                Message::Binary(bytes) => self.decoder.feed(bytes),
                Message::Close(_) => return None,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pfw_005_streams_have_headers_and_end_in_each_direction_alone() {
    let (client, server) = sessions(64 * 1024);
    let headers = StreamHeaders::from([("streamType", "data"), ("port", "80"), ("requestID", "0")]);
    let mut ours = client.open(headers.clone()).await.unwrap();
    let mut theirs = server.accept().await.unwrap();
    ours.accepted().await.unwrap();
    assert_eq!(theirs.headers(), &headers);
    ours.write_all(b"question").await.unwrap();
    ours.shutdown().await.unwrap();
    let mut text = String::new();
    theirs.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "question");
    theirs.write_all(b"answer").await.unwrap();
    theirs.shutdown().await.unwrap();
    text.clear();
    ours.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "answer");
}

#[tokio::test(start_paused = true)]
async fn large_data_flows_in_both_directions_of_several_streams_at_once() {
    let (client, server) = sessions(16 * 1024);
    let echo = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        while let Some(stream) = server.accept().await {
            tasks.spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(stream);
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                writer.shutdown().await.unwrap();
            });
        }
        tasks.join_all().await;
        server.ended().await
    });
    let mut tasks = tokio::task::JoinSet::new();
    for start in 0..4_u32 {
        let stream = client.open(StreamHeaders::default()).await.unwrap();
        tasks.spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(stream);
            let sent: Vec<u8> = (start..3_000_000).map(|number| (number / 3) as u8).collect();
            let expected = sent.clone();
            let writing = tokio::spawn(async move {
                writer.write_all(&sent).await.unwrap();
                writer.shutdown().await.unwrap();
            });
            let mut read = Vec::new();
            reader.read_to_end(&mut read).await.unwrap();
            assert!(read == expected, "{} of {} bytes", read.len(), expected.len());
            writing.await.unwrap();
        });
    }
    tasks.join_all().await;
    client.close();
    client.ended().await.unwrap();
    echo.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn pfw_009_the_client_pings_every_ten_seconds() {
    let (session, mut peer) = against_socket().await;
    let started = Instant::now();
    for number in 0..3_u32 {
        assert_eq!(peer.frame().await, Some(Frame::Ping { id: 1 + 2 * number }));
        assert_eq!(started.elapsed(), Duration::from_secs(10) * (number + 1));
        peer.send(frame::ping(1 + 2 * number)).await;
    }
    // The peer's pings get a response.
    peer.send(frame::ping(2)).await;
    assert_eq!(peer.frame().await, Some(Frame::Ping { id: 2 }));
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn pfw_009_close_code_1000_is_the_end_and_anything_else_is_an_error() {
    let close = |code| Message::Close(Some(CloseFrame { code, reason: "r".into() }));
    let (session, mut peer) = against_socket().await;
    let mut stream = session.open(StreamHeaders::default()).await.unwrap();
    peer.message(close(CloseCode::Normal)).await;
    session.ended().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(session.open(StreamHeaders::default()).await.is_err());

    let (session, mut peer) = against_socket().await;
    peer.message(close(CloseCode::Error)).await;
    let error = session.ended().await.unwrap_err();
    assert!(matches!(*error, SpdyError::Connection(ChannelError::Closed { code: 1011, .. })), "{error}");

    let (session, mut peer) = against_socket().await;
    peer.message(Message::Text("text".into())).await;
    let error = session.ended().await.unwrap_err();
    assert!(matches!(*error, SpdyError::Connection(ChannelError::Text)), "{error}");

    let (session, peer) = against_socket().await;
    drop(peer);
    let error = session.ended().await.unwrap_err();
    assert!(matches!(*error, SpdyError::Connection(ChannelError::Lost(_))), "{error}");
}

#[tokio::test(start_paused = true)]
async fn pfw_009_dropping_the_session_announces_the_end_and_closes_with_code_1000() {
    let (session, mut peer) = against_socket().await;
    let mut stream = session.open(StreamHeaders::default()).await.unwrap();
    assert!(matches!(peer.frame().await, Some(Frame::SynStream { stream: 1, .. })));
    drop(session);
    assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(peer.frame().await, Some(Frame::GoAway));
    assert!(matches!(peer.receive().await, Some(Message::Close(Some(frame))) if frame.code == CloseCode::Normal));
}

#[tokio::test(start_paused = true)]
async fn pfw_009_what_the_peer_sent_before_it_closed_is_received_although_nothing_can_be_sent() {
    let (ours, theirs) = duplex(64 * 1024);
    let (client, driver) = SpdySession::new(ours, Role::Client);
    let mut peer = WebSocketStream::from_raw_socket(theirs, Side::Server, None).await;
    let mut stream = client.open(StreamHeaders::default()).await.unwrap();
    let last = DataFrame::new(1, b"last").finish(true);
    let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    for message in [Message::Binary(last), Message::Close(Some(close))] {
        std::future::poll_fn(|cx| Pin::new(&mut peer).poll_ready(cx)).await.unwrap();
        Pin::new(&mut peer).start_send(message).unwrap();
    }
    std::future::poll_fn(|cx| Pin::new(&mut peer).poll_flush(cx)).await.unwrap();
    drop(peer);
    driver.await;
    client.ended().await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "last");
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_although_the_peer_does_not_read() {
    let (ours, _theirs) = duplex(16);
    let (session, driver) = SpdySession::new(ours, Role::Client);
    let driver = tokio::spawn(driver);
    let mut stream = session.open(StreamHeaders::default()).await.unwrap();
    stream.write_all(&[0; 1000]).await.unwrap();
    drop(session);
    driver.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_aborted_driver_fails_the_handles() {
    let (ours, _theirs) = duplex(1024);
    let (session, driver) = SpdySession::new(ours, Role::Client);
    let mut stream = session.open(StreamHeaders::default()).await.unwrap();
    drop(driver);
    assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(session.accept().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_reader_stops_the_connection_and_nothing_is_lost() {
    let (session, mut peer) = against_socket().await;
    let mut stream = session.open(StreamHeaders::default()).await.unwrap();
    let mut other = session.open(StreamHeaders::default()).await.unwrap();
    let total = INBOUND_LIMIT * 4;
    let writing = tokio::spawn(async move {
        let reply = frame::syn_reply(1, &mut peer.encoder);
        peer.send(reply).await;
        for _ in 0..total / 1024 {
            peer.send(DataFrame::new(1, &[7; 1024]).finish(false)).await;
        }
        peer.send(DataFrame::new(1, &[]).finish(true)).await;
        peer.send(DataFrame::new(3, b"after").finish(true)).await;
        while peer.frame().await.is_some() {}
    });
    stream.accepted().await.unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!writing.is_finished(), "the peer must wait while nothing is read");
    assert!(!session.is_available());
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    assert_eq!(read.len(), total);
    assert!(session.is_available());
    read.clear();
    other.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"after");
    drop(session);
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_does_not_stop_the_others() {
    let (client, server) = sessions(64 * 1024);
    let ours = client.open(StreamHeaders::default()).await.unwrap();
    let mut dropped = server.accept().await.unwrap();
    let filling = tokio::spawn(async move {
        let error = loop {
            if let Err(error) = dropped.write(&[0; 4096]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    });
    let mut other = client.open(StreamHeaders::default()).await.unwrap();
    let mut theirs = server.accept().await.unwrap();
    drop(ours);
    filling.await.unwrap();
    theirs.write_all(b"fine").await.unwrap();
    theirs.shutdown().await.unwrap();
    let mut text = String::new();
    other.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "fine");
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_an_error_of_that_stream() {
    let (client, server) = sessions(64 * 1024);
    let refused = client.open(StreamHeaders::default()).await.unwrap();
    let until_reset = refused.until_reset();
    server.accept().await.unwrap().reset(ResetStatus::REFUSED_STREAM);
    let mut refused = refused;
    until_reset.await;
    let error = refused.next().await.unwrap().unwrap_err();
    assert!(matches!(*error, SpdyError::Reset(ResetStatus::REFUSED_STREAM)), "{error}");
    let fine = client.open(StreamHeaders::default()).await.unwrap();
    let _theirs = server.accept().await.unwrap();
    fine.accepted().await.unwrap();
}
