//! Processes of this machine, in place of containers.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use evenkeel_apiserver::{ContainerProcess, ExitStatus};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};
use tokio::process::Command;

use crate::terminal;

/// The exit code of a command that cannot be started, as of a shell.
const CANNOT_START: u8 = 127;

/// Runs the processes of containers, each in the directory of its container.
#[derive(Clone, Debug)]
pub(crate) struct LocalProcesses {
    directory: PathBuf,
}

impl LocalProcesses {
    pub(crate) fn new(directory: PathBuf) -> Self {
        LocalProcesses { directory }
    }

    /// Attaches to a container: a shell reads the input.
    pub(crate) async fn shell(self, mut process: ContainerProcess) -> ExitStatus {
        process.command = ["sh", "-c", "echo attached; exec sh"].map(str::to_owned).into();
        self.run(process).await
    }

    pub(crate) async fn run(self, mut process: ContainerProcess) -> ExitStatus {
        let directory = self.directory.join(&process.pod).join(&process.container);
        if let Err(error) = std::fs::create_dir_all(&directory) {
            return cannot_start(process, &error.to_string()).await;
        }
        if process.tty {
            return terminal::run(process, &directory).await;
        }
        let Some((program, arguments)) = process.command.split_first() else {
            return cannot_start(process, "no command").await;
        };
        let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
        // A client that closes the connection drops this future, and the process with it.
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&directory)
            .stdin(pipe(process.stdin.is_some()))
            .stdout(pipe(process.stdout.is_some()))
            .stderr(pipe(process.stderr.is_some()))
            .kill_on_drop(true)
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return cannot_start(process, &error.to_string()).await,
        };
        let input = transfer(process.stdin.take(), child.stdin.take());
        let stdout = transfer(child.stdout.take(), process.stdout.take());
        let stderr = transfer(child.stderr.take(), process.stderr.take());
        let ended = async { tokio::join!(child.wait(), stdout, stderr).0 };
        // The input may never end.
        let status = tokio::select! {
            status = ended => status,
            () = async { input.await; std::future::pending().await } => return ExitStatus::exited(CANNOT_START),
        };
        exit_status(status)
    }
}

/// Returns the status of a process, as a shell numbers it.
pub(crate) fn exit_status(status: std::io::Result<std::process::ExitStatus>) -> ExitStatus {
    let code = status.ok().and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal)));
    ExitStatus::exited(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Reports that a command cannot be started.
pub(crate) async fn cannot_start(process: ContainerProcess, problem: &str) -> ExitStatus {
    let text = format!("cannot start {:?}: {problem}\n", process.command);
    if let Some(mut output) = process.stderr.or(process.stdout) {
        // An error means that the client has closed the connection.
        let _ = output.write_all(text.as_bytes()).await;
    }
    ExitStatus::exited(CANNOT_START)
}

/// Copies all data, then closes the writer.
async fn transfer<R, W>(reader: Option<R>, writer: Option<W>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    if let (Some(mut reader), Some(mut writer)) = (reader, writer) {
        // An error means that one side has ended.
        let _ = copy(&mut reader, &mut writer).await;
        let _ = writer.shutdown().await;
    }
}
