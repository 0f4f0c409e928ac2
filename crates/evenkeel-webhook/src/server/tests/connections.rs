//! Connections in memory and in paused time.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_base::http::ShutdownSignal;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::activity::Activity;
use super::super::listener::serve;
use super::*;

/// A connection to a server, over TLS in memory.
struct Connected {
    stream: TlsStream<DuplexStream>,
    serving: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

async fn connect(server: &WebhookServer) -> Connected {
    let (slot, root) = pair();
    let tls = ServerTls::new(&slot, None).unwrap();
    let (ours, theirs) = duplex(256 << 10);
    let (stop, shutdown) = ShutdownSignal::channel();
    let shared = Arc::clone(&server.shared);
    let serving = tokio::spawn(async move {
        let _ = serve(theirs, &tls, shared, Activity::new(), shutdown).await;
    });
    let name = ServerName::try_from("hooks.system.svc").unwrap();
    let stream = TlsConnector::from(client_config(&root)).connect(name, ours).await.unwrap();
    Connected { stream, serving, stop }
}

fn server(hook: Hook<crate::Validating<ConfigMap>>) -> WebhookServer {
    WebhookServer::builder().hook(hook).build().unwrap()
}

fn request(body: &str) -> String {
    let length = body.len();
    format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Reads one response whose answer is small.
async fn response(stream: &mut TlsStream<DuplexStream>) -> String {
    let mut buffer = vec![0; 64 << 10];
    let length = stream.read(&mut buffer).await.unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn whs_006_connections_are_kept_for_ninety_seconds_and_heads_have_thirty_two() {
    let server = server(hook());
    let mut connected = connect(&server).await;
    for _ in 0..3 {
        connected.stream.write_all(request(&review()).as_bytes()).await.unwrap();
        assert!(response(&mut connected.stream).await.starts_with("HTTP/1.1 200"));
        sleep(Duration::from_secs(89)).await;
    }
    let idle = Instant::now();
    connected.serving.await.unwrap();
    assert_eq!(idle.elapsed(), Duration::from_secs(1));

    // The clock of the head starts with its first byte, not with the connection.
    let mut connected = connect(&server).await;
    sleep(Duration::from_secs(80)).await;
    connected.stream.write_all(b"POST / HT").await.unwrap();
    let first_byte = Instant::now();
    connected.serving.await.unwrap();
    assert_eq!(first_byte.elapsed(), Duration::from_secs(32));
}

#[tokio::test(start_paused = true)]
async fn whs_006_heads_of_a_mebibyte_are_too_large() {
    let server = server(hook());
    let mut connected = connect(&server).await;
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\na: {}", "b".repeat(2 << 20));
    let _ = connected.stream.write_all(head.as_bytes()).await;
    let text = response(&mut connected.stream).await;
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn whs_009_and_whs_010_requests_in_flight_are_answered_and_idle_connections_closed() {
    let slow = Hook::validating::<ConfigMap>().on_create(|_, _| async {
        sleep(Duration::from_secs(20)).await;
        Ok(())
    });
    let server = server(slow);
    let mut busy = connect(&server).await;
    let idle = connect(&server).await;
    busy.stream.write_all(request(&review()).as_bytes()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    busy.stop.send_replace(true);
    idle.stop.send_replace(true);
    let stopped = Instant::now();
    idle.serving.await.unwrap();
    assert_eq!(stopped.elapsed(), Duration::ZERO);
    assert!(response(&mut busy.stream).await.starts_with("HTTP/1.1 200"));
    busy.serving.await.unwrap();
    assert_eq!(stopped.elapsed(), Duration::from_secs(19));
}

#[tokio::test(start_paused = true)]
async fn arv_011_a_hook_is_dropped_when_its_connection_breaks() {
    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let slow = Hook::validating::<ConfigMap>().on_create(move |_, _| {
        let guard = OnDrop(Arc::clone(&flag));
        async move {
            sleep(Duration::from_secs(20)).await;
            drop(guard);
            Ok(())
        }
    });
    let mut connected = connect(&server(slow)).await;
    connected.stream.write_all(request(&review()).as_bytes()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(!dropped.load(Ordering::Relaxed));
    let start = Instant::now();
    drop(connected.stream);
    connected.serving.await.unwrap();
    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn arv_009_a_panic_that_is_not_caught_breaks_its_connection() {
    let panics =
        || Hook::validating::<ConfigMap>().on_create(|_, _| async { panic!("x") as Result<(), crate::HookError> });
    let server = WebhookServer::builder().hook(panics()).propagate_panics().build().unwrap();
    let mut connected = connect(&server).await;
    connected.stream.write_all(request(&review()).as_bytes()).await.unwrap();
    assert!(connected.serving.await.unwrap_err().is_panic());
    assert!(connected.stream.read_u8().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_of_hyper_sends_many_reviews_on_one_connection() {
    let connected = connect(&server(hook())).await;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connected.stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    for _ in 0..20 {
        let (code, text) = text_of(sender.send_request(post(PATH, review())).await.unwrap()).await;
        assert!(code == 200 && is_allowed(&text), "{code} {text}");
    }
    drop(sender);
    driver.await.unwrap().unwrap();
}
