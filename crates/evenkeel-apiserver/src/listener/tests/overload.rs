//! Tests of overload: expensive requests, slow clients, floods of requests and connections.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::StatusCode;
use http_body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, interval};

use super::wire::{address, body_of, http2, raw};
use super::*;
use crate::faults::{Action, Rule};
use crate::http_types::User;

const LONG: &str = "GET /long HTTP/1.1\nHost: localhost\nConnection: close\n\n";
const READY: &str = "GET /readyz HTTP/1.1\nHost: localhost\nConnection: close\n\n";

#[tokio::test]
async fn bud_12_expensive_requests_delay_no_other_request() {
    let (server, fake) = start(ApiServer::builder()).await;
    let server = Arc::new(server);
    let mut expensive = JoinSet::new();
    for _ in 0..8 {
        let server = Arc::clone(&server);
        expensive.spawn(async move { raw(&server, LONG).await });
    }
    fake.gate().reached_by(1).await;
    for _ in 0..20 {
        assert_eq!(body_of(&raw(&server, READY).await), "ok");
        assert_eq!(get(&server, "/whoami").await.unwrap().status(), StatusCode::OK);
    }
    assert!(expensive.try_join_next().is_none(), "the expensive requests are still held");
    let at_once = *fake.gate().arrived.borrow();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(at_once <= (cores - 1).max(1), "{at_once} at once on {cores} cores");
    fake.gate().open();
    while let Some(response) = expensive.join_next().await {
        assert_eq!(body_of(&response.unwrap()), "done");
    }
}

/// The administrator's expensive requests wait for a thread, too. Their queue has a limit of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bud_12_expensive_requests_of_masters_have_a_limit() {
    const WAITING: usize = 2000;
    const BEYOND: usize = 10;
    let (server, fake) = start(ApiServer::builder().in_process_only()).await;
    let threads = (std::thread::available_parallelism().unwrap().get() - 1).clamp(1, 4);
    let mut requests = JoinSet::new();
    for _ in 0..threads + WAITING + BEYOND {
        let service = server.service();
        requests.spawn(async move { call(&service, Method::GET, "/long", "").await.unwrap().status() });
    }
    for _ in 0..BEYOND {
        assert_eq!(requests.join_next().await.unwrap().unwrap(), StatusCode::TOO_MANY_REQUESTS);
    }
    let metrics = get(&server, "/metrics").await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8_lossy(&metrics);
    for (name, value) in [
        ("running", threads),
        ("running_limit", threads),
        ("waiting", WAITING),
        ("waiting_limit", WAITING),
        ("refused_total{user=\"masters\"}", BEYOND),
        ("refused_total{user=\"other\"}", 0),
    ] {
        let line = format!("\nevenkeel_apiserver_expensive_requests_{name} {value}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    fake.gate().open();
    while let Some(status) = requests.join_next().await {
        assert_eq!(status.unwrap(), StatusCode::OK);
    }
}

#[tokio::test]
async fn in_process_requests_run_in_place_on_a_runtime_with_one_thread() {
    let (server, fake) = start(ApiServer::builder().in_process_only()).await;
    fake.gate().open();
    let mut future = std::pin::pin!(get(&server, "/long"));
    let first = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    assert!(first.is_ready(), "the order of requests depends on no thread");
}

#[tokio::test(start_paused = true)]
async fn url_10_a_request_that_takes_too_long_gets_504() {
    let (server, fake) = start(ApiServer::builder()).await;
    let server = Arc::new(server);
    let expensive = tokio::spawn({
        let server = Arc::clone(&server);
        async move { raw(&server, LONG).await }
    });
    fake.gate().reached_by(1).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    let response = expensive.await.unwrap();
    assert!(response.starts_with("HTTP/1.1 504 "), "{response}");
    assert!(response.contains("Timeout: request did not complete within the allotted timeout"), "{response}");
    fake.gate().open();
}

/// A body of one byte a second, without end.
struct Trickle(Interval);

impl http_body::Body for Trickle {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_tick(cx).map(|_| Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

#[tokio::test(start_paused = true)]
async fn sec_65_a_body_that_trickles_meets_the_deadline() {
    let server = in_process().await;
    for (path, seconds) in [("/whoami", 60), ("/whoami?timeout=5s", 5)] {
        let start = Instant::now();
        let body = Trickle(interval(Duration::from_secs(1)));
        let request = Request::builder().method(Method::POST).uri(path).body(body).unwrap();
        let response = server.service().serve(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
        assert_eq!(response.headers()["connection"], "close", "the rest of the body is not read");
    }
}

#[tokio::test(start_paused = true)]
async fn apf_002_a_user_with_too_many_requests_gets_429_and_others_do_not() {
    let (server, _) = start(ApiServer::builder().in_process_only().max_in_flight(1, 1)).await;
    server.faults().add(Rule::new(Action::Delay(Duration::from_millis(10))).user("greedy"));
    let user = |name: &str| server.service().acting_as(User { name: name.into(), ..User::default() });
    let mut requests = JoinSet::new();
    for _ in 0..60 {
        let service = user("greedy");
        requests.spawn(async move { call(&service, Method::GET, "/whoami", "").await.unwrap() });
    }
    tokio::task::yield_now().await;
    let start = Instant::now();
    let polite = call(&user("polite"), Method::GET, "/whoami", "").await.unwrap();
    assert_eq!(polite.status(), StatusCode::OK);
    assert!(start.elapsed() <= Duration::from_millis(20), "it waits for one request of the other user");
    let masters = get(&server, "/whoami").await.unwrap();
    assert_eq!(masters.status(), StatusCode::OK, "system:masters are never refused");
    let mut refused = 0;
    while let Some(response) = requests.join_next().await {
        let response = response.unwrap();
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            refused += 1;
            assert_eq!(response.headers()["retry-after"], "1");
            assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
            assert!(response.headers().contains_key("audit-id"));
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, "Too many requests, please try again later.\n");
        }
    }
    assert_eq!(refused, 60 - 1 - 50, "one is handled, fifty wait");
}

#[tokio::test(start_paused = true)]
async fn sec_65_idle_connections_are_closed() {
    let (server, _) = start(ApiServer::builder()).await;
    let mut http1 = TcpStream::connect(address(&server)).await.unwrap();
    http1.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut sender = http2(TcpStream::connect(address(&server)).await.unwrap()).await;
    let ready = request(Method::GET, &format!("{}/readyz", server.url()), "");
    assert_eq!(sender.send_request(ready).await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.connections().open, 2);
    let mut rest = Vec::new();
    http1.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"ok"), "the response, then the end");
    while sender.ready().await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    while server.connections().open > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn sec_65_connections_without_credentials_do_not_lock_the_administrator_out() {
    let (server, _) = start(ApiServer::builder().token("secret").max_connections(8)).await;
    let request =
        |token: &str| format!("GET /whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    let open = async |token: &str| {
        let mut stream = TcpStream::connect(address(&server)).await.unwrap();
        stream.write_all(request(token).as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        (stream, String::from_utf8_lossy(&head).into_owned())
    };
    let (mut admin, head) = open("secret").await;
    assert_eq!(head, "HTTP/1.1 200");
    let mut strangers = Vec::new();
    for _ in 0..40 {
        let (stream, head) = open("wrong").await;
        assert_eq!(head, "HTTP/1.1 401");
        strangers.push(stream);
    }
    let (_second, head) = open("secret").await;
    assert_eq!(head, "HTTP/1.1 200", "a new connection of the administrator");
    admin.write_all(request("secret").as_bytes()).await.unwrap();
    let mut response = vec![0; 4096];
    assert!(admin.read(&mut response).await.unwrap() > 0, "the old one was not evicted");
    let counts = server.connections();
    assert_eq!(counts.rejected, 0);
    assert!(counts.evicted >= 38, "two strangers may stay: {counts:?}");
}

/// Frames of HTTP/2, written by hand: a client that ignores the rules.
mod frames {
    pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub(super) const DATA: u8 = 0;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const GOAWAY: u8 = 7;
    const HEADERS: u8 = 1;
    /// END_STREAM and END_HEADERS.
    const WHOLE: u8 = 5;

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// A GET of a path with at most 127 characters.
    pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
        // :method GET, :scheme http, :path as a literal, :authority localhost.
        let mut block = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend(path.as_bytes());
        block.extend([0x01, 9]);
        block.extend(b"localhost");
        frame(HEADERS, WHOLE, stream, &block)
    }
}

/// Reads a frame: its kind, its stream and its payload. `None` at the end of the connection.
async fn read_frame(stream: &mut TcpStream) -> Option<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

async fn read_until(stream: &mut TcpStream, kind: u8, id: u32) -> Vec<u8> {
    while let Some((found, stream_id, payload)) = read_frame(stream).await {
        if found == kind && stream_id == id {
            return payload;
        }
    }
    panic!("the connection ended without frame {kind} of stream {id}");
}

async fn http2_by_hand(server: &ApiServer) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).await.unwrap();
    stream.write_all(frames::PREFACE).await.unwrap();
    stream.write_all(&frames::frame(frames::SETTINGS, 0, 0, &[])).await.unwrap();
    stream
}

