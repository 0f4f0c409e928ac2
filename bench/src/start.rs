//! Time to the first response, and memory of an idle server.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use evenkeel_apiserver::ApiServer;
use http::{Method, Request};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::net::TcpStream;

use crate::Failure;
use crate::client::{Connection, call, expect};
use crate::report::{self, Samples, line, megabytes, resident};

/// HL-1 to HL-3.
pub(crate) async fn starts(count: usize) -> Result<(), Failure> {
    let mut samples = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        let server = ApiServer::builder().in_process_only().start().await?;
        expect(&mut server.service(), Method::GET, "/readyz", None, 200).await?;
        samples.push(begin.elapsed());
    }
    let first = samples.first().copied().unwrap_or_default();
    line("start, in process: first in the process", &format!("{first:.2?}"), "");
    report::samples("start, in process", &Samples::new(samples), "HL-3: 1 ms");

    let mut samples = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        let server = ApiServer::start().await?;
        let address = server.url().trim_start_matches("http://").to_owned();
        let mut connection = Connection::http1(&address).await?;
        let reply = connection.send(Method::GET, &format!("{}/readyz", server.url()), Bytes::new()).await?;
        check(reply.status() == 200)?;
        samples.push(begin.elapsed());
        server.shutdown().await;
    }
    report::samples("start, HTTP", &Samples::new(samples), "HL-1: 5 ms median, 15 ms p99");

    let mut samples = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        let server = ApiServer::builder().tls().start().await?;
        check(first_response_over_tls(&server).await? == 200)?;
        samples.push(begin.elapsed());
        server.shutdown().await;
    }
    report::samples("start, TLS with new certificates", &Samples::new(samples), "HL-2: 15 ms median");
    Ok(())
}

fn check(fine: bool) -> Result<(), Failure> {
    if fine { Ok(()) } else { Err("the first response was not 200".into()) }
}

async fn first_response_over_tls(server: &ApiServer) -> Result<u16, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = server.ca_pem().unwrap_or_default();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = server.url().trim_start_matches("https://").to_owned();
    let stream = TcpStream::connect(&address).await?;
    let name = ServerName::try_from("localhost")?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let token = server.token().unwrap_or_default();
    let request = Request::builder()
        .uri("/readyz")
        .header("host", address)
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::new()))?;
    Ok(sender.send_request(request).await?.status().as_u16())
}

/// HL-4, in a process of its own.
pub(crate) fn memory() -> Result<(), Failure> {
    let output = std::process::Command::new(std::env::current_exe()?).arg("idle").output()?;
    let bytes: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
    line("memory, idle server over HTTP", &format!("{:.1} MB resident", megabytes(bytes)), "HL-4: 25 MB");
    report::value("memory, idle server over HTTP", megabytes(bytes), "MB");
    Ok(())
}

/// Starts a server, sends one request over HTTP, and prints the resident memory.
pub(crate) async fn idle() -> Result<(), Failure> {
    let server = ApiServer::start().await?;
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut connection = Connection::http1(&address).await?;
    let reply = connection.send(Method::GET, &format!("{}/readyz", server.url()), Bytes::new()).await?;
    check(reply.status() == 200)?;
    println!("{}", resident());
    Ok(())
}

/// HL-5.
pub(crate) async fn definitions(count: usize) -> Result<(), Failure> {
    let server = ApiServer::builder().in_process_only().start().await?;
    let mut service = server.service();
    let mut samples = Vec::new();
    for number in 0..count {
        let group = format!("g{number}.example.com");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 1, "default": 3}}}}}}}]}});
        let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget",
                            "metadata": {"name": "a"}, "spec": {"size": 5}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let begin = Instant::now();
        expect(&mut service, Method::POST, definitions, Some(&definition), 201).await?;
        let path = format!("/apis/{group}/v1/namespaces/default/widgets");
        let reply = call(&mut service, Method::POST, &path, Some(&widget)).await?;
        samples.push(begin.elapsed());
        check(reply.status() == 201)?;
    }
    report::samples("crd, POST to first object accepted", &Samples::new(samples), "HL-5: 2 ms");
    Ok(())
}
