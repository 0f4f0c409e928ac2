//! The programs under test, and how they are built.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::cases::Case;
use crate::Failure;
use crate::server::wire::Wire;

/// A program that syncs informers and prints its figures.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    executable: PathBuf,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Whether it supports protobuf.
    has_protobuf: bool,
}

/// evenkeel, the reference of all comparisons.
pub(crate) const OURS: &str = "evenkeel";

/// All programs, with a note for the legend.
pub(crate) const PROGRAMS: &[(&str, &str)] = &[
    (OURS, "its defaults"),
    ("client-go", "its defaults: the list is streamed by the watch (WatchList)"),
    ("client-go-list", "the gate WatchListClient off: lists, then watches"),
    ("kube-rs", "its defaults: lists in pages, then watches; it supports only JSON and has no indexes"),
    ("kube-rs-streaming", "the list is streamed by the watch; it supports only JSON and has no indexes"),
];

impl Program {
    /// Whether it supports the case in this format.
    pub(crate) fn can(&self, case: &Case, wire: Wire) -> bool {
        (self.has_protobuf || wire == Wire::Json) && (!case.alone || self.name == OURS)
    }

    pub(crate) fn command(&self, server: &str, case: &Case, wire: Wire) -> Command {
        let mut command = Command::new(&self.executable);
        command.envs(self.environment.iter().copied()).args(self.arguments);
        command.args(["--server", server, "--wire", wire.name(), "--data", case.data.name()]);
        command.args(["--objects", &case.objects.to_string(), "--updates", &case.updates.to_string()]);
        command.args(["--latency", &case.latency.to_string()]);
        command.args(case.reads.then_some("--reads"));
        command.args(case.light.then_some("--drop-managed-fields"));
        command
    }
}

/// Builds the programs of these names. Those that do not build are reported and skipped.
pub(crate) fn build(names: &[String], mut report: impl FnMut(&str)) -> Result<Vec<Program>, Failure> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Vec::new();
    for (name, _) in PROGRAMS.iter().filter(|(name, _)| names.iter().any(|wanted| wanted == name)) {
        report(name);
        match build_one(bench, name) {
            Ok(program) => programs.push(program),
            Err(error) if *name == OURS => return Err(error),
            Err(error) => eprintln!("{name} is skipped: {error}"),
        }
    }
    match names.iter().find(|name| PROGRAMS.iter().all(|(known, _)| known != name)) {
        Some(unknown) => Err(format!("there is no program {unknown:?}").into()),
        None => Ok(programs),
    }
}

fn build_one(bench: &Path, name: &'static str) -> Result<Program, Failure> {
    let program = Program { name, executable: PathBuf::new(), arguments: &[], environment: &[], has_protobuf: true };
    Ok(match name {
        OURS => {
            let executable = cargo_build(bench, &["--profile", "measured", "-p", "evenkeel-cli"])?;
            Program { executable, arguments: &["bench", "informer"], ..program }
        }
        "client-go" => Program { executable: client_go(bench)?, ..program },
        "client-go-list" => {
            let environment = &[("KUBE_FEATURE_WatchListClient", "false")];
            Program { executable: client_go(bench)?, environment, ..program }
        }
        _ => {
            let executable = cargo_build(&bench.join("peers"), &["--release", "--bin", "informer"])?;
            let arguments: &[&str] = if name == "kube-rs" { &[] } else { &["--streaming-lists"] };
            Program { executable, arguments, has_protobuf: false, ..program }
        }
    })
}

fn client_go(bench: &Path) -> Result<PathBuf, Failure> {
    if Command::new("go").arg("version").stdout(Stdio::null()).status().is_err() {
        return Err("Go is not installed".into());
    }
    let executable = std::env::current_exe()?.with_file_name("client-go-informer");
    let mut build = Command::new("go");
    build.current_dir(bench.join("go")).args(["build", "-o"]).arg(&executable).arg("./informer");
    if !build.status()?.success() {
        return Err("its program does not build".into());
    }
    Ok(executable)
}

/// Builds an executable and returns its path.
pub(crate) fn cargo_build(directory: &Path, what: &[&str]) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or(OsString::from("cargo"));
    let mut build = Command::new(cargo);
    build.current_dir(directory).args(["build", "--quiet", "--message-format=json-render-diagnostics"]);
    let output = build.args(what).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} {} does not build", directory.display(), what.join(" ")).into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executables.next_back().ok_or_else(|| "cargo built no executable".into())
}