#[tokio::test]
async fn apf_004_requests_during_shutdown_get_429_and_probes_are_served() {
    let (server, fake) = start(ApiServer::builder()).await;
    let mut stream = http2_by_hand(&server).await;
    stream.write_all(&frames::get(1, "/long")).await.unwrap();
    fake.gate().reached_by(1).await;
    let shutdown = tokio::spawn(server.shutdown());
    // The server announces the end, and still accepts streams that are under way.
    read_until(&mut stream, frames::GOAWAY, 0).await;
    stream.write_all(&frames::get(3, "/whoami")).await.unwrap();
    let refused = read_until(&mut stream, frames::DATA, 3).await;
    assert_eq!(String::from_utf8_lossy(&refused), "The apiserver is shutting down, please try again later.\n");
    stream.write_all(&frames::get(5, "/readyz")).await.unwrap();
    assert_eq!(read_until(&mut stream, frames::DATA, 5).await, b"ok");
    fake.gate().open();
    assert_eq!(read_until(&mut stream, frames::DATA, 1).await, b"done", "the request in flight is finished");
    drop(stream);
    shutdown.await.unwrap();
}

#[tokio::test]
async fn sec_65_a_flood_of_reset_streams_ends_the_connection() {
    let (server, _) = start(ApiServer::builder()).await;
    let mut stream = http2_by_hand(&server).await;
    let mut flood = Vec::new();
    for number in 0..500 {
        flood.extend(frames::get(number * 2 + 1, "/readyz"));
        flood.extend(frames::frame(frames::RST_STREAM, 0, number * 2 + 1, &8_u32.to_be_bytes()));
    }
    stream.write_all(&flood).await.unwrap();
    let goaway = read_until(&mut stream, frames::GOAWAY, 0).await;
    assert_eq!(goaway[4..8], 0xb_u32.to_be_bytes(), "ENHANCE_YOUR_CALM");
    assert_eq!(body_of(&raw(&server, READY).await), "ok", "others are served");
}
