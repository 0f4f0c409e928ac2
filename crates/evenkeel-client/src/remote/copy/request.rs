//! [`CopyTo`] and [`CopyFrom`]: run `tar` in a container and connect it to local files.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::channels::{ChannelError, ChannelReader, ChannelWriter};
use evenkeel_core::ExitStatusError;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};

use super::bridge::{self, Part};
use super::pack::pack;
use super::remote_path::RemotePath;
use super::unpack::Unpack;
use super::{CopyError, CopyLimits, CopyReport};
use crate::error::{Error, RequestName};
use crate::remote::{Exec, RemoteProcess, SessionError};
use crate::rest::sanitize::escaped;

/// The bytes of standard error that an error contains.
const MAX_STDERR: usize = 4096;
/// How long an invalid archive waits for the exit code, which may explain it.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `tar` may take to end after the archive, if it cannot be told the end of standard input.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// The exit codes of shells and container runtimes for a command that cannot be run.
const CANNOT_RUN: [u8; 2] = [126, 127];

/// A copy of a local file or directory into a container. Does nothing until it is awaited.
#[must_use = "nothing is copied until it is awaited"]
pub struct CopyTo {
    exec: Exec,
    source: PathBuf,
    destination: String,
}

/// A copy of a file or directory out of a container. Does nothing until it is awaited.
#[must_use = "nothing is copied until it is awaited"]
pub struct CopyFrom {
    exec: Exec,
    source: String,
    destination: PathBuf,
    limits: CopyLimits,
    follow_symlinks: bool,
}

impl CopyTo {
    pub(crate) fn new(exec: Exec, source: PathBuf, destination: String) -> Self {
        CopyTo { exec, source, destination }
    }

    /// Selects the container; required if the pod has more than one.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.exec = self.exec.container(name);
        self
    }

    async fn run(self) -> Result<CopyReport, Error> {
        let CopyTo { exec, source, destination } = self;
        let request = exec.request_name().clone();
        let (directory, name) = RemotePath::split_named(&destination).map_err(|error| copy_error(&request, error))?;
        // `o`: the files belong to the container's user.
        let command = ["tar", "-xof", "-", "-C", &directory];
        let mut process = exec.command(command).stdin().no_stdout().await?;
        let (Some(mut stdin), stderr) = (process.stdin.take(), process.stderr.take()) else {
            return Err(copy_error(&request, CopyError::Interrupted));
        };
        let (writer, mut parts) = bridge::writer();
        let packing = tokio::task::spawn_blocking(move || pack(&source, &name, writer));
        let mut messages = Vec::new();
        let feeding = async {
            let fed = feed(&mut stdin, &mut parts).await;
            // The thread must not wait for a process that ended.
            drop(parts);
            (fed, packing.await)
        };
        let (fed, packed) = {
            let mut reading = pin!(collect(stderr, &mut messages));
            let mut feeding = pin!(feeding);
            tokio::select! {
                fed = &mut feeding => {
                    match fed.0 {
                        // A source that cannot be read ends the session without the end of the archive.
                        Feed::Incomplete => {}
                        Feed::Complete | Feed::Refused => reading.await,
                        // The process ends by itself, or not at all.
                        Feed::NoHalfClose { deadline } => timeout_at(deadline, reading).await.unwrap_or_default(),
                    }
                    fed
                }
                () = &mut reading => feeding.await,
            }
        };
        let report = match (fed, finished(packed)) {
            (Feed::NoHalfClose { deadline }, Ok(report)) => {
                let exit = timeout_at(deadline, check_exit(&mut process, &request, &messages)).await;
                let timed_out = || Err(copy_error(&request, CopyError::NoHalfClose { limit: END_TIMEOUT }));
                return exit.unwrap_or_else(|_| timed_out()).map(|()| report);
            }
            (Feed::Incomplete, packed) => {
                // Before standard input, whose end would look like the end of the archive.
                drop(process);
                return Err(copy_error(&request, packed.err().unwrap_or(CopyError::Interrupted)));
            }
            (_, packed) => packed,
        };
        check_exit(&mut process, &request, &messages).await?;
        report.map_err(|error| copy_error(&request, error))
    }
}

impl CopyFrom {
    pub(crate) fn new(exec: Exec, source: String, destination: PathBuf) -> Self {
        CopyFrom { exec, source, destination, limits: CopyLimits::default(), follow_symlinks: false }
    }

    /// Selects the container; required if the pod has more than one.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.exec = self.exec.container(name);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: CopyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Copies what symbolic links in the container point to, instead of skipping them (`tar -h`).
    pub fn follow_symlinks(mut self) -> Self {
        self.follow_symlinks = true;
        self
    }

