//! The programs that are measured, and how they are built.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Failure;

/// A program that takes `--server`, `--objects` and `--updates`.
pub(crate) struct Program {
    pub(crate) name: String,
    executable: PathBuf,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

impl Program {
    fn new(name: &str, executable: PathBuf, arguments: &'static [&'static str]) -> Self {
        Program { name: name.to_owned(), executable, arguments, environment: &[] }
    }

    pub(crate) fn command(&self, server: &str, objects: usize, updates: usize) -> Command {
        let mut command = Command::new(&self.executable);
        command.envs(self.environment.iter().copied()).args(self.arguments).args(["--server", server]);
        command.args(["--objects", &objects.to_string(), "--updates", &updates.to_string()]);
        command
    }
}

/// Builds the programs of these names, as far as the machine has what they are built with.
pub(crate) fn build(names: &[String]) -> Result<Vec<Program>, Failure> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Vec::new();
    for name in names {
        match name.as_str() {
            "evenkeel" => programs.push(ours(bench)?),
            "client-go" => programs.extend(client_go(bench, name, &[])?),
            "client-go-list" => {
                programs.extend(client_go(bench, name, &[("KUBE_FEATURE_WatchListClient", "false")])?);
            }
            "kube-rs" | "kube-rs-streaming" => {
                let executable = cargo_build(&bench.join("peers"), &["--bin", "informer"])?;
                let streaming: &[&str] = if name == "kube-rs" { &[] } else { &["--streaming-lists"] };
                programs.push(Program::new(name, executable, streaming));
            }
            other => return Err(format!("there is no program {other:?}").into()),
        }
    }
    Ok(programs)
}

fn ours(bench: &Path) -> Result<Program, Failure> {
    Ok(Program::new("evenkeel", cargo_build(bench, &["-p", "evenkeel-cli"])?, &["bench", "informer"]))
}

fn client_go(
    bench: &Path,
    name: &str,
    environment: &'static [(&'static str, &'static str)],
) -> Result<Option<Program>, Failure> {
    if Command::new("go").arg("version").stdout(Stdio::null()).status().is_err() {
        eprintln!("there is no Go here: client-go is left out");
        return Ok(None);
    }
    let executable = std::env::current_exe()?.with_file_name("client-go-informer");
    let mut build = Command::new("go");
    build.current_dir(bench.join("go")).args(["build", "-o"]).arg(&executable).arg("./informer");
    if !build.status()?.success() {
        return Err("client-go's program does not build".into());
    }
    Ok(Some(Program { environment, ..Program::new(name, executable, &[]) }))
}

/// Builds something for release and tells where the executable is.
fn cargo_build(directory: &Path, what: &[&str]) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or(OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build.current_dir(directory).args(["build", "--release", "--quiet", "--message-format=json-render-diagnostics"]);
    let output = build.args(what).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} {} does not build", directory.display(), what.join(" ")).into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executables.next_back().ok_or_else(|| "cargo has built nothing that runs".into())
}
