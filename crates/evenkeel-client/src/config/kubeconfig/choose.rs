//! Turns a kubeconfig and overrides into a [`Config`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::validate::{check_cluster, check_namespace, check_user};
use super::{Cluster, Data, Exec, ExecEnv, Kubeconfig, Opaque, Overrides, User};
use crate::auth::{ExecApiVersion, ExecPlugin, InteractiveMode, OidcProvider};
use crate::config::{
    Auth, Chosen, Config, ConfigError, Connections, EntryKind, Identity, Impersonate, KubeconfigFiles, Pem, PrivateKey,
    Proxy, ProxyUrl, ServerUrl,
};
use crate::secret::Secret;

/// The selected cluster, user and namespace, as in the file.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) context_name: Option<String>,
    pub(crate) cluster_name: String,
    pub(crate) cluster: Cluster,
    pub(crate) user_name: String,
    pub(crate) user: User,
    /// The file that the user was read from, if the kubeconfig is from files.
    pub(crate) user_file: Option<PathBuf>,
    pub(crate) namespace: Option<String>,
}

impl Kubeconfig {
    /// Returns the configuration of the selected context, or of the cluster and user named by the overrides.
    ///
    /// The environment is not consulted: connection settings are the defaults.
    ///
    /// # Errors
    /// Every problem of the selected entries, at once. Entries that are not selected are not checked.
    pub fn config(&self, overrides: &Overrides) -> Result<Config, ConfigError> {
        self.select(overrides)?.into_config(overrides)
    }

    pub(crate) fn select(&self, overrides: &Overrides) -> Result<Selected, ConfigError> {
        let missing = |kind, name: &str, named_by: String| ConfigError::Missing {
            kind,
            name: name.into(),
            named_by,
            known: self.names(kind),
        };
        let (context_name, named_by) = match &overrides.context {
            Some(name) => (Some(name.as_str()), "the override"),
            None => (self.current_context.as_deref(), "current-context"),
        };
        let context = match context_name {
            Some(name) => {
                let context = self.contexts.get(name);
                Some(context.ok_or_else(|| missing(EntryKind::Context, name, named_by.into()))?)
            }
            None => None,
        };
        let from_context = format!("the context {:?}", context_name.unwrap_or_default());
        let mut selected = Selected { context_name: context_name.map(str::to_owned), ..Selected::default() };
        match overrides.cluster.as_deref().or(context.and_then(|context| context.cluster.as_deref())) {
            Some(name) => {
                let named_by = if overrides.cluster.is_some() { "the override" } else { &from_context };
                let cluster = self.clusters.get(name);
                selected.cluster = cluster.ok_or_else(|| missing(EntryKind::Cluster, name, named_by.into()))?.clone();
                selected.cluster_name = name.to_owned();
            }
            None if overrides.server.is_some() => {}
            None if context.is_some() => return Err(ConfigError::invalid(format!("{from_context} names no cluster"))),
            None => {
                return Err(ConfigError::NotConfigured {
                    looked: Vec::new(),
                    contexts: self.contexts.keys().cloned().collect(),
                });
            }
        }
        if let Some(name) = overrides.user.as_deref().or(context.and_then(|context| context.user.as_deref())) {
            let named_by = if overrides.user.is_some() { "the override" } else { &from_context };
            let user = self.users.get(name);
            selected.user = user.ok_or_else(|| missing(EntryKind::User, name, named_by.into()))?.clone();
            selected.user_name = name.to_owned();
        }
        selected.namespace = context.and_then(|context| context.namespace.clone());
        Ok(selected)
    }
}

