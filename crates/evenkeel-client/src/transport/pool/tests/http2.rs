//! HTTP/2: sharing, limits, pings.

use tokio::sync::mpsc;

use super::*;

/// Returns a pool with a server in memory that sends one chunk per response and then nothing, and allows this many
/// streams.
fn watching(connections: &Connections, allowed: u32) -> Pool {
    in_memory(connections, true, move |io| {
        tokio::spawn(serve_http(io, Some(allowed), async |_| Response::new(Word::new("hello"))));
    })
}

async fn first_word(response: &mut Response<Body>) -> Bytes {
    response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap()
}

/// Sends all at once.
async fn all_at_once(pool: &Pool, count: usize, request: fn(&str) -> Request<Body>) -> Vec<Response<Body>> {
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..count {
        let pool = pool.clone();
        calls.spawn(async move { pool.send(request("/")).await.unwrap() });
    }
    calls.join_all().await
}

#[tokio::test]
async fn trn_018_fifty_watches_started_at_once_share_one_connection() {
    let server = evenkeel_apiserver::ApiServer::builder().tls().token("secret").start().await.unwrap();
    let pool = over_tls(server.url(), server.ca_pem().unwrap());
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let pool = pool.clone();
        let request = Request::get("/api/v1/configmaps?watch=1").header("authorization", "Bearer secret");
        let request = request.extension(Lane::Streams);
        watches.spawn(async move { pool.send(request.body(Body::empty()).unwrap()).await.unwrap() });
    }
    let watches = watches.join_all().await;
    assert!(watches.iter().all(|watch| watch.status() == 200 && watch.version() == http::Version::HTTP_2));
    assert_eq!(server.connections().accepted, 1);
    assert_eq!(pool.stats().in_flight, 50);

    // Nothing remains after the pool and the watches are dropped, in either order.
    drop(pool);
    drop(watches);
    eventually("the close", || server.connections().open == 0).await;
}

#[tokio::test]
async fn watches_and_requests_use_separate_connections() {
    let pool = watching(&http2_only(), 100);
    let _watches = all_at_once(&pool, 3, watch).await;
    assert_eq!(pool.stats().connections, 1);
    let _calls = all_at_once(&pool, 3, get).await;
    assert_eq!(pool.stats().connections, 2);
}

#[tokio::test]
async fn beyond_the_servers_stream_limit_another_connection_is_opened() {
    let pool = watching(&http2_only(), 3);
    let mut watches = all_at_once(&pool, 10, watch).await;
    assert_eq!((pool.stats().connections, pool.stats().in_flight), (4, 10));
    for watch in &mut watches {
        assert_eq!(first_word(watch).await, "hello");
    }
    // A stream that ends frees its slot.
    watches.truncate(9);
    eventually("the end", || pool.stats().in_flight == 9).await;
    watches.extend(all_at_once(&pool, 3, watch).await);
    assert_eq!((pool.stats().connections, pool.stats().dials), (4, 4));
}

#[tokio::test]
async fn beyond_max_streams_another_connection_is_opened() {
    let pool = watching(&Connections { max_streams: 2, ..http2_only() }, 100);
    let _watches = all_at_once(&pool, 5, watch).await;
    assert_eq!(pool.stats().connections, 3);
}

#[tokio::test]
async fn trn_019_an_http2_connection_is_reused_after_a_timeout() {
    let pool = in_memory(&http2_only(), true, |io| {
        tokio::spawn(serve_http(io, Some(100), async |request: Request<_>| {
            if request.uri().path() == "/slow" {
                std::future::pending::<()>().await;
            }
            Response::new(Body::full("ok"))
        }));
    });
    {
        let mut call = std::pin::pin!(pool.send(get("/slow")));
        eventually("the request", || {
            assert!(poll_once(call.as_mut()).is_none());
            pool.stats().in_flight == 1
        })
        .await;
    }
    assert_eq!(pool.stats().in_flight, 0);
    assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "ok");
    assert_eq!(pool.stats().dials, 1);
}

