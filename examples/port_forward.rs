//! Ports of a pod: streams to them, and local ports that are forwarded, as `kubectl port-forward` does.
//!
//! ```text
//! cargo run -p evenkeel-examples --example port_forward
//! ```
//!
//! In client-go: `tools/portforward`. In kube-rs: `Api::portforward`, without local ports.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::net::SocketAddr;

use evenkeel::apiserver::{ApiServer, LocalAddresses};
use evenkeel::client::remote::PortForwardError;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel_examples::Outcome;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> Outcome {
    // The embedded server connects port 80 of every pod to a program on this machine.
    let program = shouting_program().await?;
    let server = ApiServer::builder().port_forward(LocalAddresses::new().port(80, program)).start().await?;
    let pods = server.client().core_v1().pods("default");
    let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    pods.create(&serde_json::from_value::<Pod>(pod)?).await?;
    let forward = pods.port_forward("web-0");

    // A stream to a port is AsyncRead and AsyncWrite.
    let mut stream = forward.connect(80).await?;
    stream.write_all(b"hello\n").await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    println!("port 80 of web-0 replied {reply:?}");
    assert_eq!(reply, "HELLO\n");

    // A port that nothing listens on fails its own stream only.
    let Err(error) = forward.connect(81).await?.read_u8().await else { return Err("port 81 is open".into()) };
    println!("{error}");
    assert_eq!(PortForwardError::in_io(&error).map(|error| error.port), Some(81));

    // Local ports, for programs that know nothing of Kubernetes. `:80` is any free local port.
    let listener = forward.listen([":80"]).on_error(|error| println!("{error}")).await?;
    let Some(port) = listener.ports().first() else { return Err("no port is forwarded".into()) };
    println!("listening on {:?} for port {}", port.local, port.remote);
    for word in ["one", "two"] {
        println!("a local client received {:?}", ask(port.local_port(), word).await?);
    }
    // Dropping the listener does the same, without waiting.
    listener.close().await;
    Ok(())
}

/// Sends a line to a local port and returns the reply.
async fn ask(port: u16, word: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
    connection.write_all(format!("{word}\n").as_bytes()).await?;
    let mut reply = String::new();
    connection.read_to_string(&mut reply).await?;
    Ok(reply)
}

/// Starts a program that replies to one line, in upper case.
async fn shouting_program() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(byte) = connection.read_u8().await {
                    connection.write_u8(byte.to_ascii_uppercase()).await?;
                    if byte == b'\n' {
                        break;
                    }
                }
                connection.shutdown().await
            });
        }
    });
    Ok(address)
}
