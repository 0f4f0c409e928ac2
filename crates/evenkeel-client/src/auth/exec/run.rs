//! The limits of a run: its time and its output.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::ExecPlugin;
use super::child::PluginChild;
use super::error::ExecProblem;
use crate::auth::redact::Redactor;

/// The most that a plugin may print. Credentials have a few KiB.
pub(super) const MAX_STDOUT: usize = 1 << 20;
/// How much of the end of stderr is kept.
const MAX_STDERR: usize = 4 << 10;
/// How long the rest of stderr is waited for after the plugin has finished. A process that it left behind may hold it
/// open.
const STDERR_GRACE: Duration = Duration::from_millis(100);

/// A plugin that runs. Dropping it kills it.
pub(super) trait PluginProcess: Send {
    type Stdout: AsyncRead + Send + Unpin;
    type Stderr: AsyncRead + Send + Unpin;

    /// Returns stdout, and stderr unless it is the program's own. The second call returns none.
    fn streams(&mut self) -> (Option<Self::Stdout>, Option<Self::Stderr>);

    /// Waits until the plugin has finished. Returns its exit code; `None` if a signal ended it.
    fn wait(&mut self) -> impl Future<Output = io::Result<Option<i32>>> + Send;
}

/// Runs the plugin. Returns what it printed to stdout, and the end of its stderr without the values of its arguments and
/// variables. Dropping the future kills the plugin.
pub(super) async fn run(
    program: &Path,
    plugin: &ExecPlugin,
    info: &str,
    is_interactive: bool,
    redactor: &Redactor,
) -> Result<(Zeroizing<Vec<u8>>, String), ExecProblem> {
    let process = PluginChild::start(program, plugin, info, is_interactive)?;
    let limit = (!is_interactive).then_some(plugin.timeout);
    supervise(process, limit, redactor).await
}

/// Waits for a plugin, within the limits.
pub(super) async fn supervise(
    mut process: impl PluginProcess,
    limit: Option<Duration>,
    redactor: &Redactor,
) -> Result<(Zeroizing<Vec<u8>>, String), ExecProblem> {
    let mut stderr = StderrTail::default();
    let outcome = {
        let work = output(&mut process, &mut stderr);
        match limit {
            Some(limit) => timeout(limit, work).await.map_err(|_| limit),
            None => Ok(work.await),
        }
    };
    let message = redactor.redact(&String::from_utf8_lossy(&stderr.bytes), stderr.cut);
    match outcome {
        Ok(Ok((stdout, Some(0)))) => Ok((stdout, message)),
        Ok(Ok((_, code))) => Err(ExecProblem::Exit { code, stderr: message }),
        Ok(Err(problem)) => Err(problem),
        Err(limit) => Err(ExecProblem::Timeout { limit, stderr: message }),
    }
}

/// Waits until the plugin has closed stdout and has finished.
async fn output(
    process: &mut impl PluginProcess,
    tail: &mut StderrTail,
) -> Result<(Zeroizing<Vec<u8>>, Option<i32>), ExecProblem> {
    let (stdout, stderr) = process.streams();
    let mut work = pin!(async {
        let printed = match stdout {
            Some(stdout) => read_stdout(stdout).await?,
            None => Zeroizing::default(),
        };
        let code = process.wait().await.map_err(ExecProblem::Read)?;
        Ok::<_, ExecProblem>((printed, code))
    });
    let Some(mut stderr) = stderr else { return work.await };
    let outcome = tokio::select! {
        outcome = &mut work => outcome,
        () = tail.read(&mut stderr) => return work.await,
    };
    let _ = timeout(STDERR_GRACE, tail.read(&mut stderr)).await;
    outcome
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
