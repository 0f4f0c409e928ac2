//! Forwarded ports, against an API server in this process: over sockets, with TLS, and without a socket.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Builder, InProcess, LocalAddresses, PortConnection};
use evenkeel_client::config::Overrides;
use evenkeel_client::remote::{ForwardError, ListenError, PortForwardError};
use evenkeel_client::transport::Body;
use evenkeel_client::{Client, Config, Patch, Path, PortForward};
use http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

async fn forward(client: &Client) -> PortForward {
    let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "app", "image": "i"}]}});
    let pods = client.core_v1().pods("default");
    pods.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
    pods.port_forward("web-0")
}

fn network_client(server: &ApiServer) -> Client {
    Client::new(Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap()).unwrap()
}

/// Removes the tunnel from the offered subprotocols, so that the server chooses channels.
#[derive(Clone)]
struct WithoutTunnel(InProcess);

impl tower_service::Service<http::Request<Body>> for WithoutTunnel {
    type Response = <InProcess as tower_service::Service<http::Request<Body>>>::Response;
    type Error = <InProcess as tower_service::Service<http::Request<Body>>>::Error;
    type Future = <InProcess as tower_service::Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower_service::Service::<http::Request<Body>>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(offered) = request.headers_mut().get_mut(SEC_WEBSOCKET_PROTOCOL) {
            assert_eq!(offered, "SPDY/3.1+portforward.k8s.io, v4.channel.k8s.io");
            *offered = HeaderValue::from_static("v4.channel.k8s.io");
        }
        self.0.call(request)
    }
}

/// The same server four times: over plain HTTP, over TLS, without a socket, and without a socket and a tunnel.
async fn each(builder: impl Fn() -> Builder, test: impl AsyncFn(&ApiServer, Client)) {
    let server = builder().start().await.unwrap();
    test(&server, network_client(&server)).await;
    server.shutdown().await;
    let server = builder().tls().start().await.unwrap();
    test(&server, network_client(&server)).await;
    server.shutdown().await;
    for client in [ApiServer::client, |server: &ApiServer| Client::from_service(WithoutTunnel(server.service()))] {
        let server = builder().in_process_only().start().await.unwrap();
        test(&server, client(&server)).await;
        server.shutdown().await;
    }
}

/// Echoes one line on port 80; refuses all other ports.
async fn echo_line(mut connection: PortConnection) -> Result<(), Box<dyn Error + Send + Sync>> {
    if connection.port != 80 {
        return Err(format!("nothing listens on {}/{}", connection.namespace, connection.pod).into());
    }
    let stream = &mut connection.stream;
    loop {
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        if byte == b'\n' {
            return Ok(());
        }
    }
}

async fn exchange(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), line: &str) -> String {
    stream.write_all(line.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn pfw_006_the_end_of_the_connection_is_the_end_of_the_stream() {
    each(
        || ApiServer::builder().port_forward(echo_line),
        async |_, client| {
            let mut stream = forward(&client).await.connect(80).await.unwrap();
            assert_eq!(exchange(&mut stream, "hello\n").await, "hello\n");
        },
    )
    .await;
}

#[tokio::test]
async fn chc_25_and_pfw_007_a_refused_port_fails_only_its_stream() {
    each(
        || ApiServer::builder().port_forward(echo_line),
        async |_, client| {
            let forward = forward(&client).await;
            let mut first = forward.connect(80).await.unwrap();
            let mut second = forward.connect(81).await.unwrap();
            let refused = second.read_u8().await.unwrap_err();
            let refused = PortForwardError::in_io(&refused).unwrap();
            assert_eq!((refused.port, &*refused.pod), (81, "default/web-0"));
            assert!(refused.message.starts_with("error forwarding port 81 to pod web-0, uid "), "{refused}");
            assert!(refused.message.ends_with(": nothing listens on default/web-0"), "{refused}");
            assert_eq!(exchange(&mut first, "still open\n").await, "still open\n");
        },
    )
    .await;
}

/// A server of one process that sends as many bytes as requested.
async fn bytes_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let length = stream.read_u32().await.unwrap();
                let bytes: Vec<u8> = (0..length).map(|number| (number / 7) as u8).collect();
                stream.write_all(&bytes).await.unwrap();
            });
        }
    });
    address
}

