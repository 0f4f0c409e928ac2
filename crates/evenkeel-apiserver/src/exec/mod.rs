//! Processes in containers: exec and attach (MSC-6).
//!
//! The engine checks a request and returns an [`Upgrade`](crate::http_types::Upgrade). The listener passes it the upgraded
//! connection, and `session` runs the handler of the user on its channels.

mod scripted;
pub(crate) mod session;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_base::channels::{ChannelReader, ChannelWriter};
use evenkeel_core::{ExitStatus, TerminalSize};

pub use self::scripted::{ScriptedCommands, ScriptedOutput};

/// The future of a [`ProcessHandler`].
pub type ProcessFuture = Pin<Box<dyn Future<Output = ExitStatus> + Send>>;

/// Runs the processes of exec or attach: a closure, or [`ScriptedCommands`].
///
/// The future is dropped when the client closes the connection, and when the server stops.
pub trait ProcessHandler: Send + Sync + 'static {
    /// Runs one process. The status is sent to the client after everything that was written.
    fn run(&self, process: ContainerProcess) -> ProcessFuture;
}

impl<F, Running> ProcessHandler for F
where
    F: Fn(ContainerProcess) -> Running + Send + Sync + 'static,
    Running: Future<Output = ExitStatus> + Send + 'static,
{
    fn run(&self, process: ContainerProcess) -> ProcessFuture {
        Box::pin(self(process))
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
}

impl fmt::Debug for ProcessHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessHandlers")
            .field("exec", &self.exec.is_some())
            .field("attach", &self.attach.is_some())
            .finish()
    }
}
