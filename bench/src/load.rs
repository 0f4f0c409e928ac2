//! Writes and large lists.

use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use tower_service::Service;

use crate::Failure;
use crate::client::{Connection, call, drain, expect};
use crate::pods;
use crate::report::{self, Samples, line, megabytes, resident};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// HL-8: one client, one request at a time; and over HTTP/2 with 32 in flight.
pub(crate) async fn creates() -> Result<(), Failure> {
    const COUNT: usize = 20_000;
    let bodies: Vec<String> = (0..COUNT).map(|number| pods::pod(number).to_string()).collect();

    let server = pods::server().in_process_only().start().await?;
    let mut service = server.service();
    let begin = Instant::now();
    for body in &bodies {
        let request = Request::builder().method(Method::POST).uri(PODS).header("content-type", "application/json");
        let reply = service.call(request.body(Full::new(Bytes::from(body.clone())))?).await?;
        if reply.status() != 201 {
            return Err("a pod was not created".into());
        }
    }
    rate("creates, in process, one at a time", COUNT, begin, "HL-8: 50,000/s");
    drop(server);

    for (name, in_flight) in [("creates, HTTP/2, one at a time", 1), ("creates, HTTP/2, 32 in flight", 32)] {
        let server = pods::server().start().await?;
        let address = server.url().trim_start_matches("http://").to_owned();
        let uri = format!("{}{PODS}", server.url());
        let Connection::Http2(sender) = Connection::http2(&address).await? else { return Err("no HTTP/2".into()) };
        let begin = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..in_flight {
            let mut connection = Connection::Http2(sender.clone());
            let uri = uri.clone();
            let mine: Vec<Bytes> =
                bodies.iter().skip(worker).step_by(in_flight).map(|body| Bytes::from(body.clone())).collect();
            tasks.spawn(async move {
                for body in mine {
                    let reply = connection.send(Method::POST, &uri, body).await?;
                    if reply.status() != 201 {
                        return Err(Failure::from("a pod was not created"));
                    }
                    drain(reply.into_body()).await?;
                }
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        rate(name, COUNT, begin, "HL-8: 10,000/s");
        server.shutdown().await;
    }
    Ok(())
}

fn rate(name: &str, count: usize, begin: Instant, target: &str) {
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    line(name, &format!("{rate:.0}/s"), target);
    report::value(name, rate, "/s");
}

/// STO-30 and HL-9.
pub(crate) async fn large(count: usize) -> Result<(), Failure> {
    let server = pods::server().start().await?;
    let mut service = server.service();
    let before = resident();
    for number in 0..count {
        expect(&mut service, Method::POST, PODS, Some(&pods::pod(number)), 201).await?;
    }
    let grown = resident().saturating_sub(before);
    let one = call(&mut service, Method::GET, &format!("{PODS}/{}", pods::name(0)), None).await?;
    let size = one.into_body().collect().await?.to_bytes().len();
    let target = format!("({} pods of {size} bytes; meant: {})", count, pods::STORED);
    line("memory, stored pod", &format!("{} bytes resident each", grown / count.max(1) as u64), &target);
    report::value("memory of a stored pod", grown as f64 / count.max(1) as f64, "bytes");
    let total = megabytes(resident());
    line("memory, all of them", &format!("{total:.0} MB resident"), "STO-30: 500 MB for 100,000");
    report::value(&format!("memory with {count} pods"), total, "MB");

    let address = server.url().trim_start_matches("http://").to_owned();
    let uri = format!("{}/api/v1/pods", server.url());
    for version in ["HTTP/1.1", "HTTP/2"] {
        let mut connection = match version {
            "HTTP/1.1" => Connection::http1(&address).await?,
            _ => Connection::http2(&address).await?,
        };
        let mut samples = Vec::new();
        let mut bytes = 0;
        for _ in 0..7 {
            let begin = Instant::now();
            let reply = connection.send(Method::GET, &uri, Bytes::new()).await?;
            bytes = drain(reply.into_body()).await?;
            samples.push(begin.elapsed());
        }
        let samples = Samples::new(samples);
        let figure = format!("{} ({:.0} MB)", samples.summary(), megabytes(bytes as u64));
        line(&format!("large list, {version}"), &figure, "HL-9: 250 ms for 100,000");
        let name = format!("list of {count} pods, {version}: median");
        report::value(&name, report::milliseconds(samples.quantile(0.5)), "ms");
    }
    let mut samples = Vec::new();
    for _ in 0..7 {
        let begin = Instant::now();
        let reply = call(&mut service, Method::GET, "/api/v1/pods", None).await?;
        drain(reply.into_body()).await?;
        samples.push(begin.elapsed());
    }
    report::samples("large list, in process", &Samples::new(samples), "");
    server.shutdown().await;
    Ok(())
}