impl Selected {
    pub(crate) fn into_config(mut self, overrides: &Overrides) -> Result<Config, ConfigError> {
        overrides.apply_to_cluster(&mut self.cluster);
        overrides.apply_to_user(&mut self.user);
        let namespace = overrides.namespace().map(str::to_owned).or(self.namespace.take());

        let mut errors = check_cluster(&self.cluster_name, &self.cluster);
        errors.extend(check_user(&self.user_name, &self.user));
        errors.extend(namespace.as_deref().and_then(|namespace| check_namespace("what was chosen", namespace)));
        errors.extend(unsupported(&self.user_name, &self.user));
        // Problems of the server were reported above.
        let Ok(server) = server_of(&self.cluster) else { return Err(several(errors)) };

        let mut config = Config::new(server);
        if let Some(namespace) = namespace {
            config.namespace = namespace;
        }
        config.tls.ca = pem(self.cluster.certificate_authority, self.cluster.certificate_authority_data.as_ref());
        config.tls.server_name = self.cluster.tls_server_name;
        config.tls.insecure_skip_verify = self.cluster.insecure_skip_tls_verify;
        config.compression = !self.cluster.disable_compression;
        config.proxy = overrides.proxy.clone().unwrap_or_default();
        if let Some(Ok(proxy)) = self.cluster.proxy_url.map(|url| ProxyUrl::parse(url.expose())) {
            config.proxy = Proxy::Url(proxy);
        }
        config.timeout = overrides.timeout.filter(|timeout| *timeout > Duration::ZERO);
        config.allow_insecure_credentials = overrides.allow_insecure_credentials;
        let plugin = match &self.user.exec {
            Some(exec) if !self.user.has_static_credentials() => {
                exec_plugin(&self.user_name, exec, &self.cluster.extensions)
            }
            _ => Ok(None),
        };
        let provider = oidc_provider(&self.user_name, &self.user, self.user_file);
        config.tls.identity = identity(&mut self.user);
        config.impersonate = impersonate(&mut self.user);
        config.auth = match plugin {
            Ok(Some(plugin)) => Auth::exec(plugin),
            Ok(None) => provider.map_or_else(|| auth(self.user), Auth::oidc),
            Err(error) => {
                errors.push(error);
                Auth::None
            }
        };
        let named = |name: String| Some(name).filter(|name| !name.is_empty());
        config.chosen =
            Chosen { context: self.context_name, cluster: named(self.cluster_name), user: named(self.user_name) };
        errors.extend(config.problems());
        ConfigError::collect(errors)?;
        Ok(config)
    }
}

/// Returns the server of a cluster. Any TLS setting makes a bare host mean `https`.
pub(crate) fn server_of(cluster: &Cluster) -> Result<ServerUrl, ConfigError> {
    let tls = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify;
    ServerUrl::guess(cluster.server.as_deref().unwrap_or_default(), tls)
}

fn several(errors: Vec<ConfigError>) -> ConfigError {
    match ConfigError::collect(errors) {
        Err(error) => error,
        Ok(()) => ConfigError::invalid("the server cannot be used"),
    }
}

/// Inline data takes precedence over the file.
fn pem(path: Option<std::path::PathBuf>, data: Option<&Data>) -> Option<Pem> {
    match data {
        Some(data) => data.as_text().map(|text| Pem::Data(text.to_owned())),
        None => path.map(Pem::File),
    }
}

fn identity(user: &mut User) -> Option<Identity> {
    let certificate = pem(user.client_certificate.take(), user.client_certificate_data.as_ref())?;
    let key = match &user.client_key_data {
        Some(data) => PrivateKey::Data(Secret::new(data.as_text()?)),
        None => PrivateKey::File(user.client_key.take()?),
    };
    Some(Identity { certificate, key })
}

fn impersonate(user: &mut User) -> Option<Impersonate> {
    Some(Impersonate {
        user: user.impersonate.take()?,
        uid: user.impersonate_uid.take().unwrap_or_default(),
        groups: std::mem::take(&mut user.impersonate_groups),
        extra: std::mem::take(&mut user.impersonate_extra),
    })
}

fn auth(user: User) -> Auth {
    match (user.token_file, user.token, user.username) {
        (Some(path), fallback, _) => Auth::TokenFile { path, fallback },
        (None, Some(token), _) => Auth::Token(token),
        (None, None, Some(username)) => {
            Auth::Basic { username, password: user.password.unwrap_or_else(|| Secret::new("")) }
        }
        (None, None, None) => Auth::None,
    }
}

