//! The types of a kubeconfig.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer};
use serde_json::Value;

use super::fields::{Data, Field, NamedEntry, Opaque, Rest, Seed, optional, structure};
use crate::config::Address;
use crate::secret::Secret;

structure! {
    /// A kubeconfig: named clusters, named users, and named contexts that combine them.
    ///
    /// Unknown fields are kept and written back, comments are not. `Debug` shows no secret. There is no `Serialize`,
    /// so that secrets do not reach a log by accident: [`Kubeconfig::to_yaml`] is explicit.
    Kubeconfig {
        /// The clusters.
        clusters: BTreeMap<String, Cluster> = "clusters",
        /// The contexts.
        contexts: BTreeMap<String, Context> = "contexts",
        /// The context to use when none is named.
        current_context: Option<String> = "current-context",
        /// Data of other programs.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// The users.
        users: BTreeMap<String, User> = "users",
    }
}

structure! {
    /// The address of a cluster, and how to verify its certificate.
    Cluster in "cluster" {
        /// The file with the certificates to trust.
        certificate_authority: Option<PathBuf> = "certificate-authority",
        /// The certificates to trust.
        certificate_authority_data: Option<Data> = "certificate-authority-data",
        /// Disables compression of responses.
        disable_compression: bool = "disable-compression",
        /// Data of other programs.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// Accepts any certificate.
        insecure_skip_tls_verify: bool = "insecure-skip-tls-verify",
        /// The URL of the proxy; may contain a password.
        proxy_url: Option<Secret> = "proxy-url",
        /// The URL.
        server: Option<Address> = "server",
        /// The name to expect in the server's certificate.
        tls_server_name: Option<String> = "tls-server-name",
    }
}

structure! {
    /// The credentials of a user.
    User in "user" {
        /// The impersonated user.
        impersonate: Option<String> = "as",
        /// The impersonated groups.
        impersonate_groups: Vec<String> = "as-groups",
        /// The impersonated uid.
        impersonate_uid: Option<String> = "as-uid",
        /// Further impersonated attributes.
        impersonate_extra: BTreeMap<String, Vec<String>> = "as-user-extra",
        /// An authentication provider of the kind once built into clients.
        auth_provider: Option<AuthProvider> = "auth-provider",
        /// The file with the client certificate.
        client_certificate: Option<PathBuf> = "client-certificate",
        /// The client certificate.
        client_certificate_data: Option<Data> = "client-certificate-data",
        /// The file with the key of the client certificate.
        client_key: Option<PathBuf> = "client-key",
        /// The key of the client certificate.
        client_key_data: Option<Data> = "client-key-data",
        /// An exec plugin, which provides credentials.
        exec: Option<Exec> = "exec",
        /// Data of other programs.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// The password.
        password: Option<Secret> = "password",
        /// The token.
        token: Option<Secret> = "token",
        /// The file with the token.
        token_file: Option<PathBuf> = "tokenFile",
        /// The user name for the password.
        username: Option<String> = "username",
    }
}

structure! {
    /// A cluster, a user and a namespace.
    Context in "context" {
        /// The name of the cluster.
        cluster: Option<String> = "cluster",
        /// Data of other programs.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// The default namespace.
        namespace: Option<String> = "namespace",
        /// The name of the user.
        user: Option<String> = "user",
    }
}

structure! {
    /// An exec plugin, which provides credentials.
    Exec {
        /// The version of the plugin protocol.
        api_version: Option<String> = "apiVersion",
        /// Its arguments.
        args: Vec<Secret> = "args",
        /// The command: a path, or a name to look up in `PATH`.
        command: Option<String> = "command",
        /// Variables added to its environment.
        env: Vec<ExecEnv> = "env",
        /// The hint to show when the command is not installed.
        install_hint: Option<String> = "installHint",
        /// Whether it may use stdin: `Never`, `IfAvailable` or `Always`.
        interactive_mode: Option<String> = "interactiveMode",
        /// Whether it receives the cluster's configuration.
        provide_cluster_info: bool = "provideClusterInfo",
    }
}

structure! {
    /// A variable in the environment of an [`Exec`].
    ExecEnv {
        /// The name.
        name: Option<String> = "name",
        /// The value.
        value: Option<Secret> = "value",
    }
}

structure! {
    /// An authentication provider of the kind once built into clients.
    AuthProvider {
        /// Its settings, which are often secrets.
        config: BTreeMap<String, Secret> = "config",
        /// The name of the provider.
        name: Option<String> = "name",
    }
}

impl User {
    /// Returns whether it contains credentials, not only the names of files that do.
    pub(super) fn has_credentials(&self) -> bool {
        let is_secret = |secret: &Option<Secret>| secret.as_ref().is_some_and(|secret| !secret.is_empty());
        let provides = |provider: &AuthProvider| provider.config.keys().any(|key| is_credential(key));
        is_secret(&self.password)
            || is_secret(&self.token)
            || self.client_key_data.is_some()
            || self.auth_provider.as_ref().is_some_and(provides)
    }
}

/// Returns whether a setting of an authentication provider is a credential: `id-token`, `refresh-token`, `client-secret`.
fn is_credential(setting: &str) -> bool {
    setting.contains("token") || setting.contains("secret")
}

impl AuthProvider {
    /// Returns whether this is the only provider that clients still have.
    pub(super) fn is_oidc(&self) -> bool {
        self.name.as_deref() == Some("oidc")
    }
}

optional!(Exec);
optional!(AuthProvider);

impl Field for Vec<ExecEnv> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Item(ExecEnv);

        impl<'de> Deserialize<'de> for Item {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                ExecEnv::read(deserializer).map(Item)
            }
        }

        Ok(Vec::<Item>::deserialize(deserializer)?.into_iter().map(|item| item.0).collect())
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.iter().filter_map(Field::write).collect())
    }
}
