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

use super::super::{
    CHUNK, ChannelError, ChannelProtocol, ERROR, INBOUND_LIMIT, MAX_MESSAGE, Role, STDERR, STDIN, STDOUT, Session,
    SessionSettings,
};
use super::{client, server};

/// A client session, and the server's end as a bare WebSocket.
async fn against_socket() -> (Session, Peer) {
    let (ours, theirs) = duplex(64 * 1024);
    let (session, driver) = Session::new(ours, &client(ChannelProtocol::V5));
    tokio::spawn(driver);
    (session, Peer(WebSocketStream::from_raw_socket(theirs, Side::Server, None).await))
}

struct Peer(WebSocketStream<DuplexStream>);

impl Peer {
    async fn send(&mut self, message: Message) {
        std::future::poll_fn(|cx| Pin::new(&mut self.0).poll_ready(cx)).await.unwrap();
        Pin::new(&mut self.0).start_send(message).unwrap();
        std::future::poll_fn(|cx| Pin::new(&mut self.0).poll_flush(cx)).await.unwrap();
    }

    async fn binary(&mut self, channel: u8, payload: &[u8]) {
        self.send(Message::Binary([&[channel], payload].concat().into())).await;
    }

    async fn close(&mut self, code: CloseCode) {
        self.send(Message::Close(Some(CloseFrame { code, reason: "r".into() }))).await;
    }

    async fn receive(&mut self) -> Option<Message> {
        std::future::poll_fn(|cx| Pin::new(&mut self.0).poll_next(cx)).await.and_then(Result::ok)
    }
}

#[tokio::test(start_paused = true)]
async fn chc_24_output_arrives_before_a_clean_end() {
    let (session, mut peer) = against_socket().await;
    let (mut stdout, mut error) = (session.reader(STDOUT), session.reader(ERROR));
    peer.binary(STDOUT, b"one ").await;
    peer.binary(ERROR, b"{}").await;
    peer.binary(STDOUT, b"two").await;
    peer.close(CloseCode::Normal).await;
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "one two");
    text.clear();
    error.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "{}");
    session.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rcm_015_another_close_code_and_a_lost_connection_fail_the_readers() {
    let (session, mut peer) = against_socket().await;
    let mut stdout = session.reader(STDOUT);
    peer.binary(STDOUT, b"all of it").await;
    peer.close(CloseCode::Error).await;
    let mut read = Vec::new();
    assert_eq!(stdout.read_to_end(&mut read).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(read, b"all of it");
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::Closed { code: 1011, .. }));

    let (session, peer) = against_socket().await;
    let mut stdout = session.reader(STDOUT);
    drop(peer);
    assert_eq!(stdout.read_to_end(&mut read).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn rcm_011_a_text_message_an_empty_message_and_a_huge_message_end_the_session() {
    let (session, mut peer) = against_socket().await;
    peer.send(Message::Text("text".into())).await;
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::Text));
    let (session, mut peer) = against_socket().await;
    peer.send(Message::Binary(Bytes::new())).await;
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::Empty));
    let (session, mut peer) = against_socket().await;
    let sending = tokio::spawn(async move {
        std::future::poll_fn(|cx| Pin::new(&mut peer.0).poll_ready(cx)).await.unwrap();
        let _ = Pin::new(&mut peer.0).start_send(Message::Binary(vec![1; MAX_MESSAGE + 1].into()));
        let _ = std::future::poll_fn(|cx| Pin::new(&mut peer.0).poll_flush(cx)).await;
    });
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::TooLarge { .. }));
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn chc_24_the_end_of_stdin_is_exactly_one_message() {
    let (session, mut peer) = against_socket().await;
    let mut stdin = session.writer(STDIN);
    stdin.write_all(b"abc").await.unwrap();
    stdin.shutdown().await.unwrap();
    assert_eq!(stdin.write(b"d").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    drop(stdin);
    session.close();
    assert_eq!(peer.receive().await, Some(Message::Binary(Bytes::from_static(b"\0abc"))));
    assert_eq!(peer.receive().await, Some(Message::Binary(Bytes::from_static(&[255, 0]))));
    assert!(matches!(peer.receive().await, Some(Message::Close(Some(frame))) if frame.code == CloseCode::Normal));
    session.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rcm_014_a_peer_that_answers_no_ping_is_given_up_after_61_seconds() {
    let (session, mut peer) = against_socket().await;
    let started = Instant::now();
    // The peer does not read, so it answers nothing.
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::PingTimeout { .. }));
    assert_eq!(started.elapsed(), Duration::from_secs(61));
    assert_eq!(peer.receive().await, Some(Message::Ping(Bytes::new())));
}

