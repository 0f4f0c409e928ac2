//! Processes in containers and ports of pods: exec, attach (MSC-6) and port-forward (MSC-7).
//!
//! The engine checks a request and returns an [`Upgrade`](crate::http_types::Upgrade). The listener passes it the upgraded
//! connection, and `session` runs the handler of the user on its channels.

pub(crate) mod port_forward;
pub(crate) mod port_tunnel;
mod scripted;
pub(crate) mod session;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_base::channels::{ChannelReader, ChannelWriter};
use evenkeel_core::{ExitStatus, Status, TerminalSize};

pub use self::port_forward::{LocalAddresses, PortConnection, PortFuture, PortHandler, PortStream};
pub use self::scripted::{ScriptedCommands, ScriptedOutput};

/// The future of a [`ProcessHandler`].
pub type ProcessFuture = Pin<Box<dyn Future<Output = ProcessOutcome> + Send>>;

/// How a process ended, or why it could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessOutcome {
    /// The process exited.
    Exited(ExitStatus),
    /// The server could not start the process, or lost it. The client receives this failure instead of an exit code.
    Failed(Box<Status>),
}

impl From<ExitStatus> for ProcessOutcome {
    fn from(status: ExitStatus) -> Self {
        ProcessOutcome::Exited(status)
    }
}

impl From<Status> for ProcessOutcome {
    fn from(failure: Status) -> Self {
        ProcessOutcome::Failed(Box::new(failure))
    }
}

impl From<Result<ExitStatus, Status>> for ProcessOutcome {
    fn from(result: Result<ExitStatus, Status>) -> Self {
        result.map_or_else(ProcessOutcome::from, ProcessOutcome::from)
    }
}

/// Runs the processes of exec or attach: a closure, or [`ScriptedCommands`].
///
/// A closure returns an [`ExitStatus`], a failure as a [`Status`], or a `Result` of both.
///
/// The future is dropped when the client closes the connection, and when the server stops.
pub trait ProcessHandler: Send + Sync + 'static {
    /// Runs one process. The outcome is sent to the client after everything that was written.
    fn run(&self, process: ContainerProcess) -> ProcessFuture;
}

impl<F, Running> ProcessHandler for F
where
    F: Fn(ContainerProcess) -> Running + Send + Sync + 'static,
    Running: Future + Send + 'static,
    Running::Output: Into<ProcessOutcome>,
{
    fn run(&self, process: ContainerProcess) -> ProcessFuture {
        let running = self(process);
        Box::pin(async { running.await.into() })
    }
}

/// A process that a client requested: its arguments and its streams.
#[derive(Debug)]
#[non_exhaustive]
pub struct ContainerProcess {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// The command and its arguments; empty for attach.
    pub command: Vec<String>,
    /// Whether the client requested a terminal.
    pub tty: bool,
    /// Standard input, if the client opened it.
    pub stdin: Option<ChannelReader>,
    /// Standard output, if the client reads it.
    pub stdout: Option<ChannelWriter>,
    /// Standard error, if the client reads it and there is no terminal.
    pub stderr: Option<ChannelWriter>,
    /// The sizes of the terminal, if there is one.
    pub sizes: Option<TerminalSizes>,
}

/// The sizes of a terminal as the client changes it.
#[derive(Debug)]
pub struct TerminalSizes {
    reader: ChannelReader,
    received: Vec<u8>,
}

impl TerminalSizes {
    pub(crate) fn new(reader: ChannelReader) -> Self {
        TerminalSizes { reader, received: Vec::new() }
    }

    /// Returns the next size; `None` when the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            if let Some(size) = TerminalSize::decode(&mut self.received) {
                return Some(size);
            }
            self.received.extend_from_slice(&self.reader.next().await?.ok()?);
        }
    }
}

/// The handlers of a server.
#[derive(Clone, Default)]
pub(crate) struct ProcessHandlers {
    pub(crate) exec: Option<Arc<dyn ProcessHandler>>,
    pub(crate) attach: Option<Arc<dyn ProcessHandler>>,
    pub(crate) ports: Option<Arc<dyn PortHandler>>,
}

impl fmt::Debug for ProcessHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessHandlers")
            .field("exec", &self.exec.is_some())
            .field("attach", &self.attach.is_some())
            .field("ports", &self.ports.is_some())
            .finish()
    }
}
