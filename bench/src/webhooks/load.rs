//! The client: a fixed number of connections, each with one request at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::SERVER_NAME;
use super::reviews::reviews;
use crate::Failure;
use crate::report::Samples;

/// The number of different bodies.
const BODIES: usize = 1_000;

/// What to call, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The address of the server.
    address: String,
    /// The authority of its certificate, in PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The path of the hook.
    #[arg(long)]
    path: String,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// How long to measure, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How long to call before that, in seconds.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// The process of the server, whose processor time is measured.
    #[arg(long)]
    server: Option<u32>,
}

/// Calls the hook and prints requests per second, latencies, and processor times.
pub(super) async fn load(options: &Options) -> Result<(), Failure> {
    let bodies: Arc<[Bytes]> = reviews(BODIES).into();
    let connector = TlsConnector::from(Arc::new(tls(options)?));
    let begin = Instant::now() + Duration::from_secs_f64(options.warm_up);
    let end = begin + Duration::from_secs_f64(options.seconds);
    let mut connections = Vec::new();
    for number in 0..options.connections {
        let sender = connect(&connector, &options.address).await?;
        let (bodies, options) = (Arc::clone(&bodies), options.clone());
        connections.push(tokio::spawn(async move { call(sender, number, &bodies, &options, begin, end).await }));
    }
    tokio::time::sleep_until(begin.into()).await;
    let before = [options.server, Some(std::process::id())].map(|process| process.map(processor_time));
    tokio::time::sleep_until(end.into()).await;
    let after = [options.server, Some(std::process::id())].map(|process| process.map(processor_time));
    let mut samples = Vec::new();
    for connection in connections {
        samples.extend(connection.await??);
    }
    let requests = samples.len() as f64;
    let samples = Samples::new(samples);
    let [server, client] = [0, 1].map(|index| match (before[index], after[index]) {
        (Some(Some(before)), Some(Some(after))) => Some((after - before).as_secs_f64() * 1e6 / requests),
        _ => None,
    });
    println!(
        "{}",
        json!({
            "path": options.path, "connections": options.connections, "requests": requests,
            "requests_per_s": requests / options.seconds,
            "p50_us": samples.quantile(0.5).as_secs_f64() * 1e6, "p99_us": samples.quantile(0.99).as_secs_f64() * 1e6,
            "server_cpu_us": server, "client_cpu_us": client,
        })
    );
    Ok(())
}

/// The cipher suite that Go prefers, for both servers alike.
fn tls(options: &Options) -> Result<ClientConfig, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&options.ca)?)?;
    let mut provider = ring::default_provider();
    provider.cipher_suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
    Ok(ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

async fn connect(connector: &TlsConnector, address: &str) -> Result<SendRequest<Full<Bytes>>, Failure> {
    // A server prints its address, and listens soon.
    let mut attempts = 0;
    let stream = loop {
        match TcpStream::connect(address).await {
            Ok(stream) => break stream,
            Err(_) if attempts < 100 => attempts += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    stream.set_nodelay(true)?;
    let stream = connector.connect(ServerName::try_from(SERVER_NAME)?, stream).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends one request after the other until `end`. Returns the times of those that were sent after `begin`.
async fn call(
    mut sender: SendRequest<Full<Bytes>>,
    connection: usize,
    bodies: &[Bytes],
    options: &Options,
    begin: Instant,
    end: Instant,
) -> Result<Vec<Duration>, Failure> {
    let mut samples = Vec::new();
    // Connections start at different bodies.
    for number in connection * bodies.len() / options.connections.. {
        let body = &bodies[number % bodies.len()];
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}?timeout=10s", options.path))
            .header("host", SERVER_NAME)
            .header("content-type", "application/json")
            .header("accept", "application/json, */*")
            .body(Full::new(body.clone()))?;
        let sent = Instant::now();
        let response = sender.send_request(request).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        let received = Instant::now();
        // Each answer is checked until the measurement, then the status of each.
        if status != StatusCode::OK || sent < begin {
            check(status, &answer, options)?;
        }
        // Only whole requests within the time count.
        if received >= end {
            break;
        }
        if sent >= begin {
            samples.push(received - sent);
        }
        sender.ready().await?;
    }
    Ok(samples)
}

/// Fails unless the hook allows, and changes the pod if it is a mutating one.
fn check(status: StatusCode, answer: &[u8], options: &Options) -> Result<(), Failure> {
    let review: Value = serde_json::from_slice(answer).unwrap_or_default();
    let is_patched = !review["response"]["patch"].is_null();
    if status == StatusCode::OK
        && review["response"]["allowed"] == true
        && is_patched == options.path.starts_with("/mutate")
    {
        return Ok(());
    }
    Err(format!("{}: {status}: {}", options.path, String::from_utf8_lossy(answer)).into())
}

/// Returns the processor time of a process: all its threads, in user and kernel mode.
fn processor_time(process: u32) -> Option<Duration> {
    // utime and stime, the 14th and 15th field, in ticks of 10 ms. The second field is the name, in parentheses.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}
