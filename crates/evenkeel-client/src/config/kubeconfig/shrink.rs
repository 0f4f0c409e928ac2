//! Minify, flatten and redact kubeconfigs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::text::MAX_BYTES;
use super::{Data, Kubeconfig, Opaque};
use crate::config::{Address, ConfigError, EntryKind};
use crate::secret::Secret;
use crate::small_file;

/// The bytes whose base64 form is `DATA+OMITTED`.
const OMITTED: [u8; 9] = [0x0c, 0x04, 0xc0, 0xf8, 0xe3, 0x08, 0x4d, 0x31, 0x03];

impl Kubeconfig {
    /// Returns only the current context, with its cluster and its user.
    ///
    /// # Errors
    /// If no context is current, or if one of the three does not exist.
    pub fn minify(&self) -> Result<Kubeconfig, ConfigError> {
        let Some(current) = &self.current_context else {
            let contexts = self.contexts.keys().cloned().collect();
            return Err(ConfigError::NotConfigured { looked: Vec::new(), contexts });
        };
        let missing = |kind, name: &String, named_by: String| ConfigError::Missing {
            kind,
            name: name.clone(),
            named_by,
            known: self.names(kind),
        };
        let context = self.contexts.get(current);
        let context = context.ok_or_else(|| missing(EntryKind::Context, current, "current-context".into()))?;
        let mut small = Kubeconfig { clusters: Default::default(), users: Default::default(), ..self.clone() };
        small.contexts.retain(|name, _| name == current);
        let label = || format!("the context {current:?}");
        if let Some(name) = &context.cluster {
            let cluster = self.clusters.get(name).ok_or_else(|| missing(EntryKind::Cluster, name, label()))?;
            small.clusters.insert(name.clone(), cluster.clone());
        }
        if let Some(name) = &context.user {
            let user = self.users.get(name).ok_or_else(|| missing(EntryKind::User, name, label()))?;
            small.users.insert(name.clone(), user.clone());
        }
        Ok(small)
    }

    /// Inlines certificate and key files. Token files remain files, because tokens are rotated.
    ///
    /// # Errors
    /// If a file cannot be read, or is given together with the inline data it would replace. Nothing is changed then.
    pub fn flatten(&mut self) -> Result<(), ConfigError> {
        let mut flat = self.clone();
        for (name, cluster) in &mut flat.clusters {
            let label = format!("the cluster {name:?}");
            let authority = &mut cluster.certificate_authority;
            inline(&label, "certificate-authority", authority, &mut cluster.certificate_authority_data)?;
        }
        for (name, user) in &mut flat.users {
            let label = format!("the user {name:?}");
            let certificate = &mut user.client_certificate;
            inline(&label, "client-certificate", certificate, &mut user.client_certificate_data)?;
            inline(&label, "client-key", &mut user.client_key, &mut user.client_key_data)?;
        }
        *self = flat;
        Ok(())
    }

    /// Replaces data with `DATA+OMITTED`, and tokens and passwords, also those in URLs, with `REDACTED`, so that the
    /// kubeconfig can be shown. Values of exec plugins, auth-providers, extensions and unknown fields are replaced
    /// too, because they may be secrets.
    pub fn shorten(&mut self) {
        let omit = |data: &mut Option<Data>| *data = data.take().map(|_| Data::new(OMITTED));
        let redact = |secret: &mut Option<Secret>| *secret = secret.take().map(|_| redacted());
        let hide = |opaque: &mut BTreeMap<String, Opaque>| {
            opaque.values_mut().for_each(|value| *value = Opaque("REDACTED".into()));
        };
        hide(&mut self.extensions);
        hide(&mut self.rest);
        for context in self.contexts.values_mut() {
            [&mut context.extensions, &mut context.rest, &mut context.beside].into_iter().for_each(hide);
        }
        for cluster in self.clusters.values_mut() {
            [&mut cluster.extensions, &mut cluster.rest, &mut cluster.beside].into_iter().for_each(hide);
            omit(&mut cluster.certificate_authority_data);
            if cluster.server.as_ref().is_some_and(Address::has_more_than_it_shows) {
                cluster.server = Some("REDACTED".into());
            }
            if cluster.proxy_url.as_ref().is_some_and(|url| url.expose().contains('@')) {
                redact(&mut cluster.proxy_url);
            }
        }
        for user in self.users.values_mut() {
            [&mut user.extensions, &mut user.rest, &mut user.beside].into_iter().for_each(hide);
            omit(&mut user.client_certificate_data);
            omit(&mut user.client_key_data);
            redact(&mut user.token);
            redact(&mut user.password);
            if let Some(exec) = &mut user.exec {
                exec.args.fill(redacted());
                hide(&mut exec.rest);
                for variable in &mut exec.env {
                    redact(&mut variable.value);
                    hide(&mut variable.rest);
                }
            }
            if let Some(provider) = &mut user.auth_provider {
                hide(&mut provider.rest);
                provider.config.values_mut().for_each(|value| *value = redacted());
            }
        }
    }
}

fn redacted() -> Secret {
    Secret::new("REDACTED")
}

fn inline(label: &str, field: &str, path: &mut Option<PathBuf>, data: &mut Option<Data>) -> Result<(), ConfigError> {
    let Some(file) = path.take() else { return Ok(()) };
    if data.is_some() {
        return Err(ConfigError::invalid(format!("{label} has both {field} and {field}-data")));
    }
    *data = Some(read(&file)?);
    Ok(())
}

fn read(path: &Path) -> Result<Data, ConfigError> {
    let read = small_file::read(path, MAX_BYTES as u64);
    let mut bytes = read.map_err(|error| ConfigError::read("a certificate or key", path, error))?;
    Ok(Data::new(std::mem::take(&mut *bytes)))
}
