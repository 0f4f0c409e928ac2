//! What is in a kubeconfig.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer};
use serde_json::Value;

use super::fields::{Data, Entry, Field, Opaque, Rest, Seed, optional, structure};
use crate::config::Address;
use crate::secret::Secret;

structure! {
    /// A kubeconfig: clusters, users, and contexts that join them, each under a name.
    ///
    /// Fields that we do not know are kept and written back, comments are not. `Debug` shows no secret, and there is no
    /// `Serialize`, so that one does not end up in a log by accident: [`Kubeconfig::to_yaml`] says what it does.
    Kubeconfig {
        /// The clusters.
        clusters: BTreeMap<String, Cluster> = "clusters",
        /// The contexts.
        contexts: BTreeMap<String, Context> = "contexts",
        /// The context that is meant when none is named.
        current_context: Option<String> = "current-context",
        /// What other programs keep here.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// The users.
        users: BTreeMap<String, User> = "users",
    }
}

structure! {
    /// Where a cluster is, and how to know that it is the right one.
    Cluster in "cluster" {
        /// The file with the certificates to trust.
        certificate_authority: Option<PathBuf> = "certificate-authority",
        /// The certificates to trust.
        certificate_authority_data: Option<Data> = "certificate-authority-data",
        /// Ask for answers that are not compressed.
        disable_compression: bool = "disable-compression",
        /// What other programs keep here.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// Accept any certificate.
        insecure_skip_tls_verify: bool = "insecure-skip-tls-verify",
        /// The way to the cluster; may hold a password.
        proxy_url: Option<Secret> = "proxy-url",
        /// The URL.
        server: Option<Address> = "server",
        /// The name to expect in the server's certificate.
        tls_server_name: Option<String> = "tls-server-name",
    }
}

structure! {
    /// Who someone is, and how that is shown.
    User in "user" {
        /// Whom to act as.
        impersonate: Option<String> = "as",
        /// The groups to act with.
        impersonate_groups: Vec<String> = "as-groups",
        /// The uid to act with.
        impersonate_uid: Option<String> = "as-uid",
        /// Anything else to act with.
        impersonate_extra: BTreeMap<String, Vec<String>> = "as-user-extra",
        /// A way to get credentials that was once built into clients.
        auth_provider: Option<AuthProvider> = "auth-provider",
        /// The file with the client certificate.
        client_certificate: Option<PathBuf> = "client-certificate",
        /// The client certificate.
        client_certificate_data: Option<Data> = "client-certificate-data",
        /// The file with its key.
        client_key: Option<PathBuf> = "client-key",
        /// Its key.
        client_key_data: Option<Data> = "client-key-data",
        /// A program that gets credentials.
        exec: Option<Exec> = "exec",
        /// What other programs keep here.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// The password.
        password: Option<Secret> = "password",
        /// The token.
        token: Option<Secret> = "token",
        /// The file with the token.
        token_file: Option<PathBuf> = "tokenFile",
        /// The name for the password.
        username: Option<String> = "username",
    }
}

structure! {
    /// A cluster, a user and a namespace.
    Context in "context" {
        /// The name of the cluster.
        cluster: Option<String> = "cluster",
        /// What other programs keep here.
        extensions: BTreeMap<String, Opaque> = "extensions",
        /// The namespace for those who name none.
        namespace: Option<String> = "namespace",
        /// The name of the user.
        user: Option<String> = "user",
    }
}

structure! {
    /// A program that gets credentials.
    Exec {
        /// The version of the language it speaks.
        api_version: Option<String> = "apiVersion",
        /// Its arguments.
        args: Vec<Secret> = "args",
        /// Where it is: a path, or a name to look up.
        command: Option<String> = "command",
        /// What to add to its environment.
        env: Vec<ExecEnv> = "env",
        /// What to tell someone who does not have it.
        install_hint: Option<String> = "installHint",
        /// Whether it may talk to the user: `Never`, `IfAvailable` or `Always`.
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
    /// A way to get credentials that was once built into clients.
    AuthProvider {
        /// Its settings, which often are secrets.
        config: BTreeMap<String, Secret> = "config",
        /// Which one.
        name: Option<String> = "name",
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
