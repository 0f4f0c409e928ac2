//! The subcommands that every program with manifests has.

use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use evenkeel_client::discovery::RestMapper;
use evenkeel_client::manifest::api_of;
use evenkeel_client::wait::wait_for_crd;
use evenkeel_client::{Client, Unstructured};
use serde_json::Value;

use super::{Manifests, ManifestsError};
use crate::error_chain::ErrorChain;
use crate::manager::BoxError;

/// The default folder of the manifests.
const FOLDER: &str = "manifests";

/// What the arguments of a program ask for.
#[derive(Debug, PartialEq, Eq)]
enum Subcommand {
    Run,
    Write(PathBuf),
    Check(PathBuf),
    Install,
    Deploy,
    Help,
}

impl Manifests {
    /// Runs the program with the arguments of the process: its subcommands are the same for every program.
    ///
    /// | subcommand | |
    /// |---|---|
    /// | `run` | calls `run` with a client for the cluster of the kubeconfig, or the one that the program is in |
    /// | `manifests [--check] [--dir DIR]` | writes the manifests to `manifests`, or compares them and exits with 1 if they differ |
    /// | `install` | applies the CustomResourceDefinitions, and waits until they can be used |
    /// | `deploy` | applies everything |
    ///
    /// Errors are printed; the exit code is 0, 1 after an error, or 2 after wrong arguments.
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    /// use evenkeel_client::Client;
    /// use evenkeel_runtime::Manager;
    /// use evenkeel_runtime::manager::{BoxError, shutdown_signal};
    /// use evenkeel_runtime::manifests::Manifests;
    ///
    /// async fn run(client: Client) -> Result<(), BoxError> {
    ///     Ok(Manager::new(&client).run(shutdown_signal()?).await?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// async fn main() -> ExitCode {
    ///     Manifests::new("mirror").command(run).await
    /// }
    /// ```
    pub async fn command<F, Fut>(&self, run: F) -> ExitCode
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<(), BoxError>>,
    {
        let subcommand = match parse(std::env::args().skip(1)) {
            Ok(subcommand) => subcommand,
            Err(problem) => {
                print_error(&format!("{}: {problem}\n\n{}", self.name, self.usage()));
                return ExitCode::from(2);
            }
        };
        match self.perform(subcommand, run).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print_error(&format!("{}: {}", self.name, ErrorChain(error.as_ref())));
                ExitCode::FAILURE
            }
        }
    }

    async fn perform<F, Fut>(&self, subcommand: Subcommand, run: F) -> Result<(), BoxError>
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<(), BoxError>>,
    {
        match subcommand {
            Subcommand::Run => run(Client::infer().await?).await?,
            Subcommand::Help => writeln!(io::stdout(), "{}", self.usage())?,
            Subcommand::Check(folder) => self.check(&folder)?,
            Subcommand::Write(folder) => {
                let changed = self.write(&folder)?;
                let mut out = io::stdout().lock();
                for path in &changed {
                    writeln!(out, "{}", path.display())?;
                }
                if changed.is_empty() {
                    writeln!(out, "{} is up to date", folder.display())?;
                }
            }
            Subcommand::Install | Subcommand::Deploy => {
                let client = Client::infer().await?;
                let applied = match subcommand {
                    Subcommand::Install => self.install(&client).await?,
                    _ => self.deploy(&client).await?,
                };
                let mut out = io::stdout().lock();
                for object in applied {
                    writeln!(out, "{object} applied")?;
                }
            }
        }
        Ok(())
    }

    /// Applies the CustomResourceDefinitions, and waits until they can be used. Returns what was applied, as `Kind "name"`.
    ///
    /// # Errors
    /// A request failed, and retrying cannot help.
    pub async fn install(&self, client: &Client) -> Result<Vec<String>, ManifestsError> {
        let applied = self.apply(client, self.definition_objects()?).await?;
        for definition in &self.definitions {
            wait_for_crd(client, definition.metadata.name.as_deref().unwrap_or_default()).await?;
        }
        Ok(applied)
    }

    /// Applies all objects, definitions first. Returns what was applied, as `Kind "name"`. Fields of others are taken over;
    /// fields that are not in the manifests stay.
    ///
    /// # Errors
    /// A request failed, and retrying cannot help.
    pub async fn deploy(&self, client: &Client) -> Result<Vec<String>, ManifestsError> {
        let mut applied = self.install(client).await?;
        let mut objects = vec![self.namespace_object()];
        objects.extend(self.rbac_objects()?);
        objects.extend(self.workload_objects()?);
        applied.extend(self.apply(client, objects).await?);
        Ok(applied)
    }

    async fn apply(&self, client: &Client, objects: Vec<Value>) -> Result<Vec<String>, ManifestsError> {
        let mapper = RestMapper::new(client.discovery().cached());
        let mut applied = Vec::new();
        for object in objects {
            let object = Unstructured(object);
            let name = object.get("metadata.name").and_then(Value::as_str).unwrap_or_default();
            let text = format!("{} {name:?}", object.kind().unwrap_or_default());
            let api = api_of(client, &mapper, &object).await?;
            let outcome = api.apply(name, &self.name, &object).force().await;
            outcome.map_err(|source| ManifestsError::Request {
                action: format!("apply {text}"),
                source: Box::new(source),
            })?;
            applied.push(text);
        }
        Ok(applied)
    }

    fn usage(&self) -> String {
        format!(
            "Usage: {} SUBCOMMAND\n\n  \
             run                              run with the cluster of the kubeconfig, or the one that it is in\n  \
             manifests [--check] [--dir DIR]  write the manifests to {FOLDER}, or exit with 1 if they differ from the code\n  \
             install                          apply the CustomResourceDefinitions\n  \
             deploy                           apply everything",
            self.name
        )
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Subcommand, String> {
    let name = arguments.next().ok_or("a subcommand is missing")?;
    let mut subcommand = match name.as_str() {
        "run" => Subcommand::Run,
        "manifests" => Subcommand::Write(PathBuf::from(FOLDER)),
        "install" => Subcommand::Install,
        "deploy" => Subcommand::Deploy,
        "help" | "--help" | "-h" => Subcommand::Help,
        other => return Err(format!("there is no subcommand {other:?}")),
    };
    while let Some(argument) = arguments.next() {
        subcommand = match (argument.as_str(), subcommand) {
            ("--check", Subcommand::Write(folder) | Subcommand::Check(folder)) => Subcommand::Check(folder),
            ("--dir", Subcommand::Write(_)) => Subcommand::Write(folder(&mut arguments)?),
            ("--dir", Subcommand::Check(_)) => Subcommand::Check(folder(&mut arguments)?),
            (other, _) => return Err(format!("{name} has no argument {other:?}")),
        };
    }
    Ok(subcommand)
}

fn folder(arguments: &mut impl Iterator<Item = String>) -> Result<PathBuf, String> {
    Ok(arguments.next().ok_or("--dir needs a folder")?.into())
}

fn print_error(text: &str) {
    // An error of the standard error cannot be reported.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests;
