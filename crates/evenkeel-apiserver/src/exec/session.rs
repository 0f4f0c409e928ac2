//! Runs a process on the channels of an upgraded connection.

use std::sync::Arc;

use evenkeel_base::channels::{
    BoxIo, ChannelProtocol, ERROR, RESIZE, Role, STDERR, STDIN, STDOUT, Session, SessionSettings,
};
use tokio::io::AsyncWriteExt;

use super::{ContainerProcess, ProcessHandler, ProcessOutcome, TerminalSizes};

/// A request for a process that passed all checks.
pub(crate) struct ProcessRequest {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) command: Vec<String>,
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
    pub(crate) protocol: ChannelProtocol,
}

/// Runs the handler until it returns or the connection ends, and sends the status.
pub(crate) async fn run(request: ProcessRequest, handler: Arc<dyn ProcessHandler>, io: BoxIo) {
    let ProcessRequest { namespace, pod, container, command, stdin, stdout, stderr, tty, protocol } = request;
    let stderr = stderr && !tty;
    let channel = |(id, open): (u8, bool)| open.then_some(id);
    let settings = SessionSettings {
        role: Role::Server,
        protocol,
        inbound: [(STDIN, stdin), (RESIZE, tty)].into_iter().filter_map(channel).collect(),
        outbound: [(STDOUT, stdout), (STDERR, stderr), (ERROR, true)].into_iter().filter_map(channel).collect(),
    };
    let (session, driver) = Session::new(io, &settings);
    let process = ContainerProcess {
        namespace,
        pod,
        container,
        command,
        tty,
        stdin: stdin.then(|| session.reader(STDIN)),
        stdout: stdout.then(|| session.writer(STDOUT)),
        stderr: stderr.then(|| session.writer(STDERR)),
        sizes: tty.then(|| TerminalSizes::new(session.reader(RESIZE))),
    };
    let running = async {
        let outcome = tokio::select! {
            outcome = handler.run(process) => outcome,
            _ = session.ended() => return,
        };
        let status = match outcome {
            ProcessOutcome::Exited(status) => status.to_status(),
            ProcessOutcome::Failed(status) => *status,
        };
        let status = serde_json::to_vec(&status).unwrap_or_default();
        // An error means that the connection has ended.
        let _ = session.writer(ERROR).write_all(&status).await;
        session.close();
        let _ = session.ended().await;
    };
    tokio::join!(driver, running);
}
