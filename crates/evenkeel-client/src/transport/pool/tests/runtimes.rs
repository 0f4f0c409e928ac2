//! Runtimes and pools that start and end.

use tokio::runtime::Runtime;

use super::*;

fn current_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server on its own runtime, which sends one chunk to each request, and a second one on demand.
struct Elsewhere {
    server: RawServer,
    more: Arc<tokio::sync::Semaphore>,
    _runtime: Runtime,
}

impl Elsewhere {
    fn start(http2: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let more = Arc::new(tokio::sync::Semaphore::new(0));
        let server = runtime.block_on(RawServer::start({
            let more = Arc::clone(&more);
            move |_, stream| {
                let more = Arc::clone(&more);
                async move {
                    let answer = move |request: Request<hyper::body::Incoming>| {
                        let more = Arc::clone(&more);
                        async move {
                            if request.uri().path() == "/slow" {
                                more.acquire().await.unwrap().forget();
                            }
                            Response::new(Body::full("ok"))
                        }
                    };
                    serve_http(stream, http2.then_some(100), answer).await;
                    Ok(())
                }
            }
        }));
        Elsewhere { server, more, _runtime: runtime }
    }

    fn connections(&self, http2: bool) -> Connections {
        if http2 { http2_only() } else { Connections::default() }
    }

    fn pool(&self, http2: bool) -> Pool {
        over_tcp(self.server.address, &self.connections(http2))
    }
}

async fn ok(pool: &Pool) {
    assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "ok");
}

#[test]
fn a_pool_made_outside_of_any_runtime_outlives_each_of_them() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let pool = there.pool(http2);
        for round in 1..=3 {
            let runtime = current_thread();
            runtime.block_on(ok(&pool));
            runtime.block_on(ok(&pool));
            assert_eq!(pool.stats().dials, round);
            drop(runtime);
            // Dropping the runtime removes its connections and all state of it.
            assert_eq!((pool.stats().connections, pool.stats().in_flight), (0, 0));
            assert!(pool.inner.lock().runtimes.is_empty());
        }
    }
}

#[test]
fn a_runtime_that_is_not_polled_blocks_no_other() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let pool = there.pool(http2);
        let asleep = current_thread();
        asleep.block_on(ok(&pool));
        let awake = current_thread();
        awake.block_on(ok(&pool));
        assert_eq!(pool.stats().dials, 2);
        // The first runtime's connection is still usable when it is polled again.
        asleep.block_on(ok(&pool));
        assert_eq!((pool.stats().dials, pool.stats().connections), (2, 2));
    }
}

#[test]
fn without_a_runtime_a_request_is_an_error() {
    let pool = in_memory(&Connections::default(), false, drop);
    let error = poll_once(std::pin::pin!(pool.send(get("/")))).unwrap().unwrap_err();
    assert_eq!(error.fault(), TransportFault::Other);
}

#[test]
fn when_the_last_clone_is_dropped_idle_connections_close() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let pool = there.pool(http2);
        let runtime = current_thread();
        let tally = Arc::clone(&pool.inner.tally);
        runtime.block_on(async {
            ok(&pool).await;
            let clone = pool.clone();
            drop(pool);
            ok(&clone).await;
            assert_eq!(tally.connections.load(Ordering::Relaxed), 1);
            drop(clone);
            eventually("the close", || tally.connections.load(Ordering::Relaxed) == 0).await;
        });
        assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    }
}

#[test]
fn when_the_last_clone_is_dropped_requests_in_flight_finish() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let pool = there.pool(http2);
        let runtime = current_thread();
        let tally = Arc::clone(&pool.inner.tally);
        runtime.block_on(async {
            let response = pool.send(get("/")).await.unwrap();
            let call = tokio::spawn(call(&pool, get("/slow")));
            eventually("the request", || tally.in_flight.load(Ordering::Relaxed) == 2).await;
            drop(pool);
            there.more.add_permits(1);
            assert_eq!(text(response).await.unwrap(), "ok");
            assert_eq!(text(call.await.unwrap().unwrap()).await.unwrap(), "ok");
            eventually("the close", || tally.connections.load(Ordering::Relaxed) == 0).await;
        });
        assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    }
}