#[tokio::test]
async fn msc_7_ports_are_connected_to_local_addresses() {
    let address = bytes_server().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    each(
        || ApiServer::builder().port_forward(LocalAddresses::new().port(8080, address).port(81, closed)),
        async |_, client| {
            let forward = forward(&client).await;
            let mut stream = forward.connect(8080).await.unwrap();
            stream.write_u32(3_000_000).await.unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            let intact = read.iter().zip(0_u32..).all(|(byte, number)| *byte == (number / 7) as u8);
            assert_eq!((read.len(), intact), (3_000_000, true));
            for (port, message) in [(81, format!("failed to connect to {closed}")), (82, "connection refused".into())] {
                let error = forward.connect(port).await.unwrap().read_u8().await.unwrap_err();
                let refused = PortForwardError::in_io(&error).unwrap();
                assert!(refused.message.contains(&message), "{refused}");
            }
        },
    )
    .await;
}

#[tokio::test]
async fn msc_7_invalid_requests_are_refused() {
    each(
        || ApiServer::builder().port_forward(echo_line),
        async |_, client| {
            let forward = forward(&client).await;
            let pods = client.core_v1().pods("default");
            assert!(pods.port_forward("none").connect(80).await.unwrap_err().is_not_found());
            let path = "/api/v1/namespaces/default/pods/web-0/portforward?ports=80";
            let refused = client.request(http::Method::POST, Path::raw(path)).send().await.unwrap_err();
            assert!(refused.to_string().ends_with("Upgrade request required"), "{refused}");
            let ended = json!({"status": {"phase": "Succeeded"}});
            pods.status().patch("web-0", &Patch::merge(&ended)).await.unwrap();
            let refused = forward.connect(80).await.unwrap_err();
            assert!(refused.is_bad_request(), "{refused:?}");
            assert!(refused.to_string().ends_with("pod web-0 is not running: its phase is Succeeded"), "{refused}");
        },
    )
    .await;
    each(ApiServer::builder, async |_, client| {
        let refused = forward(&client).await.connect(80).await.unwrap_err();
        assert_eq!(refused.status().unwrap().code, 501);
    })
    .await;
}

#[tokio::test]
async fn pfw_004_a_dynamic_port_is_reported_and_forwards_many_connections() {
    each(
        || ApiServer::builder().port_forward(echo_line),
        async |_, client| {
            let listener = forward(&client).await.listen([":80"]).await.unwrap();
            let [port] = listener.ports() else { panic!("{listener:?}") };
            assert_eq!(port.remote, 80);
            assert!(port.local_port() > 0 && port.local.iter().all(|local| local.port() == port.local_port()));
            let mut connections = Vec::new();
            for _ in 0..10 {
                connections.push(TcpStream::connect(port.local[0]).await.unwrap());
            }
            for (number, connection) in connections.iter_mut().enumerate().rev() {
                let line = format!("connection {number}\n");
                assert_eq!(exchange(connection, &line).await, line);
            }
            listener.close().await;
            assert!(TcpStream::connect(("127.0.0.1", connections[0].peer_addr().unwrap().port())).await.is_err());
        },
    )
    .await;
}

