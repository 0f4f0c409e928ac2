//! Chooses the proxy: from the configuration or the environment. Sans-IO.

use std::net::IpAddr;

use crate::config::{ConfigError, Proxy, ProxyUrl, ServerUrl};

/// The proxy settings of the environment, as a value.
#[derive(Clone, Default)]
pub(crate) struct ProxyEnvironment {
    https: Option<String>,
    http: Option<String>,
    except: String,
}

impl ProxyEnvironment {
    /// Reads these variables; the first non-empty one of each pair counts.
    ///
    /// `HTTP_PROXY` is ignored inside a CGI program (one with `REQUEST_METHOD`): there a client's header `Proxy` sets
    /// it.
    pub(crate) fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let any = |names: [&str; 2]| names.into_iter().filter_map(&variable).find(|value| !value.is_empty());
        let cgi = any(["REQUEST_METHOD", "REQUEST_METHOD"]).is_some();
        ProxyEnvironment {
            https: any(["HTTPS_PROXY", "https_proxy"]),
            http: any(["HTTP_PROXY", "http_proxy"]).filter(|_| !cgi),
            except: any(["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }

    /// Reads the variables of this process.
    pub(crate) fn from_process() -> Self {
        ProxyEnvironment::new(|name| std::env::var(name).ok())
    }

    /// Loopback addresses never use a proxy, which would reach its own host.
    fn proxy_for(&self, server: &ServerUrl) -> Option<&str> {
        let proxy = if server.is_tls() { &self.https } else { &self.http };
        let proxy = proxy.as_deref()?;
        let host = server.host().trim_end_matches('.').to_ascii_lowercase();
        (!server.is_loopback() && !is_excepted(&self.except, &host, server.port())).then_some(proxy)
    }
}

/// The URLs may hold credentials.
impl std::fmt::Debug for ProxyEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyEnvironment")
            .field("https", &self.https.is_some())
            .field("http", &self.http.is_some())
            .field("except", &self.except)
            .finish()
    }
}

/// Returns the proxy for this server; `None` for none.
pub(crate) fn choose(
    proxy: &Proxy,
    server: &ServerUrl,
    environment: &ProxyEnvironment,
) -> Result<Option<ProxyUrl>, ConfigError> {
    match proxy {
        Proxy::Direct => Ok(None),
        Proxy::Url(url) => Ok(Some(url.clone())),
        Proxy::Environment => match environment.proxy_for(server).map(str::trim) {
            None | Some("") => Ok(None),
            // `HTTPS_PROXY=proxy:3128`, without a scheme, is common.
            Some(url) if !url.contains("://") => ProxyUrl::parse(&format!("http://{url}")).map(Some),
            Some(url) => ProxyUrl::parse(url).map(Some),
        },
    }
}

/// Returns whether `NO_PROXY` lists a host (lower case, without brackets).
///
/// The list is separated by commas. `*` matches everything; an address or a range (`10.0.0.0/8`) matches addresses; a
/// name matches itself and its subdomains; a name after a dot (`.example.com`, `*.example.com`) only subdomains. Each
/// but a range may end in a port, and then matches that port only.
fn is_excepted(list: &str, host: &str, port: u16) -> bool {
    let address: Option<IpAddr> = host.parse().ok().map(|address: IpAddr| address.to_canonical());
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| matches(&entry, host, address, port))
}

fn matches(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, prefix)) = entry.split_once('/') {
        let network = network.parse().ok().map(|network: IpAddr| network.to_canonical());
        let (Some(network), Some(address), Ok(prefix)) = (network, address, prefix.parse()) else { return false };
        return is_within(address, network, prefix);
    }
    let (name, only_port) = split_port(entry);
    if name.is_empty() || only_port.is_some_and(|only| only.parse() != Ok(port)) {
        return false;
    }
    if let Ok(listed) = name.parse::<IpAddr>() {
        return address == Some(listed.to_canonical());
    }
    let below = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    match below.strip_prefix('.') {
        Some(domain) => is_below(host, domain),
        None => host == below || is_below(host, below),
    }
}

/// Splits `host`, `host:port`, `[address]`, `[address]:port` or a bare IPv6 address.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    if let Some(rest) = entry.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => ("", None),
        };
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (entry, None),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    !domain.is_empty() && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn is_within(address: IpAddr, network: IpAddr, prefix: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if prefix <= 32 => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if prefix <= 128 => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