#[test]
fn when_the_pool_is_dropped_pending_dials_are_cancelled() {
    let runtime = current_thread();
    runtime.block_on(async {
        let dial = FakeDial(|_| std::future::pending());
        let server = ServerUrl::parse("http://server").unwrap();
        let pool = Pool::new(&server, &Connections::default(), &Limits::default(), dial);
        let call = tokio::spawn(call(&pool, get("/")));
        eventually("the dial", || pool.stats().dials == 1).await;
        drop(pool);
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    });
    runtime.block_on(eventually("the end", || runtime.metrics().num_alive_tasks() == 0));
}

#[test]
fn trn_014_retired_connections_finish_their_streams_and_accept_no_new_ones() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let pool = there.pool(http2);
        let runtime = current_thread();
        runtime.block_on(async {
            let slow = tokio::spawn(call(&pool, get("/slow")));
            eventually("the request", || pool.stats().in_flight == 1).await;
            pool.retire();
            ok(&pool).await;
            assert_eq!((pool.stats().dials, pool.stats().connections), (2, 2));
            there.more.add_permits(1);
            assert_eq!(text(slow.await.unwrap().unwrap()).await.unwrap(), "ok");
            eventually("the close", || pool.stats().connections == 1).await;
            ok(&pool).await;
            assert_eq!(pool.stats().dials, 2);
            // Nothing is in flight now: the next retirement closes at once.
            pool.retire();
            eventually("the close", || pool.stats().connections == 0).await;
        });
    }
}

#[test]
fn a_body_may_end_on_another_runtime() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let pool = there.pool(http2);
        let (one, other) = (tokio::runtime::Runtime::new().unwrap(), current_thread());
        let response = one.block_on(pool.send(get("/"))).unwrap();
        assert_eq!(other.block_on(text(response)).unwrap(), "ok");
        assert_eq!(pool.stats().in_flight, 0);
        one.block_on(ok(&pool));
    }
}

/// For requests on many threads with any outcome, everything is returned and nothing hangs.
#[test]
fn concurrent_cancelled_requests_leave_no_state() {
    for http2 in [false, true] {
        let there = Elsewhere::start(http2);
        let connections = Connections { max_streams: 7, max_idle: 3, ..there.connections(http2) };
        let pool = over_tcp(there.server.address, &connections);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..300_usize {
                let pool = pool.clone();
                tasks.spawn(async move {
                    let lane = if number.is_multiple_of(3) { Lane::Streams } else { Lane::Calls };
                    let request = Request::get("/").extension(lane).body(Body::empty()).unwrap();
                    let mut call = std::pin::pin!(pool.send(request));
                    // Some are cancelled after a few polls, some drop their responses, some read them.
                    for _ in 0..number % 8 {
                        if let Some(answer) = poll_once(call.as_mut()) {
                            drop(answer.unwrap());
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                    if number.is_multiple_of(2) {
                        assert_eq!(text(call.await.unwrap()).await.unwrap(), "ok");
                    }
                });
            }
            tasks.join_all().await;
            eventually("the end", || pool.stats().in_flight == 0).await;
            ok(&pool).await;
        });
        let tally = Arc::clone(&pool.inner.tally);
        drop(pool);
        runtime.block_on(eventually("the close", || tally.connections.load(Ordering::Relaxed) == 0));
        runtime.block_on(eventually("the end", || runtime.metrics().num_alive_tasks() == 0));
    }
}

#[test]
fn connections_and_dials_are_counted_in_metrics() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        current_thread().block_on(async {
            let pool = in_memory(&Connections::default(), false, |io| {
                tokio::spawn(serve_http(io, None, async |_| Response::new(Body::full("ok"))));
            });
            ok(&pool).await;
            let seen = snapshotter.snapshot().into_vec();
            let value = |name: &str| {
                let (key, _, _, value) = seen.iter().find(|(key, ..)| key.key().name() == name).unwrap();
                let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
                assert_eq!(labels, [("host", "server"), ("lane", "calls")]);
                format!("{value:?}")
            };
            assert_eq!(value("evenkeel_client_connections"), "Gauge(1.0)");
            assert_eq!(value("evenkeel_client_dials_total"), "Counter(1)");
        });
    });
    let seen = snapshotter.snapshot().into_vec();
    // A snapshot shows what has changed since the last one.
    let (.., value) = seen.iter().find(|(key, ..)| key.key().name() == "evenkeel_client_connections").unwrap();
    assert_eq!(format!("{value:?}"), "Gauge(-1.0)");
}
