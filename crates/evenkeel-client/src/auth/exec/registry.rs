//! [`ExecCredentials`]: the plugins of this process, shared by clients with equal settings.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use zeroize::Zeroizing;

use super::plugin::PluginSource;
use super::{ExecPlugin, protocol};
use crate::auth::refresh::Refresher;
use crate::auth::registry::CredentialRegistry;
use crate::config::{Config, ConfigError, Pem};
use crate::secret::Secret;
use crate::small_file;
use crate::tls::{Digest, IdentitySlot, MAX_PEM, digest, provider_of};

/// A plugin with its current credential.
#[derive(Debug)]
pub(crate) struct ExecCredentials {
    pub(crate) refresher: Arc<Refresher>,
    /// The current client certificate, if the plugin returned one.
    pub(crate) identity: Arc<IdentitySlot>,
}

/// The plugins in use.
pub(super) type PluginRegistry = CredentialRegistry<Arc<ExecCredentials>>;

impl ExecCredentials {
    /// Returns the credentials of this plugin for the cluster of this configuration: those in use, or new ones. Runs
    /// nothing. Blocks while the CA is read from its file, if the plugin receives it.
    pub(crate) fn of(config: &Config, plugin: &ExecPlugin) -> Result<Arc<Self>, ConfigError> {
        static REGISTRY: LazyLock<PluginRegistry> = LazyLock::new(PluginRegistry::default);
        REGISTRY.credentials(config, plugin)
    }
}

impl PluginRegistry {
    pub(super) fn credentials(
        &self,
        config: &Config,
        plugin: &ExecPlugin,
    ) -> Result<Arc<ExecCredentials>, ConfigError> {
        let cluster = plugin.provide_cluster_info.then(|| cluster(config, plugin)).transpose()?;
        let key = key(config, plugin, cluster.as_ref());
        self.get_or_create(key, || {
            let identity = IdentitySlot::new();
            let provider = provider_of(&config.tls).ok();
            let source = PluginSource::new(plugin, &config.exec_policy, cluster, Arc::clone(&identity), provider);
            Ok(Arc::new(ExecCredentials { refresher: Refresher::new(source), identity }))
        })
    }
}

/// Returns the cluster that the plugin receives. Blocks while the CA is read from its file.
fn cluster(config: &Config, plugin: &ExecPlugin) -> Result<Value, ConfigError> {
    let file: Zeroizing<Vec<u8>>;
    let ca = match &config.tls.ca {
        None => None,
        Some(Pem::Data(text)) => Some(text.as_bytes()),
        Some(Pem::File(path)) => {
            file = small_file::read(path, MAX_PEM)
                .map_err(|source| ConfigError::read("the certificate authority", path, source))?;
            Some(file.as_slice())
        }
    };
    Ok(protocol::cluster(config, plugin, ca))
}

/// Identifies everything that a credential depends on, without keeping a secret.
fn key(config: &Config, plugin: &ExecPlugin, cluster: Option<&Value>) -> Digest {
    // Destructured, so that a new field is not forgotten.
    let ExecPlugin {
        api_version,
        command,
        args,
        env,
        install_hint,
        interactive_mode,
        stdin_unavailable,
        provide_cluster_info: _,
        // A part of `cluster`.
        cluster_config: _,
        timeout,
    } = plugin;
    let policy = &config.exec_policy;
    let plain =
        format!("{api_version:?} {install_hint:?} {interactive_mode:?} {stdin_unavailable:?} {timeout:?} {policy:?}");
    // The entry keeps the provider alive, so its address identifies it.
    let provider = config.tls.crypto_provider.as_ref().map(|provider| format!("{:p}", Arc::as_ptr(provider)));
    let plain = format!("{plain} {provider:?}");
    let cluster = Zeroizing::new(cluster.map(Value::to_string).unwrap_or_default());
    let counts = format!("{} {}", args.len(), env.len());
    let mut texts = vec![plain.as_bytes(), command.as_bytes(), cluster.as_bytes(), counts.as_bytes()];
    texts.extend(args.iter().map(Secret::expose).map(str::as_bytes));
    texts.extend(env.iter().flat_map(|(name, value)| [name.as_bytes(), value.expose().as_bytes()]));
    digest(texts)
}
