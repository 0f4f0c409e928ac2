//! Paths in a kubeconfig: relative to the file that names them, and optionally confined to its directory.

use std::path::{Component, Path, PathBuf};

use super::{Cluster, Kubeconfig, User};
use crate::auth::OIDC_CERTIFICATE_AUTHORITY;
use crate::config::ConfigError;
use crate::secret::Secret;

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

    /// Returns the exec plugin's command if it is a path rather than a name to look up.
    fn program(&mut self) -> Option<&mut String> {
        self.exec.as_mut()?.command.as_mut().filter(|command| command.contains(std::path::is_separator))
    }

    /// Returns the path of the CA of an OIDC issuer.
    fn issuer_ca(&mut self) -> Option<&mut Secret> {
        let provider = self.auth_provider.as_mut().filter(|provider| provider.is_oidc())?;
        provider.config.get_mut(OIDC_CERTIFICATE_AUTHORITY).filter(|path| !path.is_empty())
    }
}

impl Kubeconfig {
    /// Resolves relative paths against this directory: certificates, keys, token files, the CA of an OIDC issuer, and
    /// commands given as a path.
    pub fn resolve_paths(&mut self, directory: &Path) {
        // Joining paths cannot fail.
        let _: Result<(), ConfigError> = self.each_path(|_, path| {
            *path = directory.join(&*path);
            Ok(())
        });
    }

    /// Makes paths below this directory relative to it. Other absolute paths are unchanged.
    ///
    /// # Errors
    /// A relative path that leaves the directory through `..`: its meaning depends on the directory.
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

    /// Resolves paths and rejects those that leave the directory once links are resolved.
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

    /// A kubeconfig is text, so a path that is not valid UTF-8 cannot be written.
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
            if let Some(text) = user.issuer_ca() {
                let mut path = PathBuf::from(text.expose());
                visit(format!("{OIDC_CERTIFICATE_AUTHORITY} of user {name:?}"), &mut path)?;
                *text = Secret::new(path.to_string_lossy());
            }
            if let Some(command) = user.program() {
                let mut path = PathBuf::from(&*command);
                visit(format!("exec.command of user {name:?}"), &mut path)?;
                // A command given as a path stays a path after it is shortened.
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

/// Returns whether a relative path never climbs above its start.
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
