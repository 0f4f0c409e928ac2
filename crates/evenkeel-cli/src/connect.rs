//! Which cluster, and as whom: the arguments that all commands have that talk to one.

mod explain;

use std::path::{Path, PathBuf};

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use evenkeel_client::config::{ConfigError, EntryKind, Environment, Overrides};
use evenkeel_client::{Client, Config, Secret, Wire};

use crate::Failure;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Connection {
    /// The kubeconfig, instead of those that KUBECONFIG names, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, instead of the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The URL of the API server, instead of the context's
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// The bearer token to show the server
    #[arg(long, value_name = "TOKEN")]
    token: Option<Secret>,
    /// Accept any certificate, and with it whoever listens in between
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// In which form objects are sent; auto is protobuf for kinds that have such a form, and JSON for all others
    #[arg(long, value_name = "FORM", value_parser = wires(), default_value_t = Wire::default())]
    wire: Wire,
}

/// A cluster that can be talked to, and how it came to be this one.
#[derive(Debug)]
pub(crate) struct Cluster {
    client: Client,
    /// Whether an argument says where the server is.
    is_server_given: bool,
    /// Whether an argument says who we are.
    is_token_given: bool,
}

/// The forms that objects can have on their way, as arguments.
fn wires() -> impl TypedValueParser<Value = Wire> {
    PossibleValuesParser::new(Wire::NAMES).try_map(|name| name.parse::<Wire>())
}

impl Connection {
    /// Asks for this form of objects, unless somebody has asked for another.
    pub(crate) fn prefer(&mut self, wire: Wire) {
        if self.wire == Wire::Automatic {
            self.wire = wire;
        }
    }

    /// A client of the cluster, in this namespace if none other is meant.
    pub(crate) fn client(self, namespace: Option<String>) -> Result<Client, Failure> {
        Ok(self.cluster(namespace)?.client)
    }

    /// The cluster, with this namespace if none other is meant. Nothing is sent yet.
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

/// The error in the words of the command line.
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
            format!("no cluster to talk to: {} names none; --server URL says which", file.display()).into()
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
            format!("no cluster to talk to: {looked}; --kubeconfig FILE or --server URL says which").into()
        }
        (ConfigError::NotConfigured { contexts, .. }, _) => format!(
            "no cluster to talk to: the kubeconfig has no current-context; --context NAME chooses one of {}",
            contexts.join(", ")
        )
        .into(),
        (other, _) => other.into(),
    }
}
