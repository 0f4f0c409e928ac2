//! Writes the software bill of materials (SBOM) of a package in CycloneDX 1.5, or checks the licences of what it contains.
//!
//! ```text
//! cargo run -p evenkeel-sbom -- [--target TRIPLE] [PACKAGE] > evenkeel.cdx.json
//! cargo run -p evenkeel-sbom -- --check-licences deny.toml
//! ```
//!
//! The bill lists what the program is built from, as `Cargo.lock` and `cargo metadata` name it: the package and all its
//! normal and build dependencies with their checksums, licences and edges. The same lock file gives the same bytes; a
//! timestamp is written only if `SOURCE_DATE_EPOCH` is set.
#![forbid(unsafe_code)]

mod cyclonedx;
mod licences;
mod packages;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::{env, fs, io};

use packages::PackageGraph;

/// The package that is released as a program.
const DEFAULT_PACKAGE: &str = "evenkeel-cli";
const USAGE: &str = "usage: evenkeel-sbom [--target TRIPLE] [--check-licences DENY_TOML] [PACKAGE]";

fn main() -> ExitCode {
    match run(env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evenkeel-sbom: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let (mut target, mut policy, mut package) = (None, None, DEFAULT_PACKAGE.to_owned());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--target" => target = Some(arguments.next().ok_or(USAGE)?),
            "--check-licences" => policy = Some(arguments.next().ok_or(USAGE)?),
            other if other.starts_with('-') => return Err(USAGE.into()),
            _ => package = argument,
        }
    }
    let graph = PackageGraph::read(&package, target.as_deref())?;
    let mut out = io::stdout().lock();
    if let Some(policy) = policy {
        let checked = licences::check(&graph, &fs::read_to_string(&policy)?)?;
        writeln!(out, "licences of {checked} packages are allowed by {policy}")?;
        return Ok(());
    }
    let epoch = env::var("SOURCE_DATE_EPOCH").ok();
    let bill = cyclonedx::bill(&graph, epoch.as_deref())?;
    serde_json::to_writer_pretty(&mut out, &bill)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests;
