//! Servers that misbehave: the error kind identifies what they do.

use std::error::Error;

use super::*;

/// Returns the fault of a request to a server that runs this for each connection.
async fn fault<F, R>(connections: &Connections, serve: F) -> TransportFault
where
    F: Fn(usize, TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = io::Result<()>> + Send + 'static,
{
    let server = RawServer::start(serve).await;
    let pool = over_tcp(server.address, connections);
    let fault = match pool.send(get("/")).await {
        Err(error) => error.fault(),
        Ok(response) => fault_of(&text(response).await.unwrap_err()).unwrap(),
    };
    // The request was sent once, and the connection is closed.
    assert_eq!(server.accepted(), 1);
    eventually("the close", || pool.stats().connections == 0 && pool.stats().in_flight == 0).await;
    fault
}

/// Closes with a reset instead of an end.
fn reset(stream: TcpStream) -> io::Result<()> {
    stream.set_zero_linger()
}

/// Serves HTTP/1.1 with this function.
async fn http1<const N: usize>(answer: &'static [u8; N]) -> TransportFault {
    fault(&Connections::default(), async move |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(answer).await
    })
    .await
}

#[tokio::test]
async fn rrt_005_a_closed_port_is_refused_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = over_tcp(address, &Connections::default()).send(get("/")).await.unwrap_err();
    assert_eq!(error.fault(), TransportFault::Refused);
    assert_eq!(error.to_string(), format!("{address} refused the connection"));
    assert!(!error.is_connection_lost());
    assert!(error.source().is_some());
}

#[tokio::test]
async fn chc_04_rrt_005_a_reset_before_the_response_is_a_reset() {
    let serve = async |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        reset(stream)
    };
    assert_eq!(fault(&Connections::default(), serve).await, TransportFault::Reset);
}

