//! Where the project gets evenkeel from.

use std::path::{Path, PathBuf};

use crate::Failure;

/// The folder of the crate in a checkout.
const CRATE: &str = "crates/evenkeel";

/// How the project depends on evenkeel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// The folder of a checkout.
    Path(PathBuf),
    /// The URL of a git repository.
    Git(String),
}

impl Dependency {
    /// Returns the checkout in this folder.
    pub(super) fn at(folder: &Path) -> Result<Self, Failure> {
        if !is_checkout(folder) {
            let missing = folder.join(CRATE).join("Cargo.toml");
            return Err(
                format!("{} is no checkout of evenkeel: there is no {}", folder.display(), missing.display()).into()
            );
        }
        let folder = folder.canonicalize().map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        Ok(Dependency::Path(folder))
    }

    /// Returns the checkout that this program is in, else the one that the current folder is in.
    pub(super) fn of_this_program() -> Result<Self, Failure> {
        let places = [std::env::current_exe(), std::env::current_dir()];
        let places = places.iter().flatten();
        match places.flat_map(|place| place.ancestors()).find(|folder| is_checkout(folder)) {
            Some(folder) => Self::at(folder),
            None => Err("evenkeel is not published yet, and neither this program nor the current folder is in a checkout of it; \
                         pass --evenkeel-path DIR or --evenkeel-git URL"
                .into()),
        }
    }

    /// Returns the keys of the dependency in a `Cargo.toml`.
    pub(super) fn to_toml(&self) -> String {
        match self {
            Dependency::Path(folder) => format!("path = {}", quoted(&folder.join(CRATE).to_string_lossy())),
            Dependency::Git(url) => format!("git = {}", quoted(url)),
        }
    }
}

fn is_checkout(folder: &Path) -> bool {
    folder.join(CRATE).join("Cargo.toml").is_file()
}

/// Writes a string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