#[tokio::test(start_paused = true)]
async fn trn_018_an_unacknowledged_ping_closes_the_connection_and_the_next_request_uses_a_new_one() {
    // The first connection responds to its first request, then stalls.
    let first = Arc::new(AtomicUsize::new(0));
    let pool = in_memory(&http2_only(), true, move |io| {
        let number = first.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(io).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from_static(b"hello"), false).unwrap();
            if number > 0 {
                while connection.accept().await.is_some() {}
            }
            let mut flush = std::pin::pin!(connection.accept());
            for _ in 0..10 {
                std::future::poll_fn(|context| {
                    let _ = flush.as_mut().poll(context);
                    std::task::Poll::Ready(())
                })
                .await;
                tokio::task::yield_now().await;
            }
            std::future::pending::<()>().await;
        });
    });
    let mut response = pool.send(watch("/")).await.unwrap();
    assert_eq!(first_word(&mut response).await, "hello");
    let begin = tokio::time::Instant::now();
    let error = response.body_mut().frame().await.unwrap().unwrap_err();
    assert_eq!(fault_of(&error), Some(TransportFault::Http2Lost), "{error:?}");
    // 30 s of silence and 15 s for the acknowledgement; hyper's timers have a resolution of 1 ms.
    assert!((45_000..45_100).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    let mut response = pool.send(watch("/")).await.unwrap();
    assert_eq!(first_word(&mut response).await, "hello");
    assert_eq!(pool.stats().dials, 2);
}

#[tokio::test(start_paused = true)]
async fn trn_018_without_pings_a_silent_connection_stays_open() {
    let pool = watching(&Connections { ping_after: None, ..http2_only() }, 10);
    let mut response = pool.send(watch("/")).await.unwrap();
    assert_eq!(first_word(&mut response).await, "hello");
    let day = tokio::time::timeout(Duration::from_secs(86_400), response.body_mut().frame()).await;
    assert!(day.is_err());
}

#[tokio::test(start_paused = true)]
async fn trn_018_pings_keep_a_quiet_watch_alive() {
    let pool = watching(&http2_only(), 10);
    let mut response = pool.send(watch("/")).await.unwrap();
    assert_eq!(first_word(&mut response).await, "hello");
    let hour = tokio::time::timeout(Duration::from_secs(3_600), response.body_mut().frame()).await;
    assert!(hour.is_err());
    assert_eq!(pool.stats().dials, 1);
}

