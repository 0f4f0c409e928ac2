use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::*;

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How a connection of a [`Script`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// Ends when the server shuts down.
    Obedient,
    /// Ends only when it is aborted.
    Stuck,
    /// Ends when streams have been ended this often.
    EndsWithStreams(usize),
}

/// A listener that returns events as listed, then none.
struct Script {
    events: VecDeque<io::Result<ListenerEvent<Behaviour>>>,
    log: mpsc::UnboundedSender<(&'static str, Instant)>,
    open: Arc<()>,
    streams_ended: Arc<AtomicUsize>,
}

impl Listener for Script {
    type Stream = Behaviour;

    async fn next(&mut self) -> io::Result<ListenerEvent<Behaviour>> {
        match self.events.pop_front() {
            Some(event) => event,
            None => pending().await,
        }
    }

    fn admit(&mut self, behaviour: Behaviour, _: SocketAddr, connections: &mut JoinSet<()>, shutdown: &ShutdownSignal) {
        self.log.send(("admit", Instant::now())).unwrap();
        let (open, mut shutdown) = (Arc::clone(&self.open), shutdown.clone());
        let streams_ended = Arc::clone(&self.streams_ended);
        connections.spawn(async move {
            let _open = open;
            match behaviour {
                Behaviour::Obedient => shutdown.requested().await,
                Behaviour::Stuck => pending().await,
                Behaviour::EndsWithStreams(times) => {
                    while streams_ended.load(Ordering::Relaxed) < times {
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        });
    }

    fn close(self) -> impl FnMut() + Send {
        self.log.send(("close", Instant::now())).unwrap();
        let streams_ended = self.streams_ended;
        move || _ = streams_ended.fetch_add(1, Ordering::Relaxed)
    }
}

struct Scripted {
    handle: ServerHandle,
    log: mpsc::UnboundedReceiver<(&'static str, Instant)>,
    /// Each open connection holds one reference, and the listener another.
    open: Arc<()>,
}

fn start(events: impl IntoIterator<Item = io::Result<ListenerEvent<Behaviour>>>) -> Scripted {
    let (sender, log) = mpsc::unbounded_channel();
    let open = Arc::new(());
    let script = Script {
        events: events.into_iter().collect(),
        log: sender,
        open: Arc::clone(&open),
        streams_ended: Arc::default(),
    };
    Scripted { handle: ServerHandle::start(ADDRESS, DRAIN_TIMEOUT, script), log, open }
}

impl Scripted {
    async fn admitted(&mut self) -> Instant {
        let (what, when) = self.log.recv().await.unwrap();
        assert_eq!(what, "admit");
        when
    }
}

fn connection(behaviour: Behaviour) -> io::Result<ListenerEvent<Behaviour>> {
    Ok(ListenerEvent::Connection(behaviour, ADDRESS))
}

fn failure(kind: io::ErrorKind) -> io::Result<ListenerEvent<Behaviour>> {
    Err(kind.into())
}

#[tokio::test(start_paused = true)]
async fn accept_pauses_after_a_lack_of_resources_and_not_after_an_aborted_connection() {
    let start_time = Instant::now();
    // What EMFILE is to the standard library has no stable name.
    let exhausted = || failure(io::ErrorKind::Other);
    let aborted = failure(io::ErrorKind::ConnectionAborted);
    let events = [aborted, connection(Behaviour::Stuck), exhausted(), exhausted(), connection(Behaviour::Stuck)];
    let mut server = start(events);
    assert_eq!(server.admitted().await, start_time);
    assert_eq!(server.admitted().await, start_time + 2 * ACCEPT_RETRY);
}

#[tokio::test(start_paused = true)]
async fn shutdown_interrupts_the_pause_after_a_failed_accept() {
    let server = start([failure(io::ErrorKind::Other)]);
    tokio::task::yield_now().await;
    let start_time = Instant::now();
    server.handle.shutdown().await;
    assert_eq!(start_time.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn shutdown_closes_the_socket_first_and_waits_for_connections_to_end() {
    let mut server = start([connection(Behaviour::Obedient), connection(Behaviour::Obedient)]);
    server.admitted().await;
    server.admitted().await;
    let start_time = Instant::now();
    assert_eq!(server.handle.address(), ADDRESS);
    server.handle.shutdown().await;
    assert_eq!(start_time.elapsed(), Duration::ZERO);
    assert_eq!(server.log.recv().await, Some(("close", start_time)));
    assert_eq!(Arc::strong_count(&server.open), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_aborts_connections_that_outlast_the_drain_timeout() {
    let mut server = start([connection(Behaviour::Stuck)]);
    server.admitted().await;
    let start_time = Instant::now();
    server.handle.shutdown().await;
    assert_eq!(start_time.elapsed(), DRAIN_TIMEOUT);
    assert_eq!(Arc::strong_count(&server.open), 1);
}

#[tokio::test(start_paused = true)]
async fn streams_are_ended_repeatedly_while_connections_drain() {
    let mut server = start([connection(Behaviour::EndsWithStreams(3))]);
    server.admitted().await;
    let start_time = Instant::now();
    server.handle.shutdown().await;
    let took = start_time.elapsed();
    assert!(took >= 2 * DRAIN_INTERVAL && took < DRAIN_TIMEOUT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_aborts_all_connections() {
    let mut server = start([connection(Behaviour::Stuck)]);
    server.admitted().await;
    let open = server.open;
    drop(server.handle);
    // The listener and the connections hold the other references.
    while Arc::strong_count(&open) > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_closes_all_connections_and_later_ones_are_admitted() {
    let order = Ok(ListenerEvent::CloseConnections);
    let mut server = start([connection(Behaviour::Stuck), order, connection(Behaviour::Stuck)]);
    server.admitted().await;
    server.admitted().await;
    assert_eq!(Arc::strong_count(&server.open), 3, "this, the listener, and the second connection");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_connection_leaves_the_server_running() {
    struct Panics(VecDeque<()>, Arc<Notify>);
    impl Listener for Panics {
        type Stream = ();
        async fn next(&mut self) -> io::Result<ListenerEvent<()>> {
            match self.0.pop_front() {
                Some(()) => Ok(ListenerEvent::Connection((), ADDRESS)),
                None => pending().await,
            }
        }
        fn admit(&mut self, (): (), _: SocketAddr, connections: &mut JoinSet<()>, _: &ShutdownSignal) {
            if self.0.is_empty() {
                self.1.notify_one();
            }
            connections.spawn(async { panic!("a bug of a connection") });
        }
        fn close(self) -> impl FnMut() + Send {
            || {}
        }
    }
    let last = Arc::new(Notify::new());
    let handle = ServerHandle::start(ADDRESS, DRAIN_TIMEOUT, Panics(VecDeque::from([(), ()]), Arc::clone(&last)));
    last.notified().await;
    handle.shutdown().await;
}

/// Serves one end of a pipe and returns the other end. Each request notifies `received` and waits for `respond`.
fn serve_pipe(
    received: &Arc<Notify>,
    respond: &Arc<Notify>,
    shutdown: ShutdownSignal,
) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (client, server) = duplex(4096);
    let (received, respond) = (Arc::clone(received), Arc::clone(respond));
    let service = service_fn(move |_: hyper::Request<Incoming>| {
        let (received, respond) = (Arc::clone(&received), Arc::clone(&respond));
        async move {
            received.notify_one();
            respond.notified().await;
            Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from_static(b"done"))))
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
    (client, tokio::spawn(serve_connection(connection, shutdown)))
}

#[tokio::test(start_paused = true)]
async fn a_request_in_flight_is_finished_and_an_idle_connection_closed() {
    let (stop, signal) = ShutdownSignal::channel();
    let (received, respond) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (mut idle, idle_task) = serve_pipe(&received, &respond, signal.clone());
    let (mut busy, busy_task) = serve_pipe(&received, &respond, signal);
    busy.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    received.notified().await;
    stop.send_replace(true);
    idle_task.await.unwrap().unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    assert!(!busy_task.is_finished());
    respond.notify_one();
    busy_task.await.unwrap().unwrap();
    busy.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"done"), "{rest:?}");
}
