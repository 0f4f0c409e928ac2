//! [`Networks`]: shares connections between clients with equal settings.
//!
//! A program may create a client per controller, per impersonated user, or per request it serves. Tokens,
//! impersonation and user agent travel in headers; connections are interchangeable as long as they lead to the same
//! server by the same route with the same TLS. So all of these clients share one [`Network`].
//!
//! Sharing changes nothing that a client could rely on. A pool keeps the connections of each runtime apart, so a
//! client that ends with its runtime closes no connection of another's. Certificates that change on disk have changed
//! for all clients that name the same files, so retiring the connections made with the old ones is right for each of
//! them. A client with another certificate or another authority has its own connections.
//!
//! Clients own the network, the registry does not: when the last client is dropped, idle connections are closed. A
//! client whose files are already in use does not read them again: it shares what the others have loaded, which is
//! refreshed on schedule.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use ::metrics::{counter, gauge};
use http::uri::{Authority, Scheme};

use super::network::Network;
use super::proxy::{ProxyEnvironment, choose};
use crate::config::{Config, ConfigError, Connections, Identity, Pem, PrivateKey, ProxyScheme, ProxyUrl, Tls};
use crate::rest::metrics::{NETWORKS, NETWORKS_ASKED_FOR, NETWORKS_DROPPED};
use crate::tls::{Digest, IdentitySlot, ProviderIdentity, digest};

/// All networks that may be shared, by their settings.
#[derive(Default)]
pub(super) struct Networks {
    entries: Mutex<HashMap<Arc<Key>, Weak<Network>>>,
}

/// The settings that connections depend on. Secrets are kept as digests, so that the registry keeps none alive.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    scheme: Scheme,
    authority: Authority,
    protection: Option<Protection>,
    /// The passed crypto provider. It also protects the connections to an `https` proxy.
    provider: Option<ProviderIdentity>,
    proxy: Option<Via>,
    connections: Connections,
    max_headers: (usize, usize),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Protection {
    server_name: Option<String>,
    verified: bool,
    ca: Option<Source>,
    identity: Option<(Source, Source)>,
    /// The exec plugin or certificate manager whose certificate is used, by its slot.
    slot: Option<u64>,
}

/// The effective proxy, whether from the configuration or the environment.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Via {
    scheme: ProxyScheme,
    host: String,
    port: u16,
    credentials: Option<Digest>,
}

/// The source of a value: a file that is re-read, whatever its current content, or a text.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Source {
    File(PathBuf),
    Text(Digest),
}

impl Networks {
    /// Returns the registry of this process.
    pub(super) fn of_process() -> &'static Arc<Self> {
        static NETWORKS: LazyLock<Arc<Networks>> = LazyLock::new(Arc::default);
        &NETWORKS
    }

    /// Returns the network of this configuration: one in use, or a new one. Blocks while certificates are read from
    /// files.
    pub(super) fn network(
        self: &Arc<Self>,
        config: &Config,
        environment: &ProxyEnvironment,
        identity: Option<&Arc<IdentitySlot>>,
    ) -> Result<Arc<Network>, ConfigError> {
        let Some(key) = Key::new(config, environment, identity)? else {
            asked_for("uncacheable");
            return Network::new(config, environment, identity, None);
        };
        let key = Arc::new(key);
        let found = self.lock().get(&key).map(Weak::upgrade);
        let result = match found {
            Some(Some(network)) => {
                asked_for("hit");
                return Ok(network);
            }
            // Its last client was dropped, and the entry is not removed yet.
            Some(None) => "miss-gc",
            None => "miss",
        };
        // Files are read without the lock. If another thread is faster, its network is used.
        let place = RegistryEntry { networks: Arc::clone(self), key: Arc::clone(&key) };
        let made = Network::new(config, environment, identity, Some(place))?;
        let (network, result) = self.keep(key, &made).map_or((made, result), |theirs| (theirs, "hit"));
        asked_for(result);
        Ok(network)
    }

    /// Inserts a network unless there is one in use, which is returned then.
    fn keep(&self, key: Arc<Key>, made: &Arc<Network>) -> Option<Arc<Network>> {
        let mut entries = self.lock();
        if let Some(theirs) = entries.get(&key).and_then(Weak::upgrade) {
            return Some(theirs);
        }
        entries.insert(key, Arc::downgrade(made));
        show(&entries);
        None
    }

    /// No network is dropped while this is held: dropping one takes the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<Key>, Weak<Network>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a network, removed when the network is dropped.
