use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::{PortForwardError, PortSpecError};
use super::{Fixture, send};
use crate::error::Error;
use crate::rest::RequestError;

#[tokio::test(start_paused = true)]
async fn pfw_003_the_request_names_the_port() {
    let mut fixture = Fixture::new([]);
    let mut stream = fixture.forward.connect(8080).await.unwrap();
    assert_eq!(fixture.requests.lock().unwrap()[0].1, "/api/v1/namespaces/default/pods/web-0/portforward?ports=8080");
    let server = fixture.server(8080).await;
    stream.write_all(b"ping").await.unwrap();
    assert_eq!(server.reader(0).next().await.unwrap().unwrap(), "ping");
    send(&server, 0, b"pong").await;
    server.close();
    let mut read = String::new();
    stream.read_to_string(&mut read).await.unwrap();
    assert_eq!((read.as_str(), stream.port(), stream.has_half_close()), ("pong", 8080, false));
    assert_eq!(format!("{stream:?}"), "PortStream { pod: \"default/web-0\", port: 8080, .. }");
}

#[tokio::test(start_paused = true)]
async fn pfw_007_the_servers_message_is_a_typed_error_after_the_data() {
    let mut fixture = Fixture::new([]);
    let mut stream = fixture.forward.connect(81).await.unwrap();
    let server = fixture.server(81).await;
    send(&server, 0, b"partial").await;
    send(&server, 1, b"connection \x1b[31mrefused\n").await;
    server.close();
    server.ended().await.unwrap();
    let mut read = Vec::new();
    let error = stream.read_to_end(&mut read).await.unwrap_err();
    assert_eq!((&*read, error.kind()), (&b"partial"[..], io::ErrorKind::ConnectionAborted));
    let refused = PortForwardError::in_io(&error).unwrap();
    assert_eq!(refused.to_string(), "port 81 of pod default/web-0 is not reachable: connection \\u{1b}[31mrefused");
    // Writes fail with the same error, also if nothing is read.
    let error = stream.write_all(b"more").await.unwrap_err();
    assert_eq!(PortForwardError::in_io(&error).unwrap().port, 81);
}

#[tokio::test(start_paused = true)]
async fn pfw_008_a_lost_connection_is_an_error_of_the_stream() {
    let mut fixture = Fixture::new([]);
    let mut stream = fixture.forward.connect(80).await.unwrap();
    drop(fixture.connections.recv().await.unwrap());
    let lost = stream.read_u8().await.unwrap_err();
    assert_eq!(lost.kind(), io::ErrorKind::UnexpectedEof);
    assert!(lost.get_ref().is_some() && PortForwardError::in_io(&lost).is_none(), "{lost:?}");
    assert!(stream.write_all(b"x").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn pfw_008_dropping_the_stream_closes_its_connection() {
    let mut fixture = Fixture::new([]);
    let stream = fixture.forward.connect(80).await.unwrap();
    let server = fixture.server(80).await;
    drop(stream);
    server.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_port_than_the_requested_one_is_an_error() {
    let mut fixture = Fixture::new([]);
    let mut stream = fixture.forward.connect(80).await.unwrap();
    let _server = fixture.server(81).await;
    assert_eq!(stream.read_u8().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test(start_paused = true)]
async fn pfw_001_port_zero_is_an_error_without_a_request() {
    let fixture = Fixture::new([]);
    let error = fixture.forward.connect(0).await.unwrap_err();
    assert!(
        matches!(&error, Error::Request(RequestError::Invalid { problem }) if *problem == PortSpecError::RemoteZero.to_string()),
        "{error:?}"
    );
    assert!(fixture.requests.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_writes_and_reads_continue() {
    let mut fixture = Fixture::new([]);
    let mut stream = fixture.forward.connect(80).await.unwrap();
    let server = fixture.server(80).await;
    stream.shutdown().await.unwrap();
    assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    send(&server, 0, b"!").await;
    assert_eq!(stream.read_u8().await.unwrap(), b'!');
}
