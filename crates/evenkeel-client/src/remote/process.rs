//! [`RemoteProcess`]: a process in a container.

use std::sync::Arc;

use evenkeel_base::channels::{
    ChannelError, ChannelReader, ChannelWriter, ERROR, RESIZE, STDERR, STDIN, STDOUT, Session,
};
use evenkeel_core::{ExitStatus, ExitStatusError, TerminalSize};

use super::error::SessionError;
use crate::error::{Error, RequestName};

/// The largest status of a process.
const MAX_STATUS: usize = 64 * 1024;

/// A process in a container. Dropping it closes the connection; most container runtimes then stop the process.
///
/// The streams can be taken out, to be used by other tasks. They fail once the process handle is dropped.
#[derive(Debug)]
#[must_use = "dropping the handle closes the connection"]
pub struct RemoteProcess {
    /// Standard input, if it was requested. Dropping it, or `shutdown`, is the end of the input for the process.
    pub stdin: Option<ChannelWriter>,
    /// Standard output, unless it was turned off. With a terminal it contains standard error.
    pub stdout: Option<ChannelReader>,
    /// Standard error, unless it was turned off.
    pub stderr: Option<ChannelReader>,
    request: RequestName,
    error: ChannelReader,
    /// What was received on the error channel.
    status: Vec<u8>,
    session: Session,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutput {
    /// How the process ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl RemoteProcess {
    pub(super) fn new(request: RequestName, session: Session, stdin: bool, stdout: bool, stderr: bool) -> Self {
        RemoteProcess {
            stdin: stdin.then(|| session.writer(STDIN)),
            stdout: stdout.then(|| session.reader(STDOUT)),
            stderr: stderr.then(|| session.reader(STDERR)),
            request,
            error: session.reader(ERROR),
            status: Vec::new(),
            session,
        }
    }

    /// Sets the size of the terminal. Does nothing without a terminal. Only the last of several sizes may be sent.
    pub fn resize(&self, size: TerminalSize) {
        self.session.send_latest(RESIZE, size.encode().as_bytes());
    }

    /// Waits for the end of the process. Cancel safe.
    ///
    /// Closes standard input and discards the outputs, as far as they have not been taken out of this handle: nothing could
    /// use them any more, and the process could wait for them forever.
    ///
    /// # Errors
    /// Returns [`Error::Session`] if the connection ended without the status of the process, or if the server could not run
    /// the process. An exit code other than zero is no error.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.stdin = None;
        self.stdout = None;
        self.stderr = None;
        let end = self.read_status(MAX_STATUS).await;
        self.exit_status(end)
    }

    /// Reads the error channel to its end.
    async fn read_status(&mut self, limit: usize) -> Result<(), Arc<ChannelError>> {
        while let Some(chunk) = self.error.next().await {
            let chunk = chunk?;
            let room = limit.saturating_sub(self.status.len());
            self.status.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        }
        Ok(())
    }

    /// Returns the status that was received. It is true also if the connection was lost after it.
    fn exit_status(&self, end: Result<(), Arc<ChannelError>>) -> Result<ExitStatus, Error> {
        let source = match (end, &*self.status) {
            (Err(error), []) => SessionError::Channel(error),
            (Ok(()), []) => SessionError::NoStatus,
            (end, status) => match (ExitStatus::decode(status), end) {
                (Ok(status), _) => return Ok(status),
                // The status may be incomplete.
                (Err(ExitStatusError::Protocol { .. }), Err(error)) => SessionError::Channel(error),
                (Err(error), _) => error.into(),
            },
        };
        Err(Error::Session { request: self.request.clone(), source })
    }

    /// Closes standard input and collects both outputs, each up to `limit` bytes.
    pub(super) async fn output(mut self, limit: usize) -> Result<ProcessOutput, Error> {
        self.stdin = None;
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let request = self.request.clone();
        let (stdout, stderr) = tokio::try_join!(collect(stdout, limit, &request), collect(stderr, limit, &request))?;
        Ok(ProcessOutput { status: self.wait().await?, stdout, stderr })
    }
}

/// Reads a stream to its end.
async fn collect(reader: Option<ChannelReader>, limit: usize, request: &RequestName) -> Result<Vec<u8>, Error> {
    let mut collected = Vec::new();
    let Some(mut reader) = reader else { return Ok(collected) };
    while let Some(chunk) = reader.next().await {
        let failed = |error| Error::Session { request: request.clone(), source: SessionError::Channel(error) };
        let chunk = chunk.map_err(failed)?;
        if collected.len() + chunk.len() > limit {
            return Err(Error::TooLarge { request: request.clone(), limit });
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected)
}