#[tokio::test]
async fn rrt_005_a_reset_within_a_response_is_a_reset() {
    let (read, wait) = tokio::sync::mpsc::unbounded_channel::<()>();
    let wait = Arc::new(tokio::sync::Mutex::new(wait));
    let server = RawServer::start(move |_, mut stream: TcpStream| {
        let wait = Arc::clone(&wait);
        async move {
            read_head(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await?;
            // A reset may overtake bytes that were not read yet.
            wait.lock().await.recv().await;
            reset(stream)
        }
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    let mut response = pool.send(get("/")).await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    read.send(()).unwrap();
    let error = response.body_mut().frame().await.unwrap().unwrap_err();
    assert_eq!(fault_of(&error), Some(TransportFault::Reset));
}

#[tokio::test]
async fn rrt_005_an_end_before_the_response_is_closed() {
    assert_eq!(http1(b"").await, TransportFault::Closed);
    assert_eq!(http1(b"HTTP/1.1 200 O").await, TransportFault::Closed);
}

#[tokio::test]
async fn rrt_005_a_truncated_response_is_closed() {
    assert_eq!(http1(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await, TransportFault::Closed);
    assert_eq!(http1(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nhalf").await, TransportFault::Closed);
    assert_eq!(
        http1(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n").await,
        TransportFault::Closed
    );
}

#[tokio::test]
async fn a_non_http_response_is_a_protocol_error() {
    assert_eq!(http1(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await, TransportFault::Protocol);
    assert_eq!(http1(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").await, TransportFault::Protocol);
    let chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n";
    assert_eq!(http1(chunk).await, TransportFault::Protocol);
}

#[tokio::test]
async fn sec_45_headers_beyond_64_kib_or_200_are_refused() {
    let serve = async |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(65 << 10));
        stream.write_all(long.as_bytes()).await
    };
    assert_eq!(fault(&Connections::default(), serve).await, TransportFault::Protocol);
    let serve = async |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(201)).as_bytes()).await
    };
    assert_eq!(fault(&Connections::default(), serve).await, TransportFault::Protocol);
    // The allowed number of headers is accepted.
    let server = RawServer::start(async |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        let many = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{}\r\n", "x: y\r\n".repeat(199));
        stream.write_all(many.as_bytes()).await
    })
    .await;
    let response = over_tcp(server.address, &Connections::default()).send(get("/")).await.unwrap();
    assert_eq!(response.headers().len(), 200);
}

#[tokio::test]
async fn sec_45_http2_headers_beyond_64_kib_or_200_are_refused() {
    for (size, count, fine) in [(10, 200, true), (10, 201, false), (65 << 10, 1, false)] {
        let pool = in_memory(&http2_only(), true, move |io| {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(io).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let mut response = Response::new(());
                    let value = http::HeaderValue::try_from("y".repeat(size)).unwrap();
                    for _ in 0..count {
                        response.headers_mut().append("x", value.clone());
                    }
                    respond.send_response(response, true).unwrap();
                }
            });
        });
        let fault = pool.send(get("/")).await.map_err(|error| error.fault()).err();
        assert_eq!(fault, (!fine).then_some(TransportFault::Protocol), "{count} of {size}");
    }
}

#[tokio::test]
async fn sec_45_a_flood_of_continuations_is_a_protocol_error() {
    let serve = async |_, mut stream: TcpStream| {
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        read_until_headers(&mut stream).await?;
        // Endless headers.
        stream.write_all(&frame(HEADERS, 0, 1, &[0x88])).await?;
        while stream.write_all(&frame(CONTINUATION, 0, 1, &[])).await.is_ok() {}
        Ok(())
    };
    assert_eq!(fault(&http2_only(), serve).await, TransportFault::Protocol);
}

#[tokio::test]
async fn an_http2_connection_that_ends_is_lost() {
    let serve = async |_, mut stream: TcpStream| {
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        read_until_headers(&mut stream).await
    };
    assert_eq!(fault(&http2_only(), serve).await, TransportFault::Http2Lost);
}

#[tokio::test]
async fn a_truncated_http2_frame_is_lost() {
    let serve = async |_, mut stream: TcpStream| {
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        read_until_headers(&mut stream).await?;
        // `:status: 200`, by its number in the static table, then a frame of data that is cut.
        stream.write_all(&frame(HEADERS, 4, 1, &[0x88])).await?;
        let data = frame(0, 1, 1, b"hello");
        stream.write_all(&data[..11]).await?;
        stream.shutdown().await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.map(|_| ())
    };
    assert_eq!(fault(&http2_only(), serve).await, TransportFault::Http2Lost);
}

#[tokio::test]
async fn a_non_http2_response_is_a_protocol_error() {
    let serve = async |_, mut stream: TcpStream| {
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        read_until_headers(&mut stream).await?;
        // Data for a stream that was never opened.
        stream.write_all(&frame(0, 0, 7, b"hello")).await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.map(|_| ())
    };
    assert_eq!(fault(&http2_only(), serve).await, TransportFault::Protocol);
}

#[tokio::test]
async fn a_goaway_with_an_error_loses_requests_the_server_may_have_seen() {
    let serve = async |_, mut stream: TcpStream| {
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        read_until_headers(&mut stream).await?;
        // The server processed stream 1; then it failed.
        stream.write_all(&frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 2])).await
    };
    assert_eq!(fault(&http2_only(), serve).await, TransportFault::Http2Lost);
}

#[tokio::test]
async fn a_failed_connection_fails_all_waiters() {
    let (go, gate) = tokio::sync::watch::channel(());
    let dial = FakeDial(move |_| {
        let mut gate = gate.clone();
        async move {
            let _ = gate.changed().await;
            Err(TransportError::new(TransportFault::Tls, "server", io::Error::other("no trust")))
        }
    });
    let server = ServerUrl::parse("https://server").unwrap();
    let pool = Pool::new(&server, &Connections::default(), &Limits::default(), dial);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        calls.spawn(call(&pool, get("/")));
    }
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    for answer in calls.join_all().await {
        let error = answer.unwrap_err();
        assert_eq!(error.fault(), TransportFault::Tls);
        assert_eq!(error.source().unwrap().to_string(), "no trust");
    }
    assert_eq!(pool.stats().dials, 1);
    assert!(pool.inner.lock().runtimes.is_empty());
}

#[tokio::test]
async fn a_panicking_dialer_fails_all_waiters() {
    let server = ServerUrl::parse("https://server").unwrap();
    let dial = FakeDial(|_| async { panic!("a dialer that panics") });
    let pool = Pool::new(&server, &Connections::default(), &Limits::default(), dial);
    assert_eq!(pool.send(get("/")).await.unwrap_err().fault(), TransportFault::Connect);
}