pub(super) struct RegistryEntry {
    networks: Arc<Networks>,
    key: Arc<Key>,
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let mut entries = self.networks.lock();
        // There may be a successor already.
        let gone = entries.get(&self.key).is_some_and(|network| network.strong_count() == 0);
        if gone {
            entries.remove(&self.key);
            show(&entries);
        }
        drop(entries);
        counter!(NETWORKS_DROPPED, "result" => if gone { "deleted" } else { "skipped" }).increment(1);
    }
}

impl std::fmt::Debug for RegistryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RegistryEntry")
    }
}

/// The metric is set under the lock, so that the last value is the right one.
fn show(entries: &HashMap<Arc<Key>, Weak<Network>>) {
    gauge!(NETWORKS).set(entries.len() as f64);
}

fn asked_for(result: &'static str) {
    counter!(NETWORKS_ASKED_FOR, "result" => result).increment(1);
}

impl Key {
    /// `None` if such connections cannot be shared.
    fn new(
        config: &Config,
        environment: &ProxyEnvironment,
        identity: Option<&Arc<IdentitySlot>>,
    ) -> Result<Option<Self>, ConfigError> {
        let Config { server, tls, connections, limits, .. } = config;
        let protection = match server.is_tls().then(|| Protection::new(tls, identity)) {
            Some(None) => return Ok(None),
            Some(protection) => protection,
            None => None,
        };
        Ok(Some(Key {
            scheme: server.scheme().clone(),
            authority: server.authority().clone(),
            protection,
            provider: ProviderIdentity::of(tls),
            proxy: choose(&config.proxy, server, environment)?.map(Via::from),
            connections: connections.clone(),
            max_headers: (limits.headers, limits.header_count),
        }))
    }
}

impl Protection {
    /// `None` if one half of the identity is in a file and the other is not: such a file is not re-read, so its path
    /// does not identify its content.
    fn new(tls: &Tls, slot: Option<&Arc<IdentitySlot>>) -> Option<Self> {
        let identity = match &tls.identity {
            None => None,
            Some(Identity { certificate, key }) => Some(match (certificate, key) {
                (Pem::File(certificate), PrivateKey::File(key)) => {
                    (Source::File(certificate.clone()), Source::File(key.clone()))
                }
                (Pem::Data(certificate), PrivateKey::Data(key)) => {
                    (Source::text(certificate), Source::text(key.expose()))
                }
                _ => return None,
            }),
        };
        let ca = tls.ca.as_ref().map(|ca| match ca {
            Pem::File(path) => Source::File(path.clone()),
            Pem::Data(text) => Source::text(text),
        });
        let server_name = tls.server_name.clone().filter(|name| !name.is_empty());
        let slot = slot.map(|slot| slot.id());
        Some(Protection { server_name, verified: !tls.insecure_skip_verify, ca, identity, slot })
    }
}

impl Source {
    fn text(text: &str) -> Self {
        Source::Text(digest([text.as_bytes()]))
    }
}

impl From<ProxyUrl> for Via {
    fn from(url: ProxyUrl) -> Self {
        let ProxyUrl { scheme, host, port, credentials } = url;
        let credentials = credentials.map(|(name, password)| digest([name.as_bytes(), password.expose().as_bytes()]));
        Via { scheme, host, port, credentials }
    }
}

#[cfg(test)]
mod tests;
