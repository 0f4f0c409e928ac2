//! Processes in containers and ports of pods: exec, attach, copies of files, debug containers, port-forward.
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let pods = client.core_v1().pods("default");
//! let mut process = pods.exec("web-0", ["sort"]).stdin().await?;
//! if let Some(mut stdin) = process.stdin.take() {
//!     stdin.write_all(b"b\na\n").await?;
//!     stdin.shutdown().await?; // the process reads the end of its input
//! }
//! let mut sorted = String::new();
//! if let Some(stdout) = &mut process.stdout {
//!     stdout.read_to_string(&mut sorted).await?;
//! }
//! assert!(process.wait().await?.success());
//! # Ok(())
//! # }
//! ```
//!
//! [`PortForward`] connects to the ports of a pod, and forwards local ports to them.
//!
//! # Protocol
//!
//! A session is a WebSocket on an HTTP/1.1 connection of its own. For exec and attach, the client offers
//! `v5.channel.k8s.io`, and `v4.channel.k8s.io` for servers before Kubernetes 1.30. With v4 standard input cannot be
//! closed: `shutdown` of [`RemoteProcess::stdin`] fails. For port-forward, the client offers `SPDY/3.1+portforward.k8s.io`, a
//! tunnel that streams use one after the other, and `v4.channel.k8s.io`, with a session per stream. Credentials, impersonation, proxies and layers apply as to every request.
//!
//! # Guarantees
//!
//! - Dropping the [`RemoteProcess`] closes the connection. Its streams fail from then on.
//! - Memory is bounded: if a stream is not read, the client stops reading the connection, and with it the other streams.
//!   Read both outputs concurrently, or drop the one that is not needed: the data of a dropped stream is discarded.
//! - A lost connection is an error of every stream, never the end of its data.

mod copy;
mod debug;
mod error;
mod exec;
mod port_forward;
mod process;
#[cfg(test)]
mod tests;

pub use evenkeel_base::channels::{ChannelError, ChannelReader, ChannelWriter, HandshakeError};
pub use evenkeel_base::spdy::{HeaderBlockError, ResetStatus, SpdyError};
pub use evenkeel_core::{ExitStatus, ExitStatusError, TerminalSize};

pub use self::copy::{CopyError, CopyFrom, CopyLimits, CopyReport, CopyTo, SkipReason, SkippedEntry};
pub use self::debug::{AddDebugContainer, DebugContainer, DebugError, WaitingContainer};
pub use self::error::SessionError;
pub use self::exec::Exec;
pub use self::port_forward::{
    BindFailure, BoundPort, ForwardError, ForwardedPort, ListenError, ListenPorts, PortForward, PortForwardError,
    PortListener, PortSpecError, PortStream,
};
pub use self::process::{ProcessOutput, RemoteProcess};
