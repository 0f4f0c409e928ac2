mod relay;
mod spec;
mod stream;
mod tunnel;

use std::collections::VecDeque;
use std::future::{Future, pending, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use evenkeel_base::channels::{ChannelProtocol, Role, ServerHandshake, Session, SessionSettings, UpgradedIo};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::PortForward;
use super::transport::PROTOCOLS;
use crate::client::Client;
use crate::transport::Body;

/// A server that refuses some requests with these codes, then upgrades all others.
#[derive(Clone)]
struct Upgrading {
    refusals: Arc<Mutex<VecDeque<u16>>>,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
    connections: mpsc::UnboundedSender<DuplexStream>,
    protocols: &'static [&'static str],
}

impl tower_service::Service<Request<Body>> for Upgrading {
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.requests.lock().unwrap().push((Instant::now(), request.uri().to_string()));
        let mut response = Response::new(Body::empty());
        if let Some(code) = self.refusals.lock().unwrap().pop_front() {
            if code == SILENT {
                return Box::pin(pending());
            }
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            return Box::pin(ready(Ok(response)));
        }
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = ServerHandshake::accept(request.headers(), self.protocols).unwrap().headers;
        let (server, client) = duplex(64 * 1024);
        response.extensions_mut().insert(UpgradedIo::new(client));
        let _ = self.connections.send(server);
        Box::pin(ready(Ok(response)))
    }
}

/// The code of a request without a response.
const SILENT: u16 = 0;

/// The older protocol only.
const CHANNELS: &[&str] = &["v4.channel.k8s.io"];

struct Fixture {
    forward: PortForward,
    connections: mpsc::UnboundedReceiver<DuplexStream>,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Fixture {
    fn new(refusals: impl IntoIterator<Item = u16>) -> Self {
        assert!(PROTOCOLS.contains(&CHANNELS[0]));
        Fixture::with_protocols(CHANNELS, refusals)
    }

    fn with_protocols(protocols: &'static [&'static str], refusals: impl IntoIterator<Item = u16>) -> Self {
        let (sender, connections) = mpsc::unbounded_channel();
        let requests = Arc::default();
        let refusals = Arc::new(Mutex::new(refusals.into_iter().collect()));
        let service = Upgrading { refusals, requests: Arc::clone(&requests), connections: sender, protocols };
        let forward = Client::from_service(service).core_v1().pods("default").port_forward("web-0");
        Fixture { forward, connections, requests }
    }

    /// Returns the server's side of the next session, whose channels start with this port.
    async fn server(&mut self, port: u16) -> Session {
        let settings = SessionSettings {
            role: Role::Server,
            protocol: ChannelProtocol::V4,
            inbound: vec![0],
            outbound: vec![0, 1],
        };
        let (session, driver) = Session::new(self.connections.recv().await.unwrap(), &settings);
        tokio::spawn(driver);
        for channel in [0, 1] {
            send(&session, channel, &port.to_le_bytes()).await;
        }
        session
    }
}

async fn send(session: &Session, channel: u8, bytes: &[u8]) {
    session.writer(channel).write_all(bytes).await.unwrap();
}
