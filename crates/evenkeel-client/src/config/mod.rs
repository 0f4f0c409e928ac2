//! [`Config`]: the server, the credentials and the limits of a client.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::{ExecPlugin, ExecPolicy, OidcProvider, SharedTokenSource, TokenSource};
use crate::rest::WarningHandler;
use crate::secret::Secret;
use crate::tls::{CryptoProvider, RotatingIdentity};
use crate::wire::Wire;

mod check;
mod connections;
mod environment;
mod error;
mod in_cluster;
mod infer;
pub mod kubeconfig;
mod proxy_url;
mod server;
mod timeout;
mod untrusted;
mod user_agent;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use environment::Environment;
pub use error::{ConfigError, EntryKind};
pub use kubeconfig::{Kubeconfig, KubeconfigFiles, Overrides};
pub use proxy_url::{ProxyScheme, ProxyUrl};
pub use server::{Address, ServerUrl};
pub use timeout::parse_timeout;

/// The settings of a [`Client`](crate::Client).
///
/// A plain value: clones are independent, and changes after a client was built have no effect on it. `Debug` shows no
/// secret.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The API server.
    pub server: ServerUrl,
    /// The default namespace.
    pub namespace: String,
    /// The TLS settings.
    pub tls: Tls,
    /// The credentials.
    pub auth: Auth,
    /// Which commands may run as exec plugins; all by default.
    pub exec_policy: ExecPolicy,
    /// The impersonated user, if any.
    pub impersonate: Option<Impersonate>,
    /// The proxy.
    pub proxy: Proxy,
    /// The user agent; [`Config::default_user_agent`] unless set.
    pub user_agent: Option<String>,
    /// The wire format of objects. A request may override it.
    pub wire: Wire,
    /// Whether responses may be compressed. Watches never are.
    pub compression: bool,
    /// The timeout of one call including all its retries; none by default. It does not apply to watches and logs.
    pub timeout: Option<Duration>,
    /// The timeouts and limits of connections.
    pub connections: Connections,
    /// The client-side rate limit; none by default, because API servers have priority and fairness.
    pub throttle: Option<Throttle>,
    /// The retry policy of failed requests.
    pub retry: Retry,
    /// The size limits of responses.
    pub limits: Limits,
    /// The redirect policy.
    pub redirects: Redirects,
    /// Allows credentials over plain HTTP to a host other than this machine.
    pub allow_insecure_credentials: bool,
    /// The handler of the server's warnings. Default: warnings are logged.
    pub warnings: Option<Arc<dyn WarningHandler>>,
    /// The kubeconfig entries that this was built from. Used in messages only.
    pub chosen: Chosen,
}

/// Names of kubeconfig entries. A value from another source has none: the server of an override, the service account
/// of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// The context.
    pub context: Option<String>,
    /// The cluster. An override may replace its server.
    pub cluster: Option<String>,
    /// The user. An override may replace its credentials.
    pub user: Option<String>,
}

/// The TLS settings of connections.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Tls {
    /// The certificates to trust instead of the system's.
    pub ca: Option<Pem>,
    /// The client certificate.
    pub identity: Option<Identity>,
    /// A client certificate that renews itself, instead of [`identity`](Self::identity).
    pub rotating_identity: Option<RotatingIdentity>,
    /// The name to expect in the server's certificate, if it differs from the host of the URL.
    pub server_name: Option<String>,
    /// Accepts any certificate. Unsafe unless the network is trusted; a warning is logged once per client.
    pub insecure_skip_verify: bool,
    /// The crypto provider, for every connection of the client: to the server, to a proxy and to an OIDC issuer.
    /// [`default_provider`](crate::tls::default_provider) unless set.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use evenkeel_client::Config;
    /// use evenkeel_client::config::ServerUrl;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut config = Config::new(ServerUrl::parse("https://example.com")?);
    /// config.tls.crypto_provider = Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    /// # Ok(())
    /// # }
    /// ```
    pub crypto_provider: Option<Arc<CryptoProvider>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tls { ca, identity, rotating_identity, server_name, insecure_skip_verify, crypto_provider } = self;
        f.debug_struct("Tls")
            .field("ca", ca)
            .field("identity", identity)
            .field("rotating_identity", rotating_identity)
            .field("server_name", server_name)
            .field("insecure_skip_verify", insecure_skip_verify)
            // Its own output is a list of every algorithm.
            .field("crypto_provider", &crypto_provider.as_ref().map(|_| format_args!("_")))
            .finish()
    }
}

