//! Which cluster, and as whom: the arguments that all commands have that talk to one.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use evenkeel_client::config::{Environment, Overrides};
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
    #[arg(long, value_name = "URL")]
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

/// The forms that objects can have on their way, as arguments.
fn wires() -> impl TypedValueParser<Value = Wire> {
    PossibleValuesParser::new(Wire::NAMES).try_map(|name| name.parse::<Wire>())
}

impl Connection {
    /// A client of the cluster, in this namespace if none other is meant.
    pub(crate) fn client(self, namespace: Option<String>) -> Result<Client, Failure> {
        let overrides = Overrides {
            context: self.context,
            namespace,
            server: self.server.map(Into::into),
            token: self.token,
            insecure_skip_tls_verify: self.insecure_skip_tls_verify.then_some(true),
            ..Overrides::default()
        };
        let mut config = match self.kubeconfig {
            Some(file) => Config::from_kubeconfig_file(file, &overrides)?,
            None => Environment::from_process().infer(&overrides)?,
        };
        config.wire = self.wire;
        Ok(Client::new(config)?)
    }
}