#[tokio::test]
async fn pfw_004_a_port_that_cannot_be_bound_is_reported() {
    let server = ApiServer::builder().port_forward(echo_line).in_process_only().start().await.unwrap();
    let forward = forward(&server.client()).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().into_std().unwrap();
    let taken = (taken.local_addr().unwrap().port(), taken);
    let listener = forward.listen([(taken.0, 80), (0, 80)]).addresses(["127.0.0.1"]).await.unwrap();
    assert_eq!(listener.ports().len(), 1);
    let [failure] = listener.failures() else { panic!("{listener:?}") };
    assert_eq!((failure.local.port(), failure.source.kind()), (taken.0, std::io::ErrorKind::AddrInUse));

    let error = forward.listen([(taken.0, 80)]).addresses(["127.0.0.1"]).await.unwrap_err();
    assert!(matches!(&error, ListenError::Bind { failures } if failures.len() == 1), "{error:?}");
    assert!(error.to_string().contains("for port 80 of the pod"), "{error}");
}

#[tokio::test]
async fn pfw_002_ports_and_addresses_are_checked_before_anything_is_bound() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    let forward = server.client().core_v1().pods("default").port_forward("web-0");
    assert!(matches!(forward.listen([80; 0]).await, Err(ListenError::NoPort)));
    assert!(matches!(forward.listen(["a"]).await, Err(ListenError::Port(_))));
    assert!(matches!(forward.listen([":80"]).addresses([""; 0]).await, Err(ListenError::NoAddress)));
    let error = forward.listen([":80"]).addresses(["kube.test"]).await.unwrap_err();
    assert!(matches!(&error, ListenError::Address { address } if address == "kube.test"), "{error:?}");
}

#[tokio::test]
async fn pfw_003_a_listener_connects_first_so_that_an_unknown_pod_is_an_error() {
    let server = ApiServer::builder().port_forward(echo_line).in_process_only().start().await.unwrap();
    let error = server.client().core_v1().pods("default").port_forward("web-1").listen([":80"]).await.unwrap_err();
    let ListenError::Connect { source } = &error else { panic!("{error:?}") };
    assert!(source.is_not_found(), "{source}");
    assert!(error.to_string().contains("web-1"), "{error}");
}

#[tokio::test]
async fn pfw_008_the_listener_survives_a_lost_connection() {
    let server = ApiServer::builder().port_forward(echo_line).start().await.unwrap();
    let forward = forward(&network_client(&server)).await;
    let (sender, mut errors) = mpsc::unbounded_channel();
    let on_error = move |error: &ForwardError| sender.send(error.to_string()).unwrap();
    let listener = forward.listen([":80"]).on_error(on_error).await.unwrap();
    let address = listener.ports()[0].local[0];
    let mut open = TcpStream::connect(address).await.unwrap();
    open.write_all(b"x").await.unwrap();
    assert_eq!(open.read_u8().await.unwrap(), b'x');
    server.faults().cut_connections();
    assert_eq!(open.read(&mut [0]).await.unwrap_or_default(), 0, "a connection in flight fails");
    let error = errors.recv().await.unwrap();
    assert!(error.contains("to port 80 failed: the connection was lost"), "{error}");
    let mut next = TcpStream::connect(address).await.unwrap();
    assert_eq!(exchange(&mut next, "again\n").await, "again\n");
}

