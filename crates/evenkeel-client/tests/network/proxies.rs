//! An API server behind proxies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::config::{Proxy, ProxyUrl};
use evenkeel_client::transport::TransportFault;
use evenkeel_client::{Client, Error, ListParams, WatchParams};
use evenkeel_core::WatchEvent;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{config, config_map, deserted, error_chain, soon};

/// The credentials that the proxies require.
const NAME: &str = "me";
const PASSWORD: &str = "pass:word";

#[derive(Clone, Copy, Debug)]
enum Kind {
    Connect,
    Socks5,
}

/// A proxy that requires the password, and records its targets.
struct Middle {
    address: String,
    targets: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Middle {
    async fn start(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let targets = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let targets = Arc::clone(&targets);
            async move {
                let mut tunnels = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let targets = Arc::clone(&targets);
                    tunnels.spawn(async move {
                        // A client that disconnects ends its own connection only.
                        let _ = match kind {
                            Kind::Connect => connect(stream, &targets).await,
                            Kind::Socks5 => socks5(stream, &targets).await,
                        };
                    });
                }
            }
        });
        Middle { address, targets, _tasks: tasks }
    }

    fn targets(&self) -> Vec<String> {
        self.targets.lock().unwrap().clone()
    }

    fn client(&self, server: &ApiServer, kind: Kind, credentials: &str) -> Client {
        let scheme = match kind {
            Kind::Connect => "http",
            Kind::Socks5 => "socks5",
        };
        let mut config = config(server);
        config.retry.max_retries = 0;
        config.proxy = Proxy::Url(ProxyUrl::parse(&format!("{scheme}://{credentials}{}", self.address)).unwrap());
        Client::new(config).unwrap()
    }
}

async fn tunnel(mut stream: TcpStream, target: &str, targets: &Mutex<Vec<String>>) -> std::io::Result<()> {
    targets.lock().unwrap().push(target.to_owned());
    let mut server = TcpStream::connect(target).await?;
    copy_bidirectional(&mut stream, &mut server).await.map(drop)
}

async fn connect(mut stream: TcpStream, targets: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap();
    // me:pass:word
    if !head.to_ascii_lowercase().contains("proxy-authorization: basic bwu6cgfzczp3b3jk\r\n") {
        return stream.write_all(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n").await;
    }
    stream.write_all(b"HTTP/1.1 200 Go ahead\r\nvia: me\r\n\r\n").await?;
    tunnel(stream, target, targets).await
}

async fn socks5(mut stream: TcpStream, targets: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let (5, count) = (stream.read_u8().await?, stream.read_u8().await?) else { return Ok(()) };
    let mut methods = vec![0; count.into()];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&2) {
        return stream.write_all(&[5, 0xff]).await;
    }
    stream.write_all(&[5, 2]).await?;
    stream.read_u8().await?;
    let name = text(&mut stream).await?;
    let password = text(&mut stream).await?;
    if (name.as_str(), password.as_str()) != (NAME, PASSWORD) {
        return stream.write_all(&[1, 1]).await;
    }
    stream.write_all(&[1, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from(stream.read_u32().await?).to_string(),
        3 => text(&mut stream).await?,
        _ => return stream.write_all(&[5, 8, 0, 1, 0, 0, 0, 0, 0, 0]).await,
    };
    let target = format!("{host}:{}", stream.read_u16().await?);
    stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).await?;
    tunnel(stream, &target, targets).await
}

/// Encodes a text after its length.
async fn text(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut bytes).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn trn_020_a_server_behind_a_proxy_is_reached_through_it() {
    for kind in [Kind::Connect, Kind::Socks5] {
        let server = ApiServer::builder().tls().start().await.unwrap();
        let proxy = Middle::start(kind).await;
        let client = proxy.client(&server, kind, "me:pass%3Aword@");
        let maps = client.core_v1().config_maps("default");
        soon(maps.create(&config_map("a")).into_future()).await.unwrap();
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(soon(maps.watch(&WatchParams::default().without_bookmarks())).await.unwrap());
        }
        for watch in &mut watches {
            assert!(matches!(soon(watch.next()).await.unwrap().unwrap(), WatchEvent::Added(_)));
        }
        let target = server.url().trim_start_matches("https://");
        assert_eq!(proxy.targets(), [target, target], "{kind:?}: one for calls, one for watches");
        assert!(server.requests().iter().all(|request| !request.user.is_empty()), "the certificate got through");
        drop((watches, maps, client));
        deserted(&server).await;
    }
}

#[tokio::test]
async fn trn_020_a_plain_server_too() {
    for kind in [Kind::Connect, Kind::Socks5] {
        let server = ApiServer::start().await.unwrap();
        let proxy = Middle::start(kind).await;
        let client = proxy.client(&server, kind, "me:pass%3Aword@");
        soon(client.core_v1().pods("default").list(&ListParams::default())).await.unwrap();
        assert_eq!(proxy.targets(), [server.url().trim_start_matches("http://")], "{kind:?}");
    }
}

#[tokio::test]
async fn the_error_of_a_refusing_proxy_names_it_without_the_password() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    for kind in [Kind::Connect, Kind::Socks5] {
        let proxy = Middle::start(kind).await;
        for credentials in ["", "me:hunter2@"] {
            let client = proxy.client(&server, kind, credentials);
            let error = soon(client.core_v1().pods("default").list(&ListParams::default())).await.unwrap_err();
            let text = error_chain(&error);
            let Error::Transport { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.fault(), TransportFault::Proxy, "{text}");
            assert!(text.contains(&proxy.address), "{text}");
            assert!(!format!("{text} {error:?} {:?}", client.config()).contains("hunter2"), "{text}");
        }
        assert!(proxy.targets().is_empty());
    }
    assert_eq!(server.connections().accepted, 0);

    // A proxy of another protocol, so that each side waits for the other.
    let proxy = Middle::start(Kind::Connect).await;
    let mut config = proxy.client(&server, Kind::Socks5, "").config().clone();
    config.connections.connect_timeout = Duration::from_millis(50);
    let client = Client::new(config).unwrap();
    let error = soon(client.core_v1().pods("default").list(&ListParams::default())).await.unwrap_err();
    let Error::Transport { source, .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.fault(), TransportFault::ConnectTimeout, "{error}");
}
