//! Tests of kubeconfigs, by operation.

use super::{Kubeconfig, Overrides};
use crate::config::testing::{Folder, logged};
use crate::config::{Config, ConfigError, EntryKind};
use crate::secret::Secret;

mod choose;
mod edit;
mod load;
mod schema;
mod shrink;
mod validate;

/// Returns a kubeconfig with one entry of each kind, all named `it`. `cluster` and `user` are lines of YAML.
fn one(cluster: &str, user: &str) -> String {
    let indent = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    format!(
        "clusters:\n- name: it\n  cluster:\n{}users:\n- name: it\n  user:\n{}\
         contexts:\n- name: it\n  context: {{cluster: it, user: it}}\ncurrent-context: it\n",
        indent(cluster),
        indent(user)
    )
}

fn config(cluster: &str, user: &str, overrides: &Overrides) -> Result<Config, ConfigError> {
    Config::from_kubeconfig_str(&one(cluster, user), overrides)
}

/// Returns the error of a kubeconfig, as displayed.
fn refused(cluster: &str, user: &str) -> String {
    config(cluster, user, &Overrides::default()).unwrap_err().to_string()
}

const SERVER: &str = "server: https://h";