/// Notifies when it is dropped.
struct Stopped(Arc<Notify>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn pfw_008_dropping_the_listener_or_a_stream_ends_the_connections() {
    let (started, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (started, stopped) = (Arc::clone(&started), Arc::clone(&stopped));
        move |connection: PortConnection| {
            let guard = Stopped(Arc::clone(&stopped));
            started.notify_one();
            async move {
                let _guards = (guard, connection);
                std::future::pending().await
            }
        }
    };
    each(
        || ApiServer::builder().port_forward(handler.clone()),
        async |_, client| {
            let forward = forward(&client).await;
            let stream = forward.connect(80).await.unwrap();
            started.notified().await;
            drop(stream);
            stopped.notified().await;
            let listener = forward.listen([":80"]).await.unwrap();
            let mut local = TcpStream::connect(listener.ports()[0].local[0]).await.unwrap();
            started.notified().await;
            drop(listener);
            stopped.notified().await;
            assert_eq!(local.read(&mut [0]).await.unwrap_or_default(), 0);
        },
    )
    .await;
}

#[tokio::test]
async fn the_number_of_connections_is_bounded() {
    let (active, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (active, most) = (Arc::clone(&active), Arc::clone(&most));
        move |connection: PortConnection| {
            let (active, most) = (Arc::clone(&active), Arc::clone(&most));
            async move {
                most.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let served = echo_line(connection).await;
                active.fetch_sub(1, Ordering::SeqCst);
                served
            }
        }
    };
    let server = ApiServer::builder().port_forward(handler).in_process_only().start().await.unwrap();
    let listener = forward(&server.client()).await.listen([":80"]).max_connections(2).await.unwrap();
    let address = listener.ports()[0].local[0];
    let mut connections = tokio::task::JoinSet::new();
    for number in 0..8 {
        connections.spawn(async move {
            let line = format!("connection {number}\n");
            let mut connection = TcpStream::connect(address).await.unwrap();
            assert_eq!(exchange(&mut connection, &line).await, line);
        });
    }
    assert_eq!(connections.join_all().await.len(), 8);
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
}

/// The most that may be on its way: the buffers of both sides, and of the connection between them.
const BUFFERED: usize = 2 * 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_while_the_client_does_not_read() {
    let sent = Arc::new(AtomicUsize::new(0));
    let handler = {
        let sent = Arc::clone(&sent);
        move |mut connection: PortConnection| {
            let sent = Arc::clone(&sent);
            async move {
                loop {
                    connection.stream.write_all(&[7; 32 * 1024]).await?;
                    sent.fetch_add(32 * 1024, Ordering::Relaxed);
                }
            }
        }
    };
    let server = ApiServer::builder().port_forward(handler).in_process_only().start().await.unwrap();
    let mut stream = forward(&server.client()).await.connect(80).await.unwrap();
    // Time advances only while nothing can make progress.
    tokio::time::sleep(Duration::from_secs(300)).await;
    let unread = sent.load(Ordering::Relaxed);
    assert!((1..BUFFERED).contains(&unread), "{unread}");
    let mut read = vec![0; BUFFERED * 2];
    stream.read_exact(&mut read).await.unwrap();
    assert!(sent.load(Ordering::Relaxed) > unread);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_while_the_pod_does_not_read() {
    let handler = |connection: PortConnection| async move {
        let _connection = connection;
        std::future::pending().await
    };
    let server = ApiServer::builder().port_forward(handler).in_process_only().start().await.unwrap();
    let mut stream = forward(&server.client()).await.connect(80).await.unwrap();
    let mut written = 0;
    while let Ok(result) = tokio::time::timeout(Duration::from_secs(5), stream.write(&[7; 32 * 1024])).await {
        written += result.unwrap();
        assert!(written < BUFFERED, "{written}");
    }
    assert!(written > 0);
}

#[tokio::test]
async fn pfw_006_the_end_of_one_direction_reaches_the_pod_through_the_tunnel() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            stream.write_all(text.to_uppercase().as_bytes()).await.unwrap();
        });
        address
    };
    let server = ApiServer::builder().port_forward(LocalAddresses::all(address)).start().await.unwrap();
    let listener = forward(&network_client(&server)).await.listen([":80"]).await.unwrap();
    let mut local = TcpStream::connect(listener.ports()[0].local[0]).await.unwrap();
    local.write_all(b"the end follows").await.unwrap();
    local.shutdown().await.unwrap();
    let mut text = String::new();
    local.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "THE END FOLLOWS");
}

#[tokio::test]
async fn pfw_009_streams_after_each_other_use_one_tunnel() {
    let server = ApiServer::builder().port_forward(echo_line).start().await.unwrap();
    let forward = forward(&network_client(&server)).await;
    for number in 0..20 {
        let line = format!("connection {number}\n");
        assert_eq!(exchange(&mut forward.connect(80).await.unwrap(), &line).await, line);
    }
    let handshakes = server.requests().iter().filter(|request| request.path.contains("portforward")).count();
    assert_eq!(handshakes, 1);
}
