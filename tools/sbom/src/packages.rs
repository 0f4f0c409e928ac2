//! [`PackageGraph`]: what a package is built from.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// One package of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The licence as an SPDX expression; empty if the package has none.
    pub(crate) licence: String,
    pub(crate) description: String,
    pub(crate) repository: String,
    /// Where the package comes from; `None` for one of this workspace.
    pub(crate) source: Option<String>,
    /// The SHA-256 of its archive in the registry.
    pub(crate) checksum: Option<String>,
}

/// A package and everything that its build needs.
#[derive(Debug)]
pub(crate) struct PackageGraph {
    pub(crate) root: String,
    /// By package id.
    pub(crate) packages: BTreeMap<String, Package>,
    pub(crate) edges: BTreeMap<String, BTreeSet<String>>,
}

impl PackageGraph {
    /// Reads the graph of a package for one platform, by default this one. Development dependencies are not in it.
    pub(crate) fn read(package: &str, target: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = match target {
            Some(target) => target.to_owned(),
            None => host(&cargo)?,
        };
        let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform", &target];
        let output = Command::new(&cargo).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let root = metadata["workspace_root"].as_str().ok_or("cargo metadata names no workspace")?;
        let lock = fs::read_to_string(format!("{root}/Cargo.lock"))?;
        Self::build(package, &metadata, &checksums(&lock))
    }

    fn build(package: &str, metadata: &Value, checksums: &Checksums) -> Result<Self, Box<dyn Error>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut known = BTreeMap::new();
        for it in list(&metadata["packages"]) {
            let (name, version) = (text(&it["name"]), text(&it["version"]));
            let package = Package {
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                name,
                version,
                // The form with a slash is older than SPDX expressions.
                licence: text(&it["license"]).replace('/', " OR "),
                description: text(&it["description"]),
                repository: text(&it["repository"]),
                source: it["source"].as_str().map(str::to_owned),
            };
            known.insert(text(&it["id"]), package);
        }
        let is_root = |id: &&String| known.get(*id).is_some_and(|it| it.name == package && it.source.is_none());
        let root = known.keys().find(is_root).ok_or_else(|| format!("the workspace has no package {package}"))?.clone();
        let mut needs = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let is_built = |dependency: &&Value| list(&dependency["dep_kinds"]).iter().any(|it| it["kind"] != "dev");
            let dependencies = list(&node["deps"]);
            let edges: BTreeSet<String> = dependencies.iter().filter(is_built).map(|it| text(&it["pkg"])).collect();
            needs.insert(text(&node["id"]), edges);
        }
        let (mut packages, mut edges, mut open) = (BTreeMap::new(), BTreeMap::new(), vec![root.clone()]);
        while let Some(id) = open.pop() {
            if packages.contains_key(&id) {
                continue;
            }
            let package = known.get(&id).ok_or_else(|| format!("cargo metadata does not describe {id}"))?.clone();
            let dependencies = needs.get(&id).cloned().unwrap_or_default();
            open.extend(dependencies.iter().cloned());
            packages.insert(id.clone(), package);
            edges.insert(id, dependencies);
        }
        Ok(PackageGraph { root, packages, edges })
    }
}

fn host(cargo: &std::ffi::OsStr) -> Result<String, Box<dyn Error>> {
    let output = Command::new(cargo).args(["version", "--verbose"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("cargo does not name its platform")?;
    Ok(host.to_owned())
}

/// Checksums by name and version.
type Checksums = BTreeMap<(String, String), String>;

/// Reads the checksums of a lock file, whose entries have a fixed form.
fn checksums(lock: &str) -> Checksums {
    let mut found = Checksums::new();
    for entry in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(checksum)) = (field("name"), field("version"), field("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}