#[tokio::test(start_paused = true)]
async fn trn_017_an_http2_connection_without_streams_is_closed_after_90_s() {
    let pool = watching(&http2_only(), 10);
    let response = pool.send(watch("/")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    drop(response);
    tokio::time::sleep(Duration::from_millis(89_900)).await;
    assert_eq!(pool.stats().connections, 1);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((pool.stats().connections, pool.stats().in_flight), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_http2_settings_times_out() {
    let pool = in_memory(&Connections { ping_after: None, ..http2_only() }, true, |io| {
        tokio::spawn(async move {
            let _io = io;
            std::future::pending::<()>().await;
        });
    });
    let first = tokio::spawn({
        let pool = pool.clone();
        async move { pool.send(watch("/")).await.map(|_| ()) }
    });
    tokio::task::yield_now().await;
    let second = tokio::spawn({
        let pool = pool.clone();
        async move { pool.send(watch("/")).await.map(|_| ()) }
    });
    // The second request waits for the server's settings, and for another connection when they do not arrive.
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(pool.stats().dials, 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(pool.stats().dials, 2);
    first.abort();
    second.abort();
}

/// Unread watches, each with a full window, do not block a watch that is read.
#[tokio::test]
async fn stalled_watches_do_not_block_the_others() {
    let connections = Connections { max_streams: 8, ..http2_only() };
    let pool = in_memory(&connections, true, |io| {
        tokio::spawn(serve_http(io, Some(100), async |request: Request<_>| {
            if request.uri().path() == "/flood" {
                Response::new(Body::full(vec![b'x'; 16 << 20]))
            } else {
                Response::new(Body::new(Word::new("hello")))
            }
        }));
    });
    let mut stalled = Vec::new();
    for _ in 0..7 {
        stalled.push(pool.send(watch("/flood")).await.unwrap());
    }
    // Until all windows are full.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let mut response = pool.send(watch("/")).await.unwrap();
    assert_eq!(first_word(&mut response).await, "hello");
    assert_eq!(pool.stats().connections, 1);
}

#[tokio::test]
async fn a_refused_stream_is_retried_and_a_reset_one_is_an_error() {
    let (count, mut seen) = mpsc::unbounded_channel();
    let read = Arc::new(tokio::sync::Notify::new());
    let half_read = Arc::clone(&read);
    let pool = in_memory(&http2_only(), true, move |io| {
        let (count, half_read) = (count.clone(), Arc::clone(&half_read));
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(io).await.unwrap();
            let mut number = 0;
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                number += 1;
                let _ = count.send(request.uri().to_string());
                match request.uri().path() {
                    "/refuse" if number == 1 => respond.send_reset(h2::Reason::REFUSED_STREAM),
                    "/reset" => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                    "/half" => {
                        let mut body = respond.send_response(Response::new(()), false).unwrap();
                        body.send_data(Bytes::from_static(b"hel"), false).unwrap();
                        let read = Arc::clone(&half_read);
                        // A reset would overtake the bytes before it.
                        tokio::spawn(async move {
                            read.notified().await;
                            body.send_reset(h2::Reason::INTERNAL_ERROR);
                        });
                    }
                    _ => drop(respond.send_response(Response::new(()), true).unwrap()),
                }
            }
        });
    });
    let post = Request::post("/refuse").body(Body::full("{}")).unwrap();
    assert_eq!(pool.send(post).await.unwrap().status(), 200);
    assert_eq!(seen.recv().await.unwrap(), "http://server/refuse");
    assert_eq!(seen.recv().await.unwrap(), "http://server/refuse");

    let error = pool.send(get("/reset")).await.unwrap_err();
    assert_eq!(error.fault(), TransportFault::StreamReset);
    let mut half = pool.send(get("/half")).await.unwrap();
    assert_eq!(first_word(&mut half).await, "hel");
    read.notify_one();
    let error = half.body_mut().frame().await.unwrap().unwrap_err();
    assert_eq!(fault_of(&error), Some(TransportFault::StreamReset), "{error:?}");
    // The connection is still open.
    assert_eq!(pool.send(get("/")).await.unwrap().status(), 200);
    assert_eq!(pool.stats().dials, 1);
}

#[tokio::test]
async fn after_goaway_open_streams_finish_and_new_ones_use_a_new_connection() {
    let (finish, finished) = tokio::sync::watch::channel(false);
    let pool = in_memory(&http2_only(), true, move |io| {
        let finished = finished.clone();
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(io).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                if request.uri().path() == "/leave" {
                    respond.send_response(Response::new(()), true).unwrap();
                    connection.graceful_shutdown();
                    continue;
                }
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                let mut finished = finished.clone();
                tokio::spawn(async move {
                    finished.wait_for(|finished| *finished).await.unwrap();
                    body.send_data(Bytes::from_static(b"done"), true).unwrap();
                });
            }
        });
    });
    let old = pool.send(get("/old")).await.unwrap();
    assert_eq!(pool.send(get("/leave")).await.unwrap().status(), 200);
    let new = pool.send(Request::post("/new").body(Body::full("{}")).unwrap()).await.unwrap();
    assert_eq!((pool.stats().dials, pool.stats().connections), (2, 2));
    finish.send(true).unwrap();
    assert_eq!(text(old).await.unwrap(), "done");
    assert_eq!(text(new).await.unwrap(), "done");
    eventually("the close", || pool.stats().connections == 1).await;
}

#[tokio::test]
async fn any_request_unprocessed_at_goaway_is_retried() {
    let number = AtomicUsize::new(0);
    let pool = in_memory(&http2_only(), true, move |mut io| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            if number == 0 {
                io.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
                read_until_headers(&mut io).await.unwrap();
                // The last processed stream is 0: the request was not processed.
                io.write_all(&frame(GOAWAY, 0, 0, &[0; 8])).await.unwrap();
                let mut rest = Vec::new();
                let _ = io.read_to_end(&mut rest).await;
                return;
            }
            serve_http(io, Some(100), async |_| Response::new(Body::full("ok"))).await;
        });
    });
    let post = Request::post("/").body(Body::full("{}")).unwrap();
    assert_eq!(text(pool.send(post).await.unwrap()).await.unwrap(), "ok");
    assert_eq!(pool.stats().dials, 2);
}
