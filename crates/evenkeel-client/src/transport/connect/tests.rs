use tokio::net::TcpListener;

use super::*;

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn closed() -> SocketAddr {
    listener().await.1
}

#[tokio::test]
async fn trn_017_a_connection_has_keepalive_and_no_delay() {
    let (_listener, address) = listener().await;
    let stream = tcp_connect("127.0.0.1", address.port(), &Connections::default()).await.unwrap();
    assert!(stream.nodelay().unwrap());
    let socket = SockRef::from(&stream);
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(45)));
}

#[tokio::test]
async fn all_addresses_are_tried() {
    let (_listener, open) = listener().await;
    let addresses = [closed().await, closed().await, open];
    let stream = first_to_answer(addresses.into_iter(), TcpStream::connect).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), open);
    let addresses = [closed().await, closed().await];
    let error = first_to_answer(addresses.into_iter(), TcpStream::connect).await.unwrap_err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let none = first_to_answer(std::iter::empty(), TcpStream::connect).await;
    assert!(none.unwrap_err().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_address_delays_the_next_by_250_ms() {
    // Port 1 never responds, port 2 refuses at once, any other accepts after a second.
    let connect = |address: SocketAddr| async move {
        match address.port() {
            1 => std::future::pending().await,
            2 => Err(io::ErrorKind::ConnectionRefused.into()),
            port => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(port)
            }
        }
    };
    for (ports, winner, millis) in [
        (&[3][..], 3, 1_000),
        (&[1, 3][..], 3, 1_250),
        (&[2, 3][..], 3, 1_000),
        (&[3, 1][..], 3, 1_000),
        (&[3, 4][..], 3, 1_000),
        (&[1, 1, 2, 4][..], 4, 1_500),
    ] {
        let begin = tokio::time::Instant::now();
        let addresses = ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port)));
        assert_eq!(first_to_answer(addresses, connect).await.unwrap(), winner, "{ports:?}");
        assert_eq!(begin.elapsed().as_millis(), millis, "{ports:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn trn_017_the_time_to_connect_is_limited_to_30_s() {
    let begin = tokio::time::Instant::now();
    let never = std::future::pending::<Result<(), _>>();
    let error = in_time("server", Connections::default().connect_timeout, never).await.unwrap_err();
    assert_eq!((error.fault(), error.host()), (TransportFault::ConnectTimeout, "server"));
    assert!(error.is_timeout());
    assert_eq!(begin.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn a_name_without_an_address_is_a_distinct_error() {
    let error = tcp_connect("no such host.invalid", 80, &Connections::default()).await.unwrap_err();
    assert_eq!(error.fault(), TransportFault::Resolve);
}
