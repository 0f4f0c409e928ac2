//! Whether a plugin is interactive.

use std::io::IsTerminal as _;

use super::error::ExecProblem;

/// Whether a plugin may use the terminal: stdin is passed on, stderr is shown, and its run is not limited in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InteractiveMode {
    /// Never.
    Never,
    /// If stdin is a terminal that the program does not use itself.
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

/// Returns whether stdin is a terminal.
pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal()
}
