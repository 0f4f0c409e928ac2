//! [`Exec`]: a request to run a command in a container, or to attach to one.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use evenkeel_base::channels::{ChannelProtocol, ERROR, RESIZE, Role, STDERR, STDIN, STDOUT, Session, SessionSettings};
use evenkeel_core::TerminalSize;

use super::process::{ProcessOutput, RemoteProcess};
use crate::error::{Error, RequestName};
use crate::rest::Request;

/// A request to run a command in a container, or to attach to one. Does nothing until it is awaited.
///
/// Standard output and standard error are read unless they are turned off.
#[derive(Debug)]
#[must_use = "a session is not opened until it is awaited"]
pub struct Exec {
    request: Request,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
    size: Option<TerminalSize>,
}

impl Exec {
    pub(crate) fn new(request: Request) -> Self {
        Exec { request, stdin: false, stdout: true, stderr: true, tty: false, size: None }
    }

    /// Adds arguments of the command.
    pub(crate) fn command<I>(mut self, arguments: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        for argument in arguments {
            let argument: String = argument.into();
            self.request = self.request.query("command", argument);
        }
        self
    }

    pub(super) fn request_name(&self) -> &RequestName {
        self.request.name()
    }

    /// Selects the container; required if the pod has more than one.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        let name: String = name.into();
        self.request = self.request.query("container", name);
        self
    }

    /// Opens standard input.
    pub fn stdin(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// Does not read standard output.
    pub fn no_stdout(mut self) -> Self {
        self.stdout = false;
        self
    }

    /// Does not read standard error.
    pub fn no_stderr(mut self) -> Self {
        self.stderr = false;
        self
    }

    /// Allocates a terminal. Standard error is part of standard output then.
    pub fn tty(mut self) -> Self {
        self.tty = true;
        self
    }

    /// Allocates a terminal of this size.
    pub fn terminal_size(mut self, size: TerminalSize) -> Self {
        self.size = Some(size);
        self.tty()
    }

    /// Runs the command, closes its standard input, and collects its output.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if an output is larger than the client's limit for an object, in
    /// [`Config::limits`](crate::Config::limits). An exit code other than zero is no error.
    pub async fn output(self) -> Result<ProcessOutput, Error> {
        let limit = self.request.client().config().limits.object;
        self.await?.output(limit).await
    }

    async fn open(self) -> Result<RemoteProcess, Error> {
        let Exec { request, stdin, stdout, stderr, tty, size } = self;
        let stderr = stderr && !tty;
        let flags = [("stdin", stdin), ("stdout", stdout), ("stderr", stderr), ("tty", tty)];
        let set = flags.into_iter().filter(|(_, set)| *set);
        let request = set.fold(request, |request, (name, _)| request.query(name, "true"));
        let name = request.name().clone();
        let (io, protocol) = request.upgrade(&ChannelProtocol::NAMES).await?;
        let channel = |(id, open): (u8, bool)| open.then_some(id);
        let settings = SessionSettings {
            role: Role::Client,
            protocol: ChannelProtocol::from_name(protocol).unwrap_or(ChannelProtocol::V4),
            inbound: [(ERROR, true), (STDOUT, stdout), (STDERR, stderr)].into_iter().filter_map(channel).collect(),
            outbound: [(STDIN, stdin), (RESIZE, tty)].into_iter().filter_map(channel).collect(),
        };
        let (session, driver) = Session::new(io, &settings);
        let process = RemoteProcess::new(name, session, stdin, stdout, stderr);
        if let Some(size) = size {
            process.resize(size);
        }
        tokio::spawn(driver);
        Ok(process)
    }
}

impl IntoFuture for Exec {
    type Output = Result<RemoteProcess, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<RemoteProcess, Error>> + Send>>;

    /// Opens the session. It has no timeout of its own once it is open.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}
