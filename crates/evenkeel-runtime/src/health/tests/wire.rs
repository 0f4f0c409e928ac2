//! Over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;

async fn start(health: &Health) -> (HealthServer, SocketAddr) {
    let server = HealthServer::builder(health).address("127.0.0.1:0").start().await.unwrap();
    let address = server.address().unwrap();
    (server, address)
}

/// Sends bytes and reads until the other side closes.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is reset has delivered its response.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn co_023_probes_are_served_over_http_with_one_request_per_connection() {
    let (server, address) = start(&half_well()).await;
    let answer = exchange(address, "GET /healthz/good HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
    let answer = exchange(address, "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 500 "), "{answer}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_runs_until_its_shutdown_and_fails_if_it_cannot_start() {
    let (_server, address) = start(&Health::new()).await;
    let builder = || HealthServer::builder(&Health::new());
    assert!(builder().address(address.to_string()).run(std::future::pending()).await.is_err(), "the address is in use");
    builder().address("127.0.0.1:0").run(async {}).await.unwrap();
}

#[tokio::test]
async fn head_is_get_without_the_body_and_a_body_is_ignored() {
    let (_server, address) = start(&Health::new()).await;
    let answer = exchange(address, "HEAD /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("content-length: 2\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    let answer = exchange(address, "POST /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").await;
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    let answer = exchange(address, "what is this\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let (_server, address) = start(&Health::new()).await;
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(64 * 1024));
    assert!(!exchange(address, &long).await.contains("200 OK"));
    let many = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-Many: x\r\n".repeat(100));
    assert!(!exchange(address, &many).await.contains("200 OK"));
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_request_is_timed_out() {
    let (_server, address) = start(&Health::new()).await;
    let begun = Instant::now();
    let answer = exchange(address, "GET /healthz HTTP/1.1\r\nHost:").await;
    assert!(!answer.contains("200 OK"), "{answer}");
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_unread_response_is_timed_out() {
    const SIZE: usize = 64 * 1024 * 1024;
    let builder = HealthServer::builder(&Health::new()).metrics(|| "x".repeat(SIZE)).address("127.0.0.1:0");
    let server = builder.start().await.unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(31)).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.len() < SIZE, "{}", answer.len());
}

#[tokio::test]
async fn many_idle_connections_block_no_request() {
    let (server, address) = start(&Health::new()).await;
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(exchange(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("ok"));
    assert_eq!(idle[0].read(&mut [0; 1]).await.unwrap_or(0), 0, "the oldest had to go");
    let asked = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    idle[63].write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    idle[63].read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("ok"), "the others did not");
    server.shutdown().await;
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "the server has closed it");
    }
}

#[tokio::test]
async fn a_request_in_flight_is_finished_at_shutdown() {
    let health = Health::new();
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (report, wait) = (Arc::clone(&asked), Arc::clone(&go_on));
    let check = Check::new("slow", move || {
        let (report, wait) = (Arc::clone(&report), Arc::clone(&wait));
        async move {
            report.notify_one();
            wait.notified().await;
            Ok(())
        }
    });
    health.ready().add(check.timeout(std::time::Duration::from_secs(60))).unwrap();
    let (server, address) = start(&health).await;
    let answer = tokio::spawn(exchange(address, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"));
    asked.notified().await;
    let ending = tokio::spawn(server.shutdown());
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!ending.is_finished());
    go_on.notify_one();
    assert!(answer.await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_connections_do_not_delay_shutdown() {
    let (server, address) = start(&Health::new()).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    // A later connection is served, so the first has been accepted.
    assert!(exchange(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("ok"));
    let begun = Instant::now();
    server.shutdown().await;
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_used_port_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = HealthServer::builder(&Health::new()).address(address.to_string()).start().await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("{address} is in use")), "{text}");
    for nonsense in ["nowhere", ":many", "127.0.0.1", "127.0.0.1:70000"] {
        let error = HealthServer::builder(&Health::new()).address(nonsense).start().await.unwrap_err();
        assert!(error.to_string().contains(&format!("{nonsense:?}")), "{error}");
    }
}

#[tokio::test]
async fn co_023_an_empty_address_or_0_is_off() {
    for off in ["", "0"] {
        let server = HealthServer::builder(&Health::new()).address(off).start().await.unwrap();
        assert_eq!(server.address(), None);
        server.shutdown().await;
    }
    let everywhere = HealthServer::builder(&Health::new()).address(":0").start().await.unwrap();
    assert!(everywhere.address().unwrap().ip().is_unspecified());
    let named = HealthServer::builder(&Health::new()).address("localhost:0").start().await.unwrap();
    assert!(named.address().unwrap().ip().is_loopback());
}

#[tokio::test(start_paused = true)]
async fn metrics_sources_do_upkeep_between_scrapes() {
    struct Counted(Arc<AtomicUsize>, Arc<AtomicBool>);
    impl MetricsSource for Counted {
        fn render(&self) -> String {
            self.1.store(true, Ordering::Relaxed);
            String::new()
        }
        fn upkeep(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (kept, rendered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let source = Counted(Arc::clone(&kept), Arc::clone(&rendered));
    let builder = HealthServer::builder(&Health::new()).metrics(source).address("127.0.0.1:0");
    let _server = builder.start().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!((12..=13).contains(&kept.load(Ordering::Relaxed)), "{kept:?}");
    assert!(!rendered.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_source_of_metrics_that_panics_leaves_health_alone() {
    struct Broken;
    impl MetricsSource for Broken {
        fn render(&self) -> String {
            panic!("nothing to show")
        }
        fn upkeep(&self) {
            panic!("nothing to keep up")
        }
    }
    let builder = HealthServer::builder(&Health::new()).metrics(Broken).address("127.0.0.1:0");
    let server = builder.start().await.unwrap();
    let address = server.address().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let metrics = exchange(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(metrics.starts_with("HTTP/1.1 500 "), "{metrics}");
    assert!(exchange(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("ok"));
    server.shutdown().await;
}
