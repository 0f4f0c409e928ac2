//! The same client and requests against this server and another API server, in one run.
//!
//! Both use TLS and HTTP/2 on one connection. The peer is any API server that accepts a bearer token, such as a
//! kube-apiserver started by hand with the ServiceAccount admission plugin off.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::Failure;
use crate::client::drain;
use crate::pods;
use crate::report::{Samples, line};

const NAMESPACE: &str = "evenkeel-bench";
const IN_FLIGHT: usize = 16;

/// The peer.
#[derive(Debug, clap::Args)]
pub(crate) struct Peer {
    /// An API server to compare with, e.g. https://127.0.0.1:6443
    #[arg(long = "peer")]
    url: Option<String>,
    /// An administrator's bearer token.
    #[arg(long = "peer-token", default_value = "")]
    token: String,
    /// The CA of its certificate, as PEM.
    #[arg(long = "peer-ca")]
    ca: Option<PathBuf>,
    /// Pods to create and list on each server.
    #[arg(long = "peer-pods", default_value_t = 3_000)]
    count: usize,
}

/// Figures of one server.
struct Figures {
    creates: f64,
    get: Duration,
    list: Duration,
    update_seen: Duration,
}

/// Runs the cases on both and prints the ratios.
pub(crate) async fn compare(peer: &Peer) -> Result<(), Failure> {
    let Some(url) = peer.url.as_deref() else {
        line("peer", "none given: see --peer", "");
        return Ok(());
    };
    let ca = match &peer.ca {
        Some(path) => std::fs::read(path)?,
        None => return Err("--peer needs --peer-ca".into()),
    };
    let server = pods::server().tls().start().await?;
    let own_ca = server.ca_pem().unwrap_or_default().as_bytes().to_vec();
    let own_token = server.token().unwrap_or_default().to_owned();
    // Alternating rounds share the load of the machine; the better of each counts.
    let mut best: [Option<Figures>; 2] = [None, None];
    for _ in 0..3 {
        let ours = Api::connect(server.url(), &own_ca, &own_token).await?.measure(peer.count).await?;
        let theirs = Api::connect(url, &ca, &peer.token).await?.measure(peer.count).await?;
        for (best, round) in best.iter_mut().zip([ours, theirs]) {
            *best = Some(match best.take() {
                None => round,
                Some(so_far) => Figures {
                    creates: so_far.creates.max(round.creates),
                    get: so_far.get.min(round.get),
                    list: so_far.list.min(round.list),
                    update_seen: so_far.update_seen.min(round.update_seen),
                },
            });
        }
    }
    let [Some(ours), Some(theirs)] = best else { return Err("nothing was measured".into()) };
    let times = |ours: Duration, theirs: Duration| theirs.as_secs_f64() / ours.as_secs_f64();
    let figure = format!("{:.0}/s, peer {:.0}/s", ours.creates, theirs.creates);
    line(
        "peer, creates of pods, 16 in flight",
        &figure,
        &format!("{:.1} times as many", ours.creates / theirs.creates),
    );
    for (name, ours, theirs) in [
        ("peer, get of one pod", ours.get, theirs.get),
        ("peer, list of all pods", ours.list, theirs.list),
        ("peer, update until the watch shows it", ours.update_seen, theirs.update_seen),
    ] {
        let figure = format!("{ours:.2?}, peer {theirs:.2?}");
        line(name, &figure, &format!("{:.1} times as fast", times(ours, theirs)));
    }
    Ok(())
}

/// One connection to an API server.
#[derive(Clone)]
struct Api {
    base: String,
    token: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Api {
    async fn connect(url: &str, ca: &[u8], token: &str) -> Result<Self, Failure> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let address = url.trim_start_matches("https://").trim_end_matches('/');
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
        let name = ServerName::try_from(host)?;
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(8 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Api { base: format!("https://{address}"), token: token.to_owned(), sender })
    }

    async fn send(&mut self, method: Method, path: &str, body: Option<Bytes>) -> Result<Response<Incoming>, Failure> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", "application/json")
            .header("content-type", media)
            .body(Full::new(body.unwrap_or_default()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    async fn expect(&mut self, method: Method, path: &str, body: Option<Value>, code: u16) -> Result<(), Failure> {
        let reply = self.send(method, path, body.map(|body| body.to_string().into())).await?;
        let status = reply.status().as_u16();
        let text = reply.into_body().collect().await?.to_bytes();
        if status == code { Ok(()) } else { Err(format!("{path}: {}", String::from_utf8_lossy(&text)).into()) }
    }

    async fn measure(mut self, count: usize) -> Result<Figures, Failure> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let made = self.send(Method::POST, "/api/v1/namespaces", Some(namespace.to_string().into())).await?;
        drain(made.into_body()).await?;
        let collection = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let creates = self.creates(&collection, count).await?;
        let one = format!("{collection}/{}", pods::name(0));
        let get = self.timed(&one, 200).await?;
        let list = self.timed(&collection, 5).await?;
        let update_seen = self.updates(&one, &collection).await?;
        let all = format!("{collection}?gracePeriodSeconds=0");
        let reply = self.send(Method::DELETE, &all, None).await?;
        drain(reply.into_body()).await?;
        Ok(Figures { creates, get, list, update_seen })
    }

    async fn creates(&mut self, path: &str, count: usize) -> Result<f64, Failure> {
        let begin = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..IN_FLIGHT {
            let (mut api, path) = (self.clone(), path.to_owned());
            tasks.spawn(async move {
                for number in (worker..count).step_by(IN_FLIGHT) {
                    api.expect(Method::POST, &path, Some(pods::pod(number)), 201).await?;
                }
                Ok::<(), Failure>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(count as f64 / begin.elapsed().as_secs_f64())
    }

    async fn timed(&mut self, path: &str, times: usize) -> Result<Duration, Failure> {
        let mut samples = Vec::new();
        for _ in 0..times {
            let begin = Instant::now();
            let reply = self.send(Method::GET, path, None).await?;
            drain(reply.into_body()).await?;
            samples.push(begin.elapsed());
        }
        Ok(Samples::new(samples).quantile(0.5))
    }

    /// Measures from sending a change to reading it from a watch.
    async fn updates(&mut self, one: &str, collection: &str) -> Result<Duration, Failure> {
        let watch = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{}", pods::name(0));
        let mut watch = self.clone().send(Method::GET, &watch, None).await?.into_body();
        watch.frame().await;
        let mut samples = Vec::new();
        for number in 0..100 {
            let change = json!({"metadata": {"annotations": {"number": number.to_string()}}});
            let begin = Instant::now();
            let (written, seen) = tokio::join!(self.expect(Method::PATCH, one, Some(change), 200), watch.frame());
            samples.push(begin.elapsed());
            written?;
            seen.ok_or("the watch ended")??;
        }
        Ok(Samples::new(samples).quantile(0.5))
    }
}
