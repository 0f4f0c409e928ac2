//! The files of a program's manifests: made, written, compared.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_client::manifest;
use serde_json::{Value, json};

use super::line_diff::line_diff;
use super::{Manifests, ManifestsError};

/// The first line of every file. Files with another one are not overwritten.
const HEADER: &str = "# Made from code by `manifests`: change the code and run it again. Edits are lost.\n";
/// The folder of definitions.
const DEFINITIONS: &str = "crds";

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestFile {
    /// The path, below the folder of the manifests, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

impl Manifests {
    /// Makes the files, sorted by their paths.
    ///
    /// # Errors
    /// An object cannot be written as YAML.
    pub fn files(&self) -> Result<Vec<ManifestFile>, ManifestsError> {
        let mut files = Vec::new();
        for (definition, object) in self.definitions.iter().zip(self.definition_objects()?) {
            let spec = &definition.spec;
            files.push(file(format!("{DEFINITIONS}/{}_{}.yaml", spec.group, spec.names.plural), &[object])?);
        }
        files.push(file("deployment.yaml".to_owned(), &self.workload_objects()?)?);
        files.push(file("namespace.yaml".to_owned(), &[self.namespace_object()])?);
        files.push(file("rbac.yaml".to_owned(), &self.rbac_objects()?)?);
        let resources: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let kustomization = json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
        });
        files.push(file("kustomization.yaml".to_owned(), &[kustomization])?);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    /// Writes the files to a folder, and removes files of earlier runs that are not made any more. Returns the paths that have
    /// changed.
    ///
    /// # Errors
    /// A file cannot be written, or exists and was not made by this function. Nothing is written in the second case.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ManifestsError> {
        let files = self.files()?;
        let mut changed = Vec::new();
        for file in &files {
            let path = folder.join(&file.path);
            match read(&path)? {
                Some(text) if text == file.text => {}
                Some(text) if !text.starts_with(HEADER) => return Err(ManifestsError::Foreign { path }),
                _ => changed.push((path, file)),
            }
        }
        let stale = stale(folder, &files)?;
        for (path, file) in &changed {
            let failed = |source| ManifestsError::File { path: path.clone(), source };
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            fs::write(path, &file.text).map_err(failed)?;
        }
        for path in &stale {
            fs::remove_file(path).map_err(|source| ManifestsError::File { path: path.clone(), source })?;
        }
        Ok(changed.into_iter().map(|(path, _)| path).chain(stale).collect())
    }

    /// Compares the files in a folder with the code. Writes nothing.
    ///
    /// # Errors
    /// [`ManifestsError::Outdated`] if they differ, with the difference; or a file cannot be read.
    pub fn check(&self, folder: &Path) -> Result<(), ManifestsError> {
        let files = self.files()?;
        let mut difference = String::new();
        for file in &files {
            let path = folder.join(&file.path);
            let text = read(&path)?.unwrap_or_default();
            if text != file.text {
                let _ = writeln!(difference, "{}", path.display());
                difference.push_str(&line_diff(&text, &file.text));
            }
        }
        for path in stale(folder, &files)? {
            let _ = writeln!(difference, "{}\n- the whole file: it is not made any more", path.display());
        }
        if difference.is_empty() { Ok(()) } else { Err(ManifestsError::Outdated { difference }) }
    }
}

fn file(path: String, objects: &[Value]) -> Result<ManifestFile, ManifestsError> {
    Ok(ManifestFile { path, text: format!("{HEADER}{}", manifest::to_yaml(objects)?) })
}

/// Reads a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, ManifestsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ManifestsError::File { path: path.to_owned(), source }),
    }
}

/// Returns the files of earlier runs that are not made any more.
fn stale(folder: &Path, files: &[ManifestFile]) -> Result<Vec<PathBuf>, ManifestsError> {
    let made: BTreeSet<PathBuf> = files.iter().map(|file| folder.join(&file.path)).collect();
    let mut stale = Vec::new();
    for folder in [folder.to_owned(), folder.join(DEFINITIONS)] {
        let failed = |source| ManifestsError::File { path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(failed(source)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
            if is_yaml && !made.contains(&path) && read(&path)?.is_some_and(|text| text.starts_with(HEADER)) {
                stale.push(path);
            }
        }
    }
    stale.sort();
    Ok(stale)
}
