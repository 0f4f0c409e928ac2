//! The paths in a kubeconfig: relative to the file that names them, and perhaps not allowed out of its directory.

use std::path::{Component, Path, PathBuf};

use super::{Cluster, Kubeconfig, User};
use crate::config::ConfigError;

impl Cluster {
    fn paths(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        self.certificate_authority.iter_mut().map(|path| ("certificate-authority", path))
    }
}

impl User {
    fn paths(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        let certificate = self.client_certificate.iter_mut().map(|path| ("client-certificate", path));
        let key = self.client_key.iter_mut().map(|path| ("client-key", path));
        let token = self.token_file.iter_mut().map(|path| ("tokenFile", path));
        certificate.chain(key).chain(token)
    }

    /// The program that gets credentials, if it is named by a path and not by a name to look up.
    fn program(&mut self) -> Option<&mut String> {
        self.exec.as_mut()?.command.as_mut().filter(|command| command.contains(std::path::is_separator))
    }
}

impl Kubeconfig {
    /// Makes relative paths absolute, as seen from this directory: certificates, keys, token files, and programs that
    /// are named by a path.
    pub fn resolve_paths(&mut self, directory: &Path) {
        // Nothing can fail here: joining is all that is done.
        let _: Result<(), ConfigError> = self.each_path(|_, path| {
            *path = directory.join(&*path);
            Ok(())
        });
    }

    /// Makes paths under this directory relative to it. Absolute paths to elsewhere stay as they are.
    ///
    /// # Errors
    /// At a relative path that leaves the directory through `..`: it would mean something else in another place.
    pub fn relativize_paths(&mut self, directory: &Path) -> Result<(), ConfigError> {
        self.each_path(|field, path| {
            if path.is_relative() {
                return match stays_inside(path) {
                    true => Ok(()),
                    false => Err(ConfigError::invalid(format!("{field} leaves the directory of the kubeconfig"))),
                };
            }
            if let Ok(relative) = path.strip_prefix(directory)
                && stays_inside(relative)
            {
                *path = relative.to_owned();
            }
            Ok(())
        })
    }

    /// Resolves paths, and refuses those that lead out of the directory once links are followed.
    pub(super) fn confine(&mut self, directory: &Path) -> Result<(), ConfigError> {
        let inside = directory
            .canonicalize()
            .map_err(|error| ConfigError::read("the directory of the kubeconfig", directory, error))?;
        self.each_path(|field, path| {
            let named = inside.join(&*path);
            let real =
                named.canonicalize().map_err(|error| ConfigError::read("what the kubeconfig names", &named, error))?;
            if !real.starts_with(&inside) {
                return Err(ConfigError::Outside { field, path: real, directory: inside.clone() });
            }
            *path = real;
            Ok(())
        })
    }

    /// A file holds text, so a path that is none cannot be written.
    pub(super) fn check_paths_are_text(&self) -> Result<(), ConfigError> {
        self.clone().each_path(|field, path| match path.to_str() {
            Some(_) => Ok(()),
            None => Err(ConfigError::invalid(format!("{field} is a path that is not UTF-8"))),
        })
    }

    fn each_path(
        &mut self,
        mut visit: impl FnMut(String, &mut PathBuf) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        for (name, cluster) in &mut self.clusters {
            for (field, path) in cluster.paths() {
                visit(format!("{field} of cluster {name:?}"), path)?;
            }
        }
        for (name, user) in &mut self.users {
            for (field, path) in user.paths() {
                visit(format!("{field} of user {name:?}"), path)?;
            }
            if let Some(command) = user.program() {
                let mut path = PathBuf::from(&*command);
                visit(format!("exec.command of user {name:?}"), &mut path)?;
                // A program that was named by a path still is when that has become short.
                let text = path.to_string_lossy();
                *command = match text.contains(std::path::is_separator) {
                    true => text.into_owned(),
                    false => Path::new(".").join(&*text).to_string_lossy().into_owned(),
                };
            }
        }
        Ok(())
    }
}

/// Whether a relative path never climbs above where it starts.
fn stays_inside(path: &Path) -> bool {
    let mut depth = 0usize;
    path.components().all(|component| match component {
        Component::CurDir => true,
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            true
        }
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
    })
}
