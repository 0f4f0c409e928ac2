//! Validation of a kubeconfig. Reports all problems at once.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::choose::server_of;
use super::{Cluster, Data, Exec, Kubeconfig, User};
use crate::auth::OidcProvider;
use crate::config::{ConfigError, EntryKind, Pem, ProxyUrl};

impl Kubeconfig {
    /// Checks all entries, selected or not: dangling references, fields that exclude or require each other, invalid
    /// URLs, unreadable files.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut errors = Vec::new();
        if let Some(name) = &self.current_context {
            errors.extend(self.missing(EntryKind::Context, Some(name), "current-context"));
        }
        for (name, context) in &self.contexts {
            let label = format!("the context {name:?}");
            if context.cluster.is_none() {
                errors.push(ConfigError::invalid(format!("{label} names no cluster")));
            }
            errors.extend(self.missing(EntryKind::Cluster, context.cluster.as_ref(), &label));
            errors.extend(self.missing(EntryKind::User, context.user.as_ref(), &label));
            errors.extend(context.namespace.as_deref().and_then(|namespace| check_namespace(&label, namespace)));
        }
        errors.extend(self.clusters.iter().flat_map(|(name, cluster)| check_cluster(name, cluster)));
        errors.extend(self.users.iter().flat_map(|(name, user)| check_user(name, user)));
        ConfigError::collect(errors)
    }

    fn missing(&self, kind: EntryKind, name: Option<&String>, named_by: &str) -> Option<ConfigError> {
        let name = name?;
        let there = match kind {
            EntryKind::Cluster => self.clusters.contains_key(name),
            EntryKind::User => self.users.contains_key(name),
            EntryKind::Context => self.contexts.contains_key(name),
            EntryKind::Extension => self.extensions.contains_key(name),
        };
        let known = || self.names(kind);
        (!there).then(|| ConfigError::Missing { kind, name: name.clone(), named_by: named_by.into(), known: known() })
    }

    /// Returns the names of all entries of this kind.
    pub(super) fn names(&self, kind: EntryKind) -> Vec<String> {
        match kind {
            EntryKind::Cluster => self.clusters.keys().cloned().collect(),
            EntryKind::User => self.users.keys().cloned().collect(),
            EntryKind::Context => self.contexts.keys().cloned().collect(),
            EntryKind::Extension => self.extensions.keys().cloned().collect(),
        }
    }
}

pub(super) fn check_namespace(label: &str, namespace: &str) -> Option<ConfigError> {
    let letters = namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let ends = !namespace.starts_with('-') && !namespace.ends_with('-');
    let legal = letters && ends && (1..=63).contains(&namespace.len());
    (!legal).then(|| ConfigError::invalid(format!("{label} has the namespace {namespace:?}, which is no DNS label")))
}

pub(super) fn check_cluster(name: &str, cluster: &Cluster) -> Vec<ConfigError> {
    let mut check = Check { label: format!("the cluster {name:?}"), errors: Vec::new() };
    if cluster.server.is_none() {
        check.refuse("has no server");
    } else if let Err(error) = server_of(cluster) {
        check.errors.push(error);
    }
    if let Some(Err(error)) = cluster.proxy_url.as_ref().map(|url| ProxyUrl::parse(url.expose())) {
        check.errors.push(error);
    }
    check.file_or_data(
        "certificate-authority",
        "the certificates to trust",
        &cluster.certificate_authority,
        &cluster.certificate_authority_data,
    );
    check.errors
}

pub(super) fn check_user(name: &str, user: &User) -> Vec<ConfigError> {
    let mut check = Check { label: format!("the user {name:?}"), errors: Vec::new() };
    let certificate = &user.client_certificate;
    let key = &user.client_key;
    check.file_or_data("client-certificate", "the client certificate", certificate, &user.client_certificate_data);
    check.file_or_data("client-key", "the client key", key, &user.client_key_data);
    let has_certificate = certificate.is_some() || user.client_certificate_data.is_some();
    let has_key = key.is_some() || user.client_key_data.is_some();
    if has_certificate && !has_key {
        check.refuse("has client-certificate but no client-key");
    }
    if has_key && !has_certificate {
        check.refuse("has client-key but no client-certificate");
    }
    let has_token = user.token.is_some() || user.token_file.is_some();
    if has_token && (user.username.is_some() || user.password.is_some()) {
        check.refuse("has both a token and a username or password");
    }
    if user.password.is_some() && user.username.is_none() {
        check.refuse("has a password but no username");
    }
    if let (Some(path), None) = (&user.token_file, &user.token) {
        check.readable("the token", path);
    }
    let acts_with =
        user.impersonate_uid.is_some() || !user.impersonate_groups.is_empty() || !user.impersonate_extra.is_empty();
    if user.impersonate.is_none() && acts_with {
        check.refuse("has as-uid, as-groups or as-user-extra but no as");
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            check.refuse("has both exec and auth-provider");
        }
        check.exec(exec);
    }
    if let Some(provider) = user.auth_provider.as_ref().filter(|provider| provider.is_oidc()) {
        match OidcProvider::from_settings(&provider.config) {
            Ok(OidcProvider { ca: Some(Pem::File(path)), .. }) => {
                check.readable("the certificates of the issuer", &path)
            }
            Ok(_) => {}
            Err(problems) => problems.into_iter().for_each(|problem| check.refuse(problem)),
        }
    }
    check.errors
}

/// The problems of one entry.
struct Check {
    label: String,
    errors: Vec<ConfigError>,
}

impl Check {
    fn refuse(&mut self, problem: &str) {
        self.errors.push(ConfigError::invalid(format!("{} {problem}", self.label)));
    }

    fn file_or_data(&mut self, field: &str, what: &'static str, path: &Option<PathBuf>, data: &Option<Data>) {
        match (path, data) {
            (Some(_), Some(_)) => self.refuse(&format!("has both {field} and {field}-data")),
            (Some(path), None) => self.readable(what, path),
            (None, Some(data)) if data.as_text().is_none() => self.refuse(&format!("has {field}-data that is not PEM")),
            (None, _) => {}
        }
    }

    fn readable(&mut self, what: &'static str, path: &Path) {
        // The metadata is read before opening: opening a pipe may block forever.
        let opened = std::fs::metadata(path).and_then(|metadata| match metadata.is_file() {
            true => File::open(path).map(drop),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file")),
        });
        if let Err(error) = opened {
            self.errors.push(ConfigError::read(what, path, error));
        }
    }

    fn exec(&mut self, exec: &Exec) {
        if exec.command.is_none() {
            self.refuse("has exec without command");
        }
        if exec.env.iter().any(|variable| variable.name.is_none()) {
            self.refuse("has a variable without a name in exec.env");
        }
        match exec.api_version.as_deref() {
            None => self.refuse("has exec without apiVersion"),
            // Older versions have a default.
            Some("client.authentication.k8s.io/v1") if exec.interactive_mode.is_none() => {
                self.refuse("has exec without interactiveMode");
            }
            Some(_) => {}
        }
        if !matches!(exec.interactive_mode.as_deref(), None | Some("Never" | "IfAvailable" | "Always")) {
            self.refuse("has an exec.interactiveMode that is none of Never, IfAvailable, Always");
        }
    }
}
