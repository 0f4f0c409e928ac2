//! Arguments of all commands that connect to a cluster: server and credentials.

mod explain;

use std::path::{Path, PathBuf};

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use evenkeel_client::config::{ConfigError, EntryKind, Environment, Overrides};
use evenkeel_client::{Client, Config, Secret, Wire};

use crate::Failure;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Connection {
    /// Kubeconfig file [default: those that KUBECONFIG names, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// URL of the API server [default: that of the context]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// Bearer token
    #[arg(long, value_name = "TOKEN")]
    token: Option<Secret>,
    /// Accept any server certificate; allows interception
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Wire format of objects; auto is protobuf for kinds that support it, else JSON
    #[arg(long, value_name = "FORM", value_parser = wires(), default_value_t = Wire::default())]
    wire: Wire,
}

/// A cluster to connect to, and where its settings come from.
#[derive(Debug)]
pub(crate) struct Cluster {
    client: Client,
    /// Whether `--server` is set.
    is_server_given: bool,
    /// Whether `--token` is set.
    is_token_given: bool,
}

/// Parses the wire formats.
fn wires() -> impl TypedValueParser<Value = Wire> {
    PossibleValuesParser::new(Wire::NAMES).try_map(|name| name.parse::<Wire>())
}

impl Connection {
    /// Sets the wire format, unless an argument sets it.
    pub(crate) fn prefer(&mut self, wire: Wire) {
        if self.wire == Wire::Automatic {
            self.wire = wire;
        }
    }

    /// Returns a client for the cluster, with this default namespace.
    pub(crate) fn client(self, namespace: Option<String>) -> Result<Client, Failure> {
        Ok(self.cluster(namespace)?.client)
    }

    /// Returns the cluster, with this default namespace. Sends no request.
    pub(crate) fn cluster(self, namespace: Option<String>) -> Result<Cluster, Failure> {
        let (is_server_given, is_token_given) = (self.server.is_some(), self.token.is_some());
        let overrides = Overrides {
            context: self.context,
            namespace,
            server: self.server.map(Into::into),
            token: self.token,
            insecure_skip_tls_verify: self.insecure_skip_tls_verify.then_some(true),
            ..Overrides::default()
        };
        let config = match &self.kubeconfig {
            Some(file) => Config::from_kubeconfig_file(file, &overrides),
            None => Environment::from_process().infer(&overrides),
        };
        let mut config = config.map_err(|error| in_arguments(error, &overrides, self.kubeconfig.as_deref()))?;
        config.wire = self.wire;
        Ok(Cluster { client: Client::new(config)?, is_server_given, is_token_given })
    }
}

impl Cluster {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

/// Phrases the error in terms of command-line arguments.
fn in_arguments(error: ConfigError, overrides: &Overrides, kubeconfig: Option<&Path>) -> Failure {
    match (error, kubeconfig) {
        (ConfigError::Missing { kind: EntryKind::Context, name, known, .. }, _) if overrides.context.is_some() => {
            let there = match known.as_slice() {
                [] => "it has none".to_owned(),
                names => format!("it has {}", names.join(", ")),
            };
            format!("--context names {name:?}, which the kubeconfig does not have; {there}").into()
        }
        (ConfigError::NotConfigured { contexts, .. }, Some(file)) if contexts.is_empty() => {
            format!("no cluster configured: {} names none; pass --server URL", file.display()).into()
        }
        (ConfigError::NotConfigured { looked, contexts }, None) if contexts.is_empty() => {
            let looked: Vec<String> = looked
                .iter()
                .map(|file| match file.exists() {
                    true => format!("{} names none", file.display()),
                    false => format!("{} does not exist", file.display()),
                })
                .collect();
            let looked = if looked.is_empty() { "there is no home directory".to_owned() } else { looked.join(", ") };
            format!("no cluster configured: {looked}; pass --kubeconfig FILE or --server URL").into()
        }
        (ConfigError::NotConfigured { contexts, .. }, _) => format!(
            "no cluster configured: the kubeconfig has no current-context; pass --context NAME, one of {}",
            contexts.join(", ")
        )
        .into(),
        (other, _) => other.into(),
    }
}
