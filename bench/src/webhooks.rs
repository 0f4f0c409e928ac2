//! An admission webhook server and its load, for `bench/webhooks.sh`: parts of a comparison with controller-runtime's server.
//!
//! Three programs in one: `certificate` makes the files that both servers read, `serve` is our server, `load` is the client that
//! calls either.

mod load;
mod reviews;
mod serve;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::Failure;

/// The name of the certificate, and that which the client expects.
const SERVER_NAME: &str = "hooks.bench.svc";

/// Parts of the benchmark of webhooks.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes `ca.crt`, `tls.crt` and `tls.key` into a folder.
    Certificate {
        /// The folder.
        folder: PathBuf,
    },
    /// Serves the two hooks until it is killed. The first line of the output is the address.
    Serve {
        /// The folder of the certificate.
        folder: PathBuf,
    },
    /// Calls a hook and prints what it measured as a line of JSON.
    Load(load::Options),
}

/// Runs a part.
pub(crate) fn run(options: Options) -> Result<(), Failure> {
    match options.command {
        Command::Certificate { folder } => serve::write_certificate(&folder),
        // As many threads as the machine has cores, as in the other server.
        Command::Serve { folder } => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve::serve(&folder))
        }
        // One thread: it has to leave the machine to the server.
        Command::Load(options) => {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(load::load(&options))
        }
    }
}
