//! Runs a plugin, within limits.

use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::ExecPlugin;
use super::error::ExecProblem;
use super::protocol::EXEC_INFO;
use crate::auth::redact::Redactor;
use crate::secret::Secret;

/// The most that a plugin may print. Credentials have a few KiB.
pub(super) const MAX_STDOUT: usize = 1 << 20;
/// How much of the end of stderr is kept.
const MAX_STDERR: usize = 4 << 10;
/// How long the rest of stderr is waited for after the plugin has finished. A process that it left behind may hold it
/// open.
const STDERR_GRACE: Duration = Duration::from_millis(100);

/// Runs the plugin and returns what it printed.
///
/// Dropping the future kills the plugin: with its process group, unless it is interactive, because a process needs the
/// group of the terminal to read from it.
pub(super) async fn run(
    program: &Path,
    plugin: &ExecPlugin,
    info: &str,
    is_interactive: bool,
    redactor: &Redactor,
) -> Result<Zeroizing<Vec<u8>>, ExecProblem> {
    let mut running = Running::start(program, plugin, info, is_interactive)?;
    let mut stderr = StderrTail::default();
    let outcome = {
        let work = running.output(&mut stderr);
        if is_interactive { Ok(work.await) } else { timeout(plugin.timeout, work).await }
    };
    let message = redactor.redact(&String::from_utf8_lossy(&stderr.bytes), stderr.cut);
    let (stdout, status) = match outcome {
        Ok(output) => output?,
        Err(_) => return Err(ExecProblem::Timeout { limit: plugin.timeout, stderr: message }),
    };
    if !status.success() {
        return Err(ExecProblem::Exit { code: status.code(), stderr: message });
    }
    if !message.is_empty() {
        tracing::debug!(command = plugin.command, stderr = message, "the exec plugin printed to stderr");
    }
    Ok(stdout)
}

/// A plugin that runs, killed on drop.
struct Running {
    child: Child,
    #[cfg(unix)]
    has_own_group: bool,
}

impl Running {
    fn start(program: &Path, plugin: &ExecPlugin, info: &str, is_interactive: bool) -> Result<Self, ExecProblem> {
        let mut command = Command::new(program);
        command.args(plugin.args.iter().map(Secret::expose));
        command.envs(plugin.env.iter().map(|(name, value)| (name, value.expose())));
        command.env(EXEC_INFO, info);
        command.stdout(Stdio::piped()).kill_on_drop(true);
        if is_interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
            #[cfg(unix)]
            command.process_group(0);
        }
        let child = command.spawn().map_err(ExecProblem::Start)?;
        Ok(Running {
            child,
            #[cfg(unix)]
            has_own_group: !is_interactive,
        })
    }

    /// Waits until the plugin has closed stdout and has finished.
    async fn output(
        &mut self,
        tail: &mut StderrTail,
    ) -> Result<(Zeroizing<Vec<u8>>, std::process::ExitStatus), ExecProblem> {
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let mut work = pin!(async {
            let printed = match stdout {
                Some(stdout) => read_stdout(stdout).await?,
                None => Zeroizing::default(),
            };
            let status = self.child.wait().await.map_err(ExecProblem::Read)?;
            Ok::<_, ExecProblem>((printed, status))
        });
        let Some(mut stderr) = stderr else { return work.await };
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = tail.read(&mut stderr) => return work.await,
        };
        let _ = timeout(STDERR_GRACE, tail.read(&mut stderr)).await;
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // There is no id once the plugin was waited for: its number may belong to another process then.
        #[cfg(unix)]
        if self.has_own_group
            && let Some(group) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
        {
            // It may have finished just now.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // Dropping the child kills it, and the runtime reaps it.
    }
}

async fn read_stdout(stdout: impl AsyncRead + Unpin) -> Result<Zeroizing<Vec<u8>>, ExecProblem> {
    // Allocated at full size, so that growing leaves no buffer with secrets behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_STDOUT + 1));
    stdout.take(MAX_STDOUT as u64 + 1).read_to_end(&mut bytes).await.map_err(ExecProblem::Read)?;
    if bytes.len() > MAX_STDOUT {
        return Err(ExecProblem::TooLarge { limit: MAX_STDOUT });
    }
    Ok(bytes)
}

/// The end of what a plugin printed to stderr.
#[derive(Default)]
struct StderrTail {
    bytes: Zeroizing<Vec<u8>>,
    /// Whether the beginning was dropped.
    cut: bool,
}

impl StderrTail {
    /// Reads until the end. Dropping the future loses nothing that was read.
    async fn read(&mut self, stderr: &mut (impl AsyncRead + Unpin)) {
        let mut chunk = Zeroizing::new([0; 1024]);
        while let Ok(length @ 1..) = stderr.read(chunk.as_mut_slice()).await {
            self.bytes.extend_from_slice(chunk.get(..length).unwrap_or_default());
            if let Some(excess) = self.bytes.len().checked_sub(MAX_STDERR).filter(|excess| *excess > 0) {
                self.bytes.drain(..excess);
                self.cut = true;
            }
        }
    }
}