/// How long a session accepts writes while its peer reads nothing.
async fn blocked(role: Role) -> Duration {
    let (ours, _theirs) = duplex(1024);
    let settings = SessionSettings { role, protocol: ChannelProtocol::V4, inbound: vec![], outbound: vec![STDOUT] };
    let (session, driver) = Session::new(ours, &settings);
    tokio::spawn(driver);
    let started = Instant::now();
    session.writer(STDOUT).write_all(&[0; 4096]).await.unwrap();
    assert!(matches!(*session.ended().await.unwrap_err(), ChannelError::WriteTimeout { .. }));
    started.elapsed()
}

#[tokio::test(start_paused = true)]
async fn rcm_014_a_peer_that_reads_nothing_is_given_up() {
    assert_eq!(blocked(Role::Client).await, Duration::from_secs(60));
    assert_eq!(blocked(Role::Server).await, Duration::from_secs(4 * 60 * 60));
}

#[tokio::test(start_paused = true)]
async fn rcm_014_pongs_keep_a_silent_session_open() {
    let (session, mut peer) = against_socket().await;
    let answering = tokio::spawn(async move { while peer.receive().await.is_some() {} });
    let ended = tokio::time::timeout(Duration::from_secs(600), session.ended()).await;
    assert!(ended.is_err(), "{ended:?}");
    drop(session);
    answering.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rcm_014_an_unread_channel_is_no_ping_timeout() {
    let (session, mut peer) = against_socket().await;
    let (mut stdout, mut stderr) = (session.reader(STDOUT), session.reader(STDERR));
    let total = INBOUND_LIMIT * 4;
    let writing = tokio::spawn(async move {
        for _ in 0..total / CHUNK {
            peer.binary(STDOUT, &[7; CHUNK]).await;
        }
        peer.binary(STDERR, b"after").await;
        peer.close(CloseCode::Normal).await;
        while peer.receive().await.is_some() {}
    });
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!writing.is_finished(), "the peer must wait while nothing is read");
    let mut read = Vec::new();
    stdout.read_to_end(&mut read).await.unwrap();
    assert_eq!(read.len(), total);
    read.clear();
    stderr.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"after");
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rcm_007_dropping_the_session_closes_the_connection_and_fails_its_handles() {
    let (session, mut peer) = against_socket().await;
    let (mut stdout, mut stdin) = (session.reader(STDOUT), session.writer(STDIN));
    drop(session);
    assert_eq!(stdout.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(stdin.write(b"x").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert!(matches!(peer.receive().await, Some(Message::Close(Some(frame))) if frame.code == CloseCode::Normal));
}

#[tokio::test(start_paused = true)]
async fn rcm_007_an_aborted_driver_fails_the_handles() {
    let (ours, _theirs) = duplex(1024);
    let (session, driver) = Session::new(ours, &client(ChannelProtocol::V5));
    let mut stdout = session.reader(STDOUT);
    drop(driver);
    assert_eq!(stdout.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test(start_paused = true)]
async fn rcm_005_both_directions_flow_at_once() {
    let (ours, theirs) = duplex(16 * 1024);
    let (client, driver) = Session::new(ours, &client(ChannelProtocol::V5));
    tokio::spawn(driver);
    let (server, driver) = Session::new(theirs, &server(ChannelProtocol::V5));
    tokio::spawn(driver);
    // The server echoes, so that both sides write as much as they read.
    let echo = tokio::spawn(async move {
        let (mut stdin, mut stdout) = (server.reader(STDIN), server.writer(STDOUT));
        tokio::io::copy_buf(&mut stdin, &mut stdout).await.unwrap();
        server.close();
        let _ = server.ended().await;
    });
    let (mut stdin, mut stdout) = (client.writer(STDIN), client.reader(STDOUT));
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        stdin.write_all(&sent).await.unwrap();
        stdin.shutdown().await.unwrap();
    });
    let mut read = Vec::new();
    stdout.read_to_end(&mut read).await.unwrap();
    assert!(read == expected, "{} of {} bytes", read.len(), expected.len());
    writing.await.unwrap();
    echo.await.unwrap();
    client.ended().await.unwrap();
}