/// Certificates: in a file, which is reloaded when it changes, or inline. `Debug` shows the length only, because the
/// text may include a private key.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The path of the file.
    File(PathBuf),
    /// The text.
    Data(String),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => f.debug_tuple("File").field(path).finish(),
            Pem::Data(text) => write!(f, "Data([{} bytes])", text.len()),
        }
    }
}

/// A client certificate and its key. If both are files, they are reloaded when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by its intermediates.
    pub certificate: Pem,
    /// The private key.
    pub key: PrivateKey,
}

/// A private key: in a file, or inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivateKey {
    /// The path of the file.
    File(PathBuf),
    /// The text.
    Data(Secret),
}

/// The credentials, besides the certificate of [`Tls::identity`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// Anonymous.
    #[default]
    None,
    /// A bearer token.
    Token(Secret),
    /// A bearer token in a file. The file is reloaded at least once a minute and after a 401.
    TokenFile {
        /// The path of the file.
        path: PathBuf,
        /// The token to use until the file is readable for the first time. Without one, an unreadable file is an error
        /// when the client is built.
        fallback: Option<Secret>,
    },
    /// An exec plugin, which prints a token or a client certificate. See [`Auth::exec`].
    Exec(Box<ExecPlugin>),
    /// The id token of an OIDC provider, refreshed by its issuer. See [`Auth::oidc`].
    Oidc(Box<OidcProvider>),
    /// Tokens from a program's own code. See [`Auth::source`].
    Source(SharedTokenSource),
    /// A user with a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
}

impl Auth {
    /// Uses the credentials of an exec plugin.
    pub fn exec(plugin: ExecPlugin) -> Self {
        Auth::Exec(Box::new(plugin))
    }

    /// Uses the id token of an OIDC provider.
    pub fn oidc(provider: OidcProvider) -> Self {
        Auth::Oidc(Box::new(provider))
    }

    /// Uses the tokens of a source. Clients of clones of the configuration share one token.
    pub fn source(source: impl TokenSource) -> Self {
        Auth::Source(SharedTokenSource::new(source))
    }
}

/// The impersonated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The name.
    pub user: String,
    /// The uid; empty for none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes for the server's authorizers.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The proxy settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proxy {
    /// From `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    #[default]
    Environment,
    /// No proxy.
    Direct,
    /// This proxy; the environment is ignored.
    Url(ProxyUrl),
}

/// The timeouts and limits of connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Connections {
    /// The allowed HTTP versions. Over TLS, ALPN negotiates the version. Without TLS, HTTP/1.1 is used unless
    /// [`HttpVersions::Http2Only`] is set.
    pub http: HttpVersions,
    /// The timeout of connecting.
    pub connect_timeout: Duration,
    /// The timeout of the TLS handshake.
    pub tls_timeout: Duration,
    /// The idle time after which TCP sends keepalive probes.
    pub tcp_keepalive: Duration,
    /// The time after which an idle connection is closed.
    pub idle_timeout: Duration,
    /// The maximal number of idle HTTP/1.1 connections.
    pub max_idle: usize,
    /// The idle time after which an HTTP/2 connection sends a ping; `None` disables pings.
    pub ping_after: Option<Duration>,
    /// The time in which a ping must be acknowledged.
    pub ping_timeout: Duration,
    /// The maximal number of requests per HTTP/2 connection, if the server allows as many; beyond it another
    /// connection is opened.
    pub max_streams: usize,
    /// The time without data after which reading the body of a short response fails. It does not apply to watches and
    /// logs.
    pub body_idle_timeout: Duration,
}

