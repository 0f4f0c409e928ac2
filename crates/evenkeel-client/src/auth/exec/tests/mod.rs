//! Exec plugins: small scripts of `sh`, which the shell receives as an argument.

mod decisions;
mod failures;
mod limits;
#[cfg(unix)]
mod runs;
#[cfg(target_os = "linux")]
mod terminals;

use std::path::PathBuf;
use std::sync::Arc;

use super::plugin::PluginSource;
use super::*;
use crate::auth::error::CredentialProblem;
use crate::auth::refresh::{CredentialSource as _, Fetched};
use crate::config::{Config, ServerUrl};
use crate::small_file::tests::Folder;
use crate::tls::{IdentitySlot, default_provider};

/// Returns a plugin that runs this script.
fn sh(script: &str) -> ExecPlugin {
    let mut plugin = ExecPlugin::new("/bin/sh");
    plugin.args = vec!["-c".into(), script.into()];
    plugin
}

/// Returns a script that prints an `ExecCredential` with this status.
fn printing(status: &serde_json::Value) -> String {
    let credential = serde_json::json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status,
    });
    format!("cat <<'END'\n{credential}\nEND\n")
}

fn printing_token(token: &str) -> String {
    printing(&serde_json::json!({"token": token}))
}

/// Runs a plugin once.
async fn fetch(plugin: &ExecPlugin) -> Result<Fetched, CredentialProblem> {
    fetch_with(plugin, &ExecPolicy::AllowAll).await
}

async fn fetch_with(plugin: &ExecPlugin, policy: &ExecPolicy) -> Result<Fetched, CredentialProblem> {
    PluginSource::new(plugin, policy, None, IdentitySlot::new(), default_provider()).fetch().await
}

/// Returns why a plugin fails, and its command.
async fn problem(plugin: &ExecPlugin) -> ExecProblem {
    match fetch(plugin).await.unwrap_err() {
        CredentialProblem::Exec { command, problem } => {
            assert_eq!(command, plugin.command);
            problem
        }
        other => panic!("{other}"),
    }
}

fn config() -> Config {
    Config::new(ServerUrl::parse("https://example.com:6443").unwrap())
}

/// Counts the runs of a plugin that calls [`Runs::script`].
struct Runs(Folder);

impl Runs {
    fn new() -> Self {
        Runs(Folder::new())
    }

    /// Returns a line of a script that counts the run.
    fn script(&self) -> String {
        format!("echo run >> '{}'\n", self.path().display())
    }

    fn path(&self) -> PathBuf {
        self.0.path("runs")
    }

    fn count(&self) -> usize {
        std::fs::read_to_string(self.path()).map_or(0, |text| text.lines().count())
    }
}
