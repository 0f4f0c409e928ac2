//! An embedded API server whose pods run: exec and attach start processes of this machine, and ports are served.
//!
//! `tests/kubectl-sessions.sh` runs kubectl against it. Each container has a directory of its own under `--directory`, in which
//! its processes start.
//!
//! | container's | is |
//! |---|---|
//! | exec | the command |
//! | attach | a shell |
//! | port 5000 | an echo |
//! | port 5001 | a source of 100 MB, then the end |
//! | other ports | refused |
#![cfg(unix)]

mod kubelet;
mod ports;
mod process;
mod terminal;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use evenkeel_apiserver::ApiServer;

use crate::process::LocalProcesses;

/// Any error.
type Failure = Box<dyn Error + Send + Sync>;

#[derive(Debug, Parser)]
#[command(about = "An embedded API server whose pods run local processes")]
struct Arguments {
    /// The directory of all containers
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Where the kubeconfig is written
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Arguments { directory, kubeconfig_out } = Arguments::parse();
    let processes = LocalProcesses::new(directory);
    let (exec, attach) = (processes.clone(), processes);
    let server = ApiServer::builder()
        .tls()
        .exec(move |process| exec.clone().run(process))
        .attach(move |process| attach.clone().shell(process))
        .port_forward(ports::serve)
        .start()
        .await?;
    server.write_kubeconfig(kubeconfig_out)?;
    // The script reads the line to know that the server is ready. The server ends with it.
    writeln!(std::io::stdout(), "{}", server.url())?;
    kubelet::run(server.client()).await
}
