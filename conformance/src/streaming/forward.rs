//! Forwarded ports.

use evenkeel_client::remote::PortForwardError;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::env::{Env, check, check_eq};
use crate::failures::{HELD, settled};
use crate::{Failure, Outcome, pattern};

/// The pod's port of a server that sends back what it receives.
const ECHO: u16 = 7;
/// The pod's port of a server of transfers.
const TRANSFER: u16 = 8;
/// A pod's port that refuses connections.
const CLOSED: u16 = 9;

const LARGE: u64 = 100_000_000;
/// More than any transfer ends with.
const ENDLESS: u64 = 1_000_000_000_000;

pub(crate) async fn echo(env: Env) -> Outcome {
    let mut stream = env.pods()?.port_forward("web").connect(ECHO).await?;
    check_eq(stream.has_half_close(), env.half_close())?;
    let sent: Vec<u8> = (0..1024_u32).map(|number| (number % 256) as u8).collect();
    stream.write_all(&sent).await?;
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).await?;
    check(received == sent, "the bytes differ")?;
    if !stream.has_half_close() {
        return Ok("all byte values; v4 has no half-close".to_owned());
    }
    stream.write_all(b"last").await?;
    stream.shutdown().await?;
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await?;
    check_eq(rest.as_str(), "last")?;
    Ok("all byte values; data arrives after the half-close".to_owned())
}

pub(crate) async fn a_hundred_megabytes_from_a_port(env: Env) -> Outcome {
    let mut stream = env.pods()?.port_forward("web").connect(TRANSFER).await?;
    stream.write_all(format!("get {LARGE}\n").as_bytes()).await?;
    pattern::read_all(&mut BufReader::with_capacity(64 * 1024, stream), LARGE).await?;
    Ok(format!("{LARGE} bytes and the end, compared byte by byte"))
}

pub(crate) async fn a_hundred_megabytes_to_a_port(env: Env) -> Outcome {
    let mut stream = env.pods()?.port_forward("web").connect(TRANSFER).await?;
    stream.write_all(format!("put {LARGE}\n").as_bytes()).await?;
    pattern::write(&mut stream, LARGE).await?;
    let mut seen = String::new();
    stream.read_to_string(&mut seen).await?;
    check_eq(seen, format!("right: {LARGE} bytes\n"))?;
    Ok(format!("{LARGE} bytes, compared by the server"))
}

pub(crate) async fn many_streams(env: Env) -> Outcome {
    let forward = env.pods()?.port_forward("web");
    let mut streams = JoinSet::new();
    for number in 0..50 {
        let forward = forward.clone();
        streams.spawn(async move {
            let stream = forward.connect(ECHO).await?;
            let (mut from, mut to) = tokio::io::split(stream);
            let sent = vec![number; 100_000];
            let mut received = vec![0; sent.len()];
            tokio::try_join!(to.write_all(&sent), from.read_exact(&mut received))?;
            check(received == sent, "the bytes differ")
        });
    }
    while let Some(stream) = streams.join_next().await {
        stream??;
    }
    Ok("50 at once, 100000 bytes each".to_owned())
}

pub(crate) async fn refused_port(env: Env) -> Outcome {
    let forward = env.pods()?.port_forward("web");
    let mut open = forward.connect(ECHO).await?;
    open.write_all(b"before").await?;
    open.read_exact(&mut [0; 6]).await?;
    let mut refused = forward.connect(CLOSED).await?;
    let error = refused.read_u8().await.err().ok_or("data from a closed port")?;
    let error = PortForwardError::in_io(&error).ok_or(format!("another error: {error}"))?;
    check_eq(error.port, CLOSED)?;
    check(error.message.contains("connection refused"), format!("another message: {error}"))?;
    open.write_all(b"after").await?;
    open.read_exact(&mut [0; 5]).await?;
    Ok("the server's message; the other stream goes on".to_owned())
}

pub(crate) async fn missing_pod(env: Env) -> Outcome {
    let missing = env.pods()?.port_forward("none").connect(ECHO).await.err().ok_or("it was opened")?;
    check(missing.is_not_found(), format!("another error: {missing}"))?;
    Ok("Error::Api with the Status 404".to_owned())
}

pub(crate) async fn forward_cut(env: Env) -> Outcome {
    let (_relay, pods) = env.relayed(10_000_000).await?;
    let forward = pods.port_forward("web");
    let mut stream = forward.connect(TRANSFER).await?;
    stream.write_all(format!("get {LARGE}\n").as_bytes()).await?;
    match pattern::read_all(&mut BufReader::with_capacity(64 * 1024, stream), LARGE).await {
        Ok(()) => return Err("all data arrived through a cut connection".into()),
        Err(error) if error.is::<std::io::Error>() => {}
        Err(error) => return Err(error),
    }
    echoed(&mut forward.connect(ECHO).await?).await?;
    Ok("after 10 MB of 100: an error, never an end; the next stream works".to_owned())
}

pub(crate) async fn local_port(env: Env) -> Outcome {
    let (_relay, pods) = env.relayed(1_000_000).await?;
    let listener = pods.port_forward("web").listen([format!(":{ECHO}"), format!(":{TRANSFER}")]).await?;
    let [echo, transfer] = listener.ports() else { return Err("there are not two ports".into()) };
    let mut cut = TcpStream::connect(("127.0.0.1", transfer.local_port())).await?;
    cut.write_all(format!("get {LARGE}\n").as_bytes()).await?;
    let mut received = Vec::new();
    // Whether the end of the local connection is an error depends on what was in flight.
    let _ = cut.read_to_end(&mut received).await;
    check(received.len() < 2_000_000, "data arrived through a cut connection")?;
    for _ in 0..3 {
        echoed(&mut TcpStream::connect(("127.0.0.1", echo.local_port())).await?).await?;
    }
    let address = ("127.0.0.1", echo.local_port());
    listener.close().await;
    check(TcpStream::connect(address).await.is_err(), "the port is open after the end")?;
    Ok("connections before and after a cut; closed with its handle".to_owned())
}

/// Sends a word to the server that sends it back.
async fn echoed(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> Result<(), Failure> {
    stream.write_all(b"hello").await?;
    let mut received = [0; 5];
    stream.read_exact(&mut received).await?;
    check_eq(&received, b"hello")
}

pub(crate) async fn dropped_stream(env: Env) -> Outcome {
    let forward = env.pods()?.port_forward("web");
    let mut other = forward.connect(ECHO).await?;
    let name = env.event_name("dropped-stream");
    let mut stream = forward.connect(TRANSFER).await?;
    stream.write_all(format!("get {ENDLESS} {name}\n").as_bytes()).await?;
    pattern::read(&mut BufReader::with_capacity(64 * 1024, stream), 1_000_000).await?;
    check_eq(env.event(&name).await?.as_str(), "the client left")?;
    echoed(&mut other).await?;
    Ok("the server in the pod sees the end; the other stream goes on".to_owned())
}

pub(crate) async fn stopped_reader_of_a_port(env: Env) -> Outcome {
    let (relay, pods) = env.relayed(u64::MAX).await?;
    let name = env.event_name("stopped-port");
    let mut stream = pods.port_forward("web").connect(TRANSFER).await?;
    stream.write_all(format!("get {ENDLESS} {name}\n").as_bytes()).await?;
    stream.read_u8().await?;
    let held = settled(|| relay.passed().bytes).await;
    check(held < HELD, format!("{held} bytes were accepted without a reader"))?;
    drop(stream);
    check_eq(env.event(&name).await?.as_str(), "the client left")?;
    Ok(format!("the server has to wait after less than {} MB", HELD / 1_000_000))
}