/// The allowed HTTP versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersions {
    /// HTTP/2 if the server supports it, else HTTP/1.1.
    #[default]
    Any,
    /// HTTP/1.1 only.
    Http1Only,
    /// HTTP/2 only, also without TLS.
    Http2Only,
}

/// A client-side rate limit: a token bucket of size `burst`, filled at `qps` tokens per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Tokens per second.
    pub qps: f32,
    /// The size of the bucket.
    pub burst: u32,
}

/// The retry policy of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// The maximal number of retries of a request; 0 for none. 10 by default.
    pub max_retries: u32,
    /// The longest wait for a server's `Retry-After`; a longer one is cut to it. One minute by default.
    pub max_retry_after: Duration,
    /// No retry starts later than this after the first attempt: the error of the last attempt is returned instead. It bounds
    /// the retries of a request without a timeout. Two minutes by default.
    pub max_elapsed: Duration,
}

/// The size limits of responses. Exceeding one is an error and closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The maximal bytes of a response with a single object.
    pub object: usize,
    /// The maximal bytes of a list.
    pub list: usize,
    /// The maximal bytes of one watch event, or of one item of a list.
    pub frame: usize,
    /// The maximal bytes read of an error response.
    pub error: usize,
    /// The maximal ratio of decompressed to compressed size, after the first MiB.
    pub inflation: usize,
    /// The maximal bytes of response headers.
    pub headers: usize,
    /// The maximal number of response headers.
    pub header_count: usize,
}

/// The redirect policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// Refuses redirects, with an error that names the target.
    #[default]
    Refuse,
    /// Follows at most three redirects, for reads only, and only to the same scheme, host and port.
    SameOrigin,
}

impl Config {
    /// Returns the defaults for this server: no credentials, the system's certificates.
    pub fn new(server: ServerUrl) -> Self {
        Config {
            server,
            namespace: "default".into(),
            tls: Tls::default(),
            auth: Auth::default(),
            exec_policy: ExecPolicy::default(),
            impersonate: None,
            proxy: Proxy::default(),
            user_agent: None,
            wire: Wire::default(),
            compression: true,
            timeout: None,
            connections: Connections::default(),
            throttle: None,
            retry: Retry::default(),
            limits: Limits::default(),
            redirects: Redirects::default(),
            allow_insecure_credentials: false,
            warnings: None,
            chosen: Chosen::default(),
        }
    }

    /// Returns a copy without credentials: no client certificate, token, plugin, provider, password or impersonation. Server, CA,
    /// proxy and limits are kept.
    pub fn anonymous(&self) -> Self {
        let mut anonymous = self.clone();
        anonymous.tls.identity = None;
        anonymous.tls.rotating_identity = None;
        anonymous.auth = Auth::None;
        anonymous.impersonate = None;
        anonymous
    }
}

impl Default for Connections {
    fn default() -> Self {
        Connections {
            http: HttpVersions::Any,
            connect_timeout: Duration::from_secs(30),
            tls_timeout: Duration::from_secs(10),
            tcp_keepalive: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(90),
            max_idle: 100,
            ping_after: Some(Duration::from_secs(30)),
            ping_timeout: Duration::from_secs(15),
            max_streams: 100,
            body_idle_timeout: Duration::from_secs(60),
        }
    }
}

impl Default for Throttle {
    /// client-go's values.
    fn default() -> Self {
        Throttle { qps: 5.0, burst: 10 }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry { max_retries: 10, max_retry_after: Duration::from_secs(60), max_elapsed: Duration::from_secs(120) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Limits {
            object: 64 * MIB,
            list: 512 * MIB,
            frame: 32 * MIB,
            error: 4 * MIB,
            inflation: 200,
            headers: 64 << 10,
            header_count: 200,
        }
    }
}
