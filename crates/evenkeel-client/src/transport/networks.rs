//! [`Networks`]: clients whose connections would be the same share them.
//!
//! A program may make a client per controller, per user it acts as, or per request it serves. What tells these clients
//! apart, their tokens, whom they act as, what they call themselves, travels in headers; their connections are
//! interchangeable as long as they lead to the same server, the same way, protected alike. So there is one [`Network`] for
//! all of them.
//!
//! Sharing changes nothing that a client could rely on. A pool keeps the connections of each runtime apart, so a client that
//! ends with its runtime takes no connection of another's with it. Certificates that change on disk have changed for all
//! who name the same files, so retiring the connections made with the old ones is right for each of them. Whoever shows
//! another certificate, or trusts another authority, has connections of its own.
//!
//! A network is kept by its clients, not by the register: with the last of them it is gone, and its idle connections are
//! closed. A client made from files that are in use already does not read them again: it has what the others have, which is
//! looked at again in its time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use ::metrics::{counter, gauge};
use http::uri::{Authority, Scheme};

use super::network::Network;
use super::proxy::{ProxyEnvironment, choose};
use crate::config::{Config, ConfigError, Connections, Identity, Pem, PrivateKey, ProxyScheme, ProxyUrl, Tls};
use crate::rest::metrics::{NETWORKS, NETWORKS_ASKED_FOR, NETWORKS_DROPPED};
use crate::tls::{Digest, digest};

/// All networks that may be shared, by what they depend on.
#[derive(Default)]
pub(super) struct Networks {
    entries: Mutex<HashMap<Arc<Key>, Weak<Network>>>,
}

/// What connections depend on. Holds digests of what may be secret, so that the register keeps no secret alive.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    scheme: Scheme,
    authority: Authority,
    protection: Option<Protection>,
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
}

/// The proxy that is used in the end, whoever named it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Via {
    scheme: ProxyScheme,
    host: String,
    port: u16,
    credentials: Option<Digest>,
}

/// Where something comes from: a file that is looked at again, whatever it holds at the moment, or a text.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Source {
    File(PathBuf),
    Text(Digest),
}

impl Networks {
    /// The one register of this process.
    pub(super) fn of_process() -> &'static Arc<Self> {
        static NETWORKS: LazyLock<Arc<Networks>> = LazyLock::new(Arc::default);
        &NETWORKS
    }

    /// The network for this configuration: one that is in use already, or a new one. Blocks while certificates are read
    /// from files.
    pub(super) fn network(
        self: &Arc<Self>,
        config: &Config,
        environment: &ProxyEnvironment,
    ) -> Result<Arc<Network>, ConfigError> {
        let Some(key) = Key::new(config, environment)? else {
            asked_for("uncacheable");
            return Network::new(config, environment, None);
        };
        let key = Arc::new(key);
        let found = self.lock().get(&key).map(Weak::upgrade);
        let result = match found {
            Some(Some(network)) => {
                asked_for("hit");
                return Ok(network);
            }
            // Its last user is gone, and has not got around to taking it out.
            Some(None) => "miss-gc",
            None => "miss",
        };
        // Files are read with nothing locked. If somebody else is faster, theirs is taken.
        let place = Place { networks: Arc::clone(self), key: Arc::clone(&key) };
        let made = Network::new(config, environment, Some(place))?;
        let (network, result) = self.keep(key, &made).map_or((made, result), |theirs| (theirs, "hit"));
        asked_for(result);
        Ok(network)
    }

    /// Puts a network into the register, unless there is one in use already, which is the answer then.
    fn keep(&self, key: Arc<Key>, made: &Arc<Network>) -> Option<Arc<Network>> {
        let mut entries = self.lock();
        if let Some(theirs) = entries.get(&key).and_then(Weak::upgrade) {
            return Some(theirs);
        }
        entries.insert(key, Arc::downgrade(made));
        show(&entries);
        None
    }

    /// No network is ever dropped while this is held: dropping one takes the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<Key>, Weak<Network>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A network's place in a register, which is free again when the network is gone.
pub(super) struct Place {
    networks: Arc<Networks>,
    key: Arc<Key>,
}

impl Drop for Place {
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

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Place")
    }
}

/// Metrics are told while the register is locked, so that the last word is the right one.
fn show(entries: &HashMap<Arc<Key>, Weak<Network>>) {
    gauge!(NETWORKS).set(entries.len() as f64);
}

fn asked_for(result: &'static str) {
    counter!(NETWORKS_ASKED_FOR, "result" => result).increment(1);
}

impl Key {
    /// `None` if such connections cannot be shared.
    fn new(config: &Config, environment: &ProxyEnvironment) -> Result<Option<Self>, ConfigError> {
        let Config { server, tls, connections, limits, .. } = config;
        let protection = match server.is_tls().then(|| Protection::new(tls)) {
            Some(None) => return Ok(None),
            Some(protection) => protection,
            None => None,
        };
        Ok(Some(Key {
            scheme: server.scheme().clone(),
            authority: server.authority().clone(),
            protection,
            proxy: choose(&config.proxy, server, environment)?.map(Via::from),
            connections: connections.clone(),
            max_headers: (limits.headers, limits.header_count),
        }))
    }
}

impl Protection {
    /// `None` if one half of the identity is in a file and the other is not: such a file is not looked at again, so that
    /// its path does not stand for its content.
    fn new(tls: &Tls) -> Option<Self> {
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
        Some(Protection { server_name, verified: !tls.insecure_skip_verify, ca, identity })
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
