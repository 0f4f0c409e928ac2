//! The files of a new project.

use super::dependency::Dependency;
use super::names::Names;

/// The files by their paths in the project. Templates end in `.template`, so that cargo sees no package in this one.
const FILES: &[(&str, &str)] = &[
    (".dockerignore", include_str!("../../templates/dockerignore.template")),
    (".github/workflows/ci.yml", include_str!("../../templates/ci.yml.template")),
    (".gitignore", include_str!("../../templates/gitignore.template")),
    ("Cargo.toml", include_str!("../../templates/Cargo.toml.template")),
    ("Dockerfile", include_str!("../../templates/Dockerfile.template")),
    ("README.md", include_str!("../../templates/README.md.template")),
    ("src/controller.rs", include_str!("../../templates/controller.rs.template")),
    ("src/kind.rs", include_str!("../../templates/kind.rs.template")),
    ("src/main.rs", include_str!("../../templates/main.rs.template")),
    ("src/tests.rs", include_str!("../../templates/tests.rs.template")),
];

/// Returns the files with their contents.
pub(super) fn render(names: &Names, dependency: &Dependency) -> Vec<(&'static str, String)> {
    let is_path = matches!(dependency, Dependency::Path(_));
    let values = [
        ("{{name}}", names.name.clone()),
        ("{{group}}", names.group.clone()),
        ("{{kind}}", names.kind.clone()),
        ("{{kind_lower}}", names.kind.to_lowercase()),
        ("{{dependency}}", dependency.to_toml()),
        ("{{docker_note}}", if is_path { DOCKER_NOTE } else { "" }.to_owned()),
        ("{{docker_hint}}", if is_path { DOCKER_HINT } else { "" }.to_owned()),
    ];
    let filled = |text: &str| values.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value));
    FILES.iter().map(|(path, text)| (*path, filled(text))).collect()
}

const DOCKER_NOTE: &str = "
# evenkeel is a folder outside of this one, which a build does not see: make it a git dependency in Cargo.toml first.";

const DOCKER_HINT: &str = " evenkeel is a folder on this machine, which neither an
image nor CI has: make it a git dependency in `Cargo.toml` first.";
