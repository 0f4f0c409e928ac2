//! [`PluginChild`]: a plugin as a child process.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::ExecPlugin;
use super::error::ExecProblem;
use super::protocol::EXEC_INFO;
use super::run::PluginProcess;
use super::terminal::TerminalGuard;
use crate::secret::Secret;

/// A child process. Dropping it kills it: with its process group, unless it is interactive, because a process needs the
/// group of the terminal to read from it. Then the settings of the terminal are restored.
pub(super) struct PluginChild {
    child: Child,
    #[cfg(unix)]
    has_own_group: bool,
    /// Dropped after the child.
    _terminal: Option<TerminalGuard>,
}

impl PluginChild {
    pub(super) fn start(
        program: &Path,
        plugin: &ExecPlugin,
        info: &str,
        is_interactive: bool,
    ) -> Result<Self, ExecProblem> {
        let mut command = Command::new(program);
        command.args(plugin.args.iter().map(Secret::expose));
        command.envs(plugin.env.iter().map(|(name, value)| (name, value.expose())));
        command.env(EXEC_INFO, info);
        command.stdout(Stdio::piped()).kill_on_drop(true);
        let mut terminal = None;
        if is_interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
            terminal = TerminalGuard::save();
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
            #[cfg(unix)]
            command.process_group(0);
        }
        let child = command.spawn().map_err(ExecProblem::Start)?;
        Ok(PluginChild {
            child,
            #[cfg(unix)]
            has_own_group: !is_interactive,
            _terminal: terminal,
        })
    }
}

impl PluginProcess for PluginChild {
    type Stdout = ChildStdout;
    type Stderr = ChildStderr;

    fn streams(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    async fn wait(&mut self) -> io::Result<Option<i32>> {
        Ok(self.child.wait().await?.code())
    }
}

impl Drop for PluginChild {
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
