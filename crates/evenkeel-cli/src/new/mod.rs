//! `evenkeel new`: writes the project of an operator.

mod dependency;
mod names;
mod templates;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;

use self::dependency::Dependency;
use self::names::Names;
use crate::{Failure, Outcome};

const MORE: &str = "\
The project has a kind with its schema, a controller, tests on an embedded API server, probes, metrics, leader election, an
image and CI, in ten files. `cargo run -- manifests` in it writes the CRD, the roles and the Deployment. Nothing that exists
is overwritten.

evenkeel is not published yet, so the project depends on a checkout: the one that this program is in, or the current folder
is in, unless --evenkeel-path or --evenkeel-git is given.

Examples:
  evenkeel new shop-operator                                  the kind Shop of example.com
  evenkeel new shop-operator --group shop.example.com --kind Order
  evenkeel new shop-operator --evenkeel-git https://git.example.com/evenkeel";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Arguments {
    /// Name of the program and of its objects in a cluster: lower case letters, digits and dashes
    #[arg(value_name = "NAME")]
    name: String,
    /// Folder of the project, which must not exist [default: NAME]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// API group of the kind
    #[arg(long, value_name = "GROUP", default_value = "example.com")]
    group: String,
    /// Kind, such as Shop [default: from NAME, without -operator or -controller]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Depend on this checkout of evenkeel
    #[arg(long, value_name = "DIR", conflicts_with = "evenkeel_git")]
    evenkeel_path: Option<PathBuf>,
    /// Depend on this git repository of evenkeel
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    evenkeel_git: Option<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    tokio::task::spawn_blocking(move || create(arguments)).await?
}

fn create(arguments: Arguments) -> Outcome {
    let names = Names::new(arguments.name, arguments.group, arguments.kind)?;
    let dependency = match (arguments.evenkeel_path, arguments.evenkeel_git) {
        (Some(path), _) => Dependency::at(&path)?,
        (None, Some(url)) => Dependency::Git(url),
        (None, None) => Dependency::of_this_program()?,
    };
    let folder = arguments.path.unwrap_or_else(|| PathBuf::from(&names.name));
    let files = templates::render(&names, &dependency);
    write_all(&folder, &files)?;

    let mut out = io::stdout().lock();
    writeln!(
        out,
        "created {} with {} files: the kind {} of {}",
        folder.display(),
        files.len(),
        names.kind,
        names.group
    )?;
    match &dependency {
        Dependency::Path(path) => writeln!(
            out,
            "evenkeel is the checkout {}; --evenkeel-git URL instead is for CI and images, which do not have it",
            path.display()
        )?,
        Dependency::Git(url) => writeln!(out, "evenkeel is {url}")?,
    }
    writeln!(out, "\nnext:\n  cd {}", folder.display())?;
    writeln!(out, "  cargo test               # on an embedded API server, without a cluster")?;
    writeln!(out, "  cargo run -- manifests   # CRD, roles and Deployment; commit them")?;
    Ok(())
}

/// Writes the files to a new folder. Leaves nothing behind if that fails.
fn write_all(folder: &Path, files: &[(&str, String)]) -> Result<(), Failure> {
    let failed = |path: &Path, error: &io::Error| format!("cannot create {}: {error}", path.display());
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} exists and is not overwritten; choose another name, or pass --path DIR", folder.display())
        }
        _ => failed(folder, &error),
    })?;
    let written = files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| failed(&path, &error))
    });
    if written.is_err() {
        // The folder is new, so everything in it is ours.
        let _ = fs::remove_dir_all(folder);
    }
    Ok(written?)
}
