//! The Go program, and what a scenario needs of it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;

use evenkeel_client::api::scope::Namespaced;
use evenkeel_client::config::ServerUrl;
use evenkeel_client::{Api, Client, Config};
use k8s_openapi::api::core::v1::Pod;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::Failure;
use crate::relay::Relay;

/// The pods of the server.
pub(crate) type Pods = Api<Pod, Namespaced>;

/// An API server of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// It has v5 channels and the SPDY tunnel.
    Current,
    /// It has v4 channels only.
    Old,
}

/// The running Go program. It ends when this is dropped.
pub(crate) struct StreamingServer {
    current: String,
    old: String,
    _program: Child,
}

impl StreamingServer {
    pub(crate) async fn start(program: &Path) -> Result<Self, Failure> {
        let started = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut program = started.map_err(|error| format!("{}: {error}", program.display()))?;
        let stdout = program.stdout.take().ok_or("the program has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let mut addresses: HashMap<String, String> = serde_json::from_str(&line)?;
        let mut address = |name: &str| addresses.remove(name).ok_or(format!("the program has no server {name}"));
        Ok(StreamingServer { current: address("current")?, old: address("old")?, _program: program })
    }

    pub(crate) fn env(&self, server: Server) -> Env {
        let url = match server {
            Server::Current => self.current.clone(),
            Server::Old => self.old.clone(),
        };
        Env { server, url }
    }
}

/// What a scenario runs against.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    pub(crate) server: Server,
    url: String,
}

impl Env {
    /// Returns whether single channels can be closed.
    pub(crate) fn half_close(&self) -> bool {
        self.server == Server::Current
    }

    pub(crate) fn pods(&self) -> Result<Pods, Failure> {
        pods_of(&self.url)
    }

    /// Starts a relay before the server. Returns it, and the pods as seen through it.
    pub(crate) async fn relayed(&self, cut_after: u64) -> Result<(Relay, Pods), Failure> {
        let address = self.url.strip_prefix("http://").ok_or("the server has no address")?;
        let relay = Relay::start(address, cut_after).await?;
        let pods = pods_of(&format!("http://{}", relay.address()))?;
        Ok((relay, pods))
    }

    /// Waits until a command of the server has recorded an event, and returns it.
    pub(crate) async fn event(&self, name: &str) -> Result<String, Failure> {
        let output = self.pods()?.exec("web", ["wait-for", name]).output().await?;
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    /// Returns a name for an event of one scenario.
    pub(crate) fn event_name(&self, scenario: &str) -> String {
        format!("{scenario}-{:?}", self.server)
    }
}

fn pods_of(url: &str) -> Result<Pods, Failure> {
    let client = Client::new(Config::new(ServerUrl::parse(url)?))?;
    Ok(client.core_v1().pods("default"))
}

/// Fails unless a condition holds.
pub(crate) fn check(condition: bool, message: impl Into<String>) -> Result<(), Failure> {
    match condition {
        true => Ok(()),
        false => Err(message.into().into()),
    }
}

/// Fails unless two values are equal.
pub(crate) fn check_eq<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), Failure> {
    check(found == expected, format!("{found:?} instead of {expected:?}"))
}
