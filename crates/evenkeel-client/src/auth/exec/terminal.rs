//! Whether a plugin is interactive, and the terminal that it uses then.

use std::io::IsTerminal as _;

use super::error::ExecProblem;

/// Whether a plugin may use the terminal: stdin is passed on, stderr is shown, and its run is not limited in time. The
/// settings of the terminal are restored after the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InteractiveMode {
    /// Never.
    Never,
    /// If stdin is a terminal, the program does not use it itself, and does not run in the background.
    IfAvailable,
    /// Always; without a terminal the plugin is not run.
    Always,
}

impl InteractiveMode {
    /// Parses the value of a kubeconfig.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Never" => Some(InteractiveMode::Never),
            "IfAvailable" => Some(InteractiveMode::IfAvailable),
            "Always" => Some(InteractiveMode::Always),
            _ => None,
        }
    }

    /// Decides for a run. `unavailable` is the reason why stdin is reserved.
    pub(super) fn is_interactive(self, unavailable: Option<&str>, is_terminal: bool) -> Result<bool, ExecProblem> {
        match (self, unavailable) {
            (InteractiveMode::Never, _) => Ok(false),
            (InteractiveMode::IfAvailable, unavailable) => Ok(unavailable.is_none() && is_terminal),
            (InteractiveMode::Always, Some(reason)) => Err(ExecProblem::StdinUnavailable { reason: reason.to_owned() }),
            (InteractiveMode::Always, None) if !is_terminal => Err(ExecProblem::NoTerminal),
            (InteractiveMode::Always, None) => Ok(true),
        }
    }
}

/// Returns whether stdin is a terminal that can be read: a job in the background would be stopped if it tried.
pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && !is_in_background()
}

/// Returns whether another process group has the terminal. A terminal that is not the controlling one has no group.
#[cfg(unix)]
fn is_in_background() -> bool {
    let group = rustix::termios::tcgetpgrp(std::io::stdin());
    group.is_ok_and(|group| group != rustix::process::getpgrp())
}

#[cfg(not(unix))]
fn is_in_background() -> bool {
    false
}

/// Restores the settings of the terminal on drop. A plugin that is killed while it reads a password leaves the echo
/// off.
pub(super) struct TerminalGuard {
    #[cfg(unix)]
    settings: rustix::termios::Termios,
}

impl TerminalGuard {
    /// Saves the settings of the terminal that is stdin.
    pub(super) fn save() -> Option<Self> {
        #[cfg(unix)]
        return rustix::termios::tcgetattr(std::io::stdin()).ok().map(|settings| TerminalGuard { settings });
        #[cfg(not(unix))]
        None
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // In the background this would stop the program. The terminal is not its own then.
        #[cfg(unix)]
        if !is_in_background() {
            let now = rustix::termios::OptionalActions::Now;
            // The terminal may have been closed.
            let _ = rustix::termios::tcsetattr(std::io::stdin(), now, &self.settings);
        }
    }
}
