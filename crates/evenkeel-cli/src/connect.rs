//! Which cluster, and as whom: the arguments that all commands have that talk to one.

use std::path::PathBuf;

use clap::ValueEnum;
use evenkeel_client::config::{Environment, Overrides};
use evenkeel_client::{Client, Config, Secret};

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
}

/// In which form objects are sent.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Wire {
    Json,
    Protobuf,
}

impl Connection {
    /// A client of the cluster, in this namespace if none other is meant.
    pub(crate) fn client(self, namespace: Option<String>, wire: Wire) -> Result<Client, Failure> {
        if let Wire::Protobuf = wire {
            return Err("--wire protobuf is not built yet; objects are sent as JSON".into());
        }
        let overrides = Overrides {
            context: self.context,
            namespace,
            server: self.server.map(Into::into),
            token: self.token,
            insecure_skip_tls_verify: self.insecure_skip_tls_verify.then_some(true),
            ..Overrides::default()
        };
        let config = match self.kubeconfig {
            Some(file) => Config::from_kubeconfig_file(file, &overrides)?,
            None => Environment::from_process().infer(&overrides)?,
        };
        Ok(Client::new(config)?)
    }
}