/// The extension of a cluster with the settings of its exec plugin.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Returns the plugin of a user; `None` if it is incomplete, which was reported before.
fn exec_plugin(
    user: &str,
    exec: &Exec,
    extensions: &BTreeMap<String, Opaque>,
) -> Result<Option<ExecPlugin>, ConfigError> {
    let (Some(command), Some(version)) = (&exec.command, &exec.api_version) else { return Ok(None) };
    let Some(api_version) = ExecApiVersion::parse(version) else {
        return Err(ConfigError::Unsupported {
            user: user.to_owned(),
            mechanism: format!("the exec plugin {command:?} with apiVersion {version:?}"),
            state: "not supported; use client.authentication.k8s.io/v1 or v1beta1",
        });
    };
    let mut plugin = ExecPlugin::new(command);
    plugin.api_version = api_version;
    plugin.args.clone_from(&exec.args);
    let variable = |variable: &ExecEnv| {
        let value = variable.value.clone().unwrap_or_else(|| Secret::new(""));
        variable.name.clone().map(|name| (name, value))
    };
    plugin.env = exec.env.iter().filter_map(variable).collect();
    plugin.install_hint.clone_from(&exec.install_hint);
    // Version v1beta1 has a default. Unknown values were reported before.
    let mode = exec.interactive_mode.as_deref().and_then(InteractiveMode::parse);
    plugin.interactive_mode = mode.unwrap_or(InteractiveMode::IfAvailable);
    plugin.provide_cluster_info = exec.provide_cluster_info;
    plugin.cluster_config = extensions.get(EXEC_EXTENSION).cloned();
    Ok(Some(plugin))
}

/// Returns the OIDC provider of a user; `None` if it is invalid, which was reported before. As in client-go a token or a
/// password takes precedence, and a client certificate is used in addition.
fn oidc_provider(name: &str, user: &User, file: Option<PathBuf>) -> Option<OidcProvider> {
    let settings = &user.auth_provider.as_ref().filter(|provider| provider.is_oidc())?.config;
    if user.token.is_some() || user.token_file.is_some() || user.username.is_some() {
        tracing::debug!(user = name, "OIDC provider not needed; the user has other credentials");
        return None;
    }
    let provider = OidcProvider::from_settings(settings).ok()?;
    Some(match file {
        Some(file) => provider.stored_in(file, name),
        None => provider,
    })
}

/// Returns an error if the user has a provider that does not exist any more. An exec plugin beside static credentials is
/// ignored.
fn unsupported(name: &str, user: &User) -> Option<ConfigError> {
    let unsupported = |mechanism: String, state| ConfigError::Unsupported { user: name.to_owned(), mechanism, state };
    if let Some(provider) = user.auth_provider.as_ref().filter(|provider| !provider.is_oidc()) {
        let provider = provider.name.as_deref().unwrap_or_default();
        let state = match provider {
            "gcp" => "gone from Kubernetes; the exec plugin gke-gcloud-auth-plugin takes its place",
            "azure" => "gone from Kubernetes; the exec plugin kubelogin takes its place",
            "openstack" => "gone from Kubernetes; the exec plugin client-keystone-auth takes its place",
            _ => "none that Kubernetes knows; an exec plugin takes the place of such providers",
        };
        return Some(unsupported(format!("the auth-provider {provider:?}"), state));
    }
    if let Some(exec) = user.exec.as_ref().filter(|_| user.has_static_credentials()) {
        let command = exec.command.as_deref().unwrap_or_default();
        tracing::debug!(user = name, command, "exec plugin not needed; the user has other credentials");
    }
    None
}

impl User {
    /// Returns whether there is a token, a password or a certificate.
    fn has_static_credentials(&self) -> bool {
        self.token.is_some()
            || self.token_file.is_some()
            || self.username.is_some()
            || self.client_certificate.is_some()
            || self.client_certificate_data.is_some()
    }
}

impl Config {
    /// Returns the configuration of this kubeconfig file and ignores `KUBECONFIG`. Connection settings of the
    /// environment apply; see [`Connections::from_env`].
    pub fn from_kubeconfig_file(path: impl AsRef<Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let config = KubeconfigFiles::explicit(path.as_ref()).load().select(overrides)?.into_config(overrides)?;
        Ok(Config { connections: Connections::from_env(), ..config })
    }

    /// Returns the configuration of this kubeconfig text. Relative paths are resolved against the current directory.
    /// Refreshed tokens of an OIDC provider cannot be written to a text; see [`OidcProvider::with_store`].
    /// Use [`Config::from_untrusted`] for a text from an untrusted source. Connection settings of the environment
    /// apply; see [`Connections::from_env`].
    pub fn from_kubeconfig_str(text: &str, overrides: &Overrides) -> Result<Self, ConfigError> {
        Ok(Config { connections: Connections::from_env(), ..Kubeconfig::parse(text)?.config(overrides)? })
    }
}