    async fn run(self) -> Result<CopyReport, Error> {
        let CopyFrom { exec, source, destination, limits, follow_symlinks } = self;
        let request = exec.request_name().clone();
        let path = RemotePath::split(&source).map_err(|error| copy_error(&request, error))?;
        let flags = if follow_symlinks { "-chf" } else { "-cf" };
        let mut process = exec.command(["tar", flags, "-", "-C", &path.directory, &path.argument()]).await?;
        let (Some(mut stdout), stderr) = (process.stdout.take(), process.stderr.take()) else {
            return Err(copy_error(&request, CopyError::Interrupted));
        };
        let unpack = Unpack { source: source.into(), prefix: path.name, destination, limits };
        let (sender, reader) = bridge::reader();
        let unpacking = tokio::task::spawn_blocking(move || unpack.run(reader));
        let mut messages = Vec::new();
        let receiving = async {
            let received = receive(&mut stdout, sender).await;
            // Discards the rest, so that the process can end.
            drop(stdout);
            (received, finished(unpacking.await))
        };
        let (received, unpacked) = {
            let mut reading = pin!(collect(stderr, &mut messages));
            let mut receiving = pin!(receiving);
            tokio::select! {
                unpacked = &mut receiving => {
                    match &unpacked {
                        (Ok(()), Ok(_) | Err(CopyError::Truncated)) => reading.await,
                        (Ok(()), Err(CopyError::Archive(_))) => {
                            let _ = tokio::time::timeout(STATUS_TIMEOUT, reading).await;
                        }
                        _ => {}
                    }
                    unpacked
                }
                () = &mut reading => receiving.await,
            }
        };
        if let Err(lost) = received {
            return Err(Error::Session { request, source: SessionError::Channel(lost) });
        }
        match unpacked {
            Ok(_) | Err(CopyError::Truncated) => check_exit(&mut process, &request, &messages).await?,
            Err(CopyError::Archive(_)) => {
                let exit = check_exit(&mut process, &request, &messages);
                if let Ok(exit) = tokio::time::timeout(STATUS_TIMEOUT, exit).await {
                    exit?;
                }
            }
            Err(_) => {}
        }
        unpacked.map_err(|error| copy_error(&request, error))
    }
}

/// How much of an archive was sent.
#[derive(Clone, Copy, Debug)]
enum Feed {
    Complete,
    /// The connection or the process ended.
    Refused,
    /// The archive has no end.
    Incomplete,
    /// The archive was sent, but standard input cannot be closed. `tar` may stop at the end of the archive.
    NoHalfClose {
        deadline: Instant,
    },
}

/// Writes an archive to standard input, and closes it after the end of the archive.
async fn feed(stdin: &mut ChannelWriter, parts: &mut mpsc::Receiver<Part>) -> Feed {
    loop {
        match parts.recv().await {
            None => return Feed::Incomplete,
            Some(Part::Data(data)) => {
                if stdin.write_all(&data).await.is_err() {
                    return Feed::Refused;
                }
            }
            Some(Part::End) => {
                return match stdin.shutdown().await {
                    Ok(()) => Feed::Complete,
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                        Feed::NoHalfClose { deadline: Instant::now() + END_TIMEOUT }
                    }
                    Err(_) => Feed::Refused,
                };
            }
        }
    }
}

/// Sends standard output to a reader until its end, or until the reader is dropped.
async fn receive(stdout: &mut ChannelReader, sender: mpsc::Sender<Part>) -> Result<(), Arc<ChannelError>> {
    loop {
        let chunk = tokio::select! {
            chunk = stdout.next() => chunk,
            () = sender.closed() => return Ok(()),
        };
        let part = chunk.transpose()?.map_or(Part::End, Part::Data);
        let is_end = part == Part::End;
        if sender.send(part).await.is_err() || is_end {
            return Ok(());
        }
    }
}

/// Reads standard error to its end, and keeps the start of it.
async fn collect(stderr: Option<ChannelReader>, messages: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    while let Some(Ok(chunk)) = stderr.next().await {
        let room = MAX_STDERR.saturating_sub(messages.len());
        messages.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
    }
}

fn finished(joined: Result<Result<CopyReport, CopyError>, JoinError>) -> Result<CopyReport, CopyError> {
    joined.unwrap_or(Err(CopyError::Interrupted))
}

/// Waits for the exit code.
async fn check_exit(process: &mut RemoteProcess, request: &RequestName, messages: &[u8]) -> Result<(), Error> {
    let stderr = escaped(messages, MAX_STDERR);
    match process.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if CANNOT_RUN.contains(&status.code()) => {
            Err(copy_error(request, CopyError::NoTar { message: format!("exit code {}: {stderr}", status.code()) }))
        }
        Ok(status) => Err(copy_error(request, CopyError::Exit { code: status.code(), stderr })),
        Err(Error::Session { source: SessionError::Process(ExitStatusError::Failed(status)), .. })
            if status.message.contains("executable file not found") =>
        {
            Err(copy_error(request, CopyError::NoTar { message: escaped(status.message.as_bytes(), MAX_STDERR) }))
        }
        Err(error) => Err(error),
    }
}

fn copy_error(request: &RequestName, error: CopyError) -> Error {
    Error::Session { request: request.clone(), source: SessionError::Copy(error) }
}

impl IntoFuture for CopyTo {
    type Output = Result<CopyReport, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<CopyReport, Error>> + Send>>;

    /// Copies. It has no timeout of its own; dropping the future closes the connection.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl IntoFuture for CopyFrom {
    type Output = Result<CopyReport, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<CopyReport, Error>> + Send>>;

    /// Copies. It has no timeout of its own; dropping the future closes the connection and removes the file that is not
    /// complete.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for CopyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CopyTo { exec, source, destination } = self;
        let mut out = f.debug_struct("CopyTo");
        out.field("request", exec.request_name()).field("source", source).field("destination", destination).finish()
    }
}

impl fmt::Debug for CopyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CopyFrom { exec, source, destination, limits, follow_symlinks } = self;
        f.debug_struct("CopyFrom")
            .field("request", exec.request_name())
            .field("source", source)
            .field("destination", destination)
            .field("limits", limits)
            .field("follow_symlinks", follow_symlinks)
            .finish()
    }
}
