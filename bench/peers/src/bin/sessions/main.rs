//! The sides of the session benchmark, `bench/sessions.sh`: transfers by evenkeel's client and by kube-rs', and evenkeel's
//! embedded server.
//!
//! A transfer moves a number of bytes through exec or through a forwarded port, and discards or makes up the data. `listen`
//! forwards a local port, as `kubectl port-forward` does. The data never passes a pipe, and both clients have the same
//! runtime, in a process of their own.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod evenkeel;
mod kube_rs;
mod server;

use std::error::Error;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

type Failure = Box<dyn Error + Send + Sync>;

/// The pod of all sessions.
const POD: &str = "web";
/// The port of a server of `get N` and `count N`.
const PORT: u16 = 8;
const BLOCK: usize = 64 * 1024;

/// Runs one side.
#[derive(Debug, Parser)]
enum Arguments {
    /// Serves exec and port-forward until standard input ends, and prints the path of a kubeconfig.
    Serve {
        /// Where the kubeconfig is written
        kubeconfig: PathBuf,
    },
    /// Transfers bytes.
    Transfer {
        #[command(flatten)]
        target: Target,
        case: Case,
        /// The number of bytes
        bytes: u64,
        /// Stops to read after the first block, until standard input ends
        #[arg(long)]
        stop: bool,
    },
    /// Forwards a local port, and prints it.
    Listen {
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Debug, clap::Args)]
struct Target {
    client: Client,
    kubeconfig: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Client {
    Evenkeel,
    KubeRs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Case {
    ExecOut,
    ExecIn,
    StreamOut,
    StreamIn,
}

impl Case {
    /// The command of a container, or the first line to a port.
    fn command(self, bytes: u64) -> [String; 2] {
        let name = match self {
            Case::ExecOut => "produce",
            Case::StreamOut => "get",
            Case::ExecIn | Case::StreamIn => "count",
        };
        [name.to_owned(), bytes.to_string()]
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match Arguments::parse() {
        Arguments::Serve { kubeconfig } => server::serve(&kubeconfig).await,
        Arguments::Transfer { target: Target { client, kubeconfig }, case, bytes, stop } => {
            let stop = stop.then_some(());
            match client {
                Client::Evenkeel => evenkeel::transfer(&kubeconfig, case, bytes, stop).await,
                Client::KubeRs => kube_rs::transfer(&kubeconfig, case, bytes, stop).await,
            }
        }
        Arguments::Listen { target: Target { client: Client::Evenkeel, kubeconfig } } => {
            evenkeel::listen(&kubeconfig).await
        }
        Arguments::Listen { target: Target { client: Client::KubeRs, kubeconfig } } => {
            kube_rs::listen(&kubeconfig).await
        }
    }
}

/// Reads and discards bytes. With `stop`, reads one block, and then waits for the end of standard input.
async fn discard(reader: &mut (impl AsyncRead + Unpin), bytes: u64, stop: Option<()>) -> Result<(), Failure> {
    let mut buffer = vec![0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK as u64) as usize;
        let read = reader.read(&mut buffer[..length]).await?;
        if read == 0 {
            return Err(format!("the data ended {left} bytes early").into());
        }
        left -= read as u64;
        if stop.is_some() {
            println!("stopped");
            return until_closed().await;
        }
    }
    Ok(())
}

/// Writes zeros.
async fn fill(writer: &mut (impl AsyncWrite + Unpin), bytes: u64) -> Result<(), Failure> {
    let block = vec![0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK as u64) as usize;
        writer.write_all(&block[..length]).await?;
        left -= length as u64;
    }
    writer.flush().await?;
    Ok(())
}

/// Waits for the end of standard input.
async fn until_closed() -> Result<(), Failure> {
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    Ok(())
}

/// Sends the first line to a port, and transfers.
async fn through_port(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    case: Case,
    bytes: u64,
    stop: Option<()>,
) -> Result<(), Failure> {
    stream.write_all(format!("{}\n", case.command(bytes).join(" ")).as_bytes()).await?;
    stream.flush().await?;
    match case {
        Case::StreamIn => {
            fill(stream, bytes).await?;
            counted(stream, bytes).await
        }
        _ => discard(stream, bytes, stop).await,
    }
}

/// Checks the number that the peer has counted.
async fn counted(reader: &mut (impl AsyncRead + Unpin), bytes: u64) -> Result<(), Failure> {
    let expected = format!("{bytes} bytes\n");
    let mut text = vec![0; expected.len()];
    reader.read_exact(&mut text).await?;
    match text == expected.as_bytes() {
        true => Ok(()),
        false => Err(format!("the server received {}", String::from_utf8_lossy(&text)).into()),
    }
}
