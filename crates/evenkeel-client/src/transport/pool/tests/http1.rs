//! HTTP/1.1: when connections are reused, and when not.

use super::*;

/// Responds to every request on a connection with `ok`.
async fn always_ok(_: usize, mut stream: TcpStream) -> io::Result<()> {
    loop {
        read_head(&mut stream).await?;
        stream.write_all(OK).await?;
    }
}

#[tokio::test]
async fn trn_017_a_connection_is_reused_when_its_response_was_read() {
    let server = RawServer::start(always_ok).await;
    let pool = over_tcp(server.address, &Connections::default());
    for _ in 0..5 {
        assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "ok");
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(pool.stats().in_flight, 0);
    assert_eq!(pool.stats().connections, 1);
}

#[tokio::test]
async fn trn_019_an_http1_connection_is_not_reused_after_a_timeout() {
    let server = RawServer::start(async |number, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        if number == 0 {
            // Never responds; the client has to close.
            stream.read_u8().await?;
        }
        stream.write_all(OK).await
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    {
        let mut call = std::pin::pin!(pool.send(get("/slow")));
        // The request is in flight when its timeout expires.
        eventually("the request", || {
            assert!(poll_once(call.as_mut()).is_none());
            pool.stats().in_flight == 1
        })
        .await;
    }
    assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
    assert_eq!(pool.stats().in_flight, 0);
}

#[tokio::test]
async fn trn_019_a_body_dropped_half_way_closes_its_connection() {
    let server = RawServer::start(async |number, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        if number == 0 {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nbegin").await?;
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
            return Ok(());
        }
        stream.write_all(OK).await
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    let mut response = pool.send(get("/")).await.unwrap();
    assert_eq!(response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "begin");
    drop(response);
    eventually("the close", || pool.stats().connections == 0).await;
    assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn trn_017_concurrent_requests_have_a_connection_each_and_at_most_max_idle_are_kept() {
    let server = RawServer::start(always_ok).await;
    let pool = over_tcp(server.address, &Connections { max_idle: 3, ..Connections::default() });
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(pool.send(get("/")).await.unwrap());
    }
    assert_eq!(server.accepted(), 8);
    assert_eq!(pool.stats().in_flight, 8);
    for answer in answers {
        text(answer).await.unwrap();
    }
    eventually("the close", || pool.stats().connections == 3).await;
    assert_eq!(pool.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn trn_017_an_idle_connection_is_closed_after_90_s_by_its_own_task() {
    let pool = in_memory(&Connections::default(), false, |io| {
        tokio::spawn(serve_http(io, None, async |_| Response::new(Body::full("ok"))));
    });
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(89_900)).await;
    assert_eq!((pool.stats().connections, pool.stats().dials), (1, 1));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((pool.stats().connections, pool.stats().dials), (0, 1));
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    assert_eq!(pool.stats().dials, 2);
}

#[tokio::test]
async fn requests_have_a_path_and_a_host_and_another_host_is_refused() {
    let (heard, mut hear) = tokio::sync::mpsc::unbounded_channel();
    let server = RawServer::start(move |_, mut stream: TcpStream| {
        let heard = heard.clone();
        async move {
            loop {
                let _ = heard.send(read_head(&mut stream).await?);
                stream.write_all(OK).await?;
            }
        }
    })
    .await;
    let address = server.address;
    let pool = over_tcp(address, &Connections::default());
    for uri in ["/api/v1?limit=1".to_owned(), format!("http://{address}/api/v1?limit=1")] {
        text(pool.send(get(&uri)).await.unwrap()).await.unwrap();
        let head = hear.recv().await.unwrap();
        assert_eq!(head, format!("GET /api/v1?limit=1 HTTP/1.1\r\nhost: {address}\r\n\r\n"));
    }
    let error = pool.send(get("http://elsewhere.example/api")).await.unwrap_err();
    assert_eq!(error.fault(), TransportFault::Other);
}

#[tokio::test]
async fn a_write_is_sent_again_when_its_idle_connection_was_closed_before_it_left() {
    let server = RawServer::start(async |number, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(OK).await?;
        if number == 0 {
            return Ok(());
        }
        stream.read_u8().await.map(|_| ())
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    let post = Request::post("/").body(Body::full("{}")).unwrap();
    // The close may be detected before or while the connection is taken; both are harmless.
    eventually("the close", || pool.stats().connections == 0).await;
    assert_eq!(text(pool.send(post).await.unwrap()).await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_write_on_a_connection_that_is_found_closed_neither_hangs_nor_is_lost() {
    static CLOSED: tokio::sync::Notify = tokio::sync::Notify::const_new();
    let server = RawServer::start(async |number, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(OK).await?;
        if number == 0 {
            drop(stream);
            CLOSED.notify_one();
            return Ok(());
        }
        stream.read_u8().await.map(|_| ())
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    CLOSED.notified().await;
    // No task has run between the close and this: the driver of the connection observes both at once.
    let post = Request::post("/").body(Body::full("{}")).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), pool.send(post)).await.unwrap().unwrap();
    assert_eq!(text(answer).await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_read_is_sent_again_when_its_idle_connection_is_closed_on_arrival() {
    let server = RawServer::start(async |number, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(OK).await?;
        read_head(&mut stream).await?;
        if number == 0 {
            return Ok(());
        }
        stream.write_all(OK).await
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_write_is_not_sent_again_when_the_server_may_have_seen_it() {
    let server = RawServer::start(async |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(OK).await?;
        read_head(&mut stream).await.map(|_| ())
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    text(pool.send(get("/")).await.unwrap()).await.unwrap();
    let post = Request::post("/").body(Body::empty()).unwrap();
    assert!(pool.send(post).await.unwrap_err().is_connection_lost());
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn sec_40_an_abandoned_body_closes_its_connection() {
    let server = RawServer::start(async |_, mut stream: TcpStream| {
        read_head(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        while stream.write_all(b"a\r\n0123456789\r\n").await.is_ok() {}
        Ok(())
    })
    .await;
    let pool = over_tcp(server.address, &Connections::default());
    let mut body = pool.send(get("/")).await.unwrap().into_body();
    let mut read = 0;
    while read < 1 << 20 {
        read += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    drop(body);
    eventually("the close", || pool.stats().connections == 0 && pool.stats().in_flight == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_an_unread_request_is_closed_after_an_early_response() {
    let pool = in_memory(&Connections::default(), false, |mut io| {
        tokio::spawn(async move {
            read_head(&mut io).await.unwrap();
            io.write_all(OK).await.unwrap();
            std::future::pending::<()>().await;
        });
    });
    let post = Request::post("/").body(Body::full(vec![b'x'; 1 << 20])).unwrap();
    assert_eq!(text(pool.send(post).await.unwrap()).await.unwrap(), "ok");
    assert_eq!((pool.stats().connections, pool.stats().in_flight), (1, 0));
    // The connection is not reused before it is ready, which it never is, and not kept forever.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(pool.stats().connections, 0);
}
