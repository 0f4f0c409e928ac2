//! [`Config`]: which cluster, as whom, and within which limits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::rest::WarningHandler;
use crate::secret::Secret;
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

/// Everything that a [`Client`](crate::Client) is made from.
///
/// A value like any other: clones are independent, and changing one after a client was made from it changes nothing.
/// `Debug` shows no secret.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where the API server is.
    pub server: ServerUrl,
    /// The namespace for those who name none.
    pub namespace: String,
    /// How the connection is protected.
    pub tls: Tls,
    /// Who we say we are.
    pub auth: Auth,
    /// Whom we act as, if not as ourselves.
    pub impersonate: Option<Impersonate>,
    /// The way to the server.
    pub proxy: Proxy,
    /// What we call ourselves; [`Config::default_user_agent`] unless set.
    pub user_agent: Option<String>,
    /// The wire format of objects. A request may override it.
    pub wire: Wire,
    /// Whether answers may come compressed. Watches never do.
    pub compression: bool,
    /// The time for one call with all its retries; none by default. Watches and logs have no such end.
    pub timeout: Option<Duration>,
    /// The times and sizes of connections.
    pub connections: Connections,
    /// Our own limit on the rate of requests; none by default, because servers of today know how to defend themselves.
    pub throttle: Option<Throttle>,
    /// How often, and how patiently, failed requests are repeated.
    pub retry: Retry,
    /// The most that is accepted from a server.
    pub limits: Limits,
    /// What to do when the server points elsewhere.
    pub redirects: Redirects,
    /// Lets credentials go over plain HTTP to a host that is not this machine.
    pub allow_insecure_credentials: bool,
    /// The handler of the server's warnings. Default: they are logged.
    pub warnings: Option<Arc<dyn WarningHandler>>,
    /// The kubeconfig entries that this was made from, for messages. Nothing else depends on it.
    pub chosen: Chosen,
}

/// Names of entries of a kubeconfig. What came from elsewhere has none: the server of an override, the service account of
/// a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chosen {
    /// The context.
    pub context: Option<String>,
    /// The cluster. The server may be another, if an override says so.
    pub cluster: Option<String>,
    /// The user. The credentials may be others, if an override says so.
    pub user: Option<String>,
}

/// How connections are protected.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tls {
    /// The certificates to trust instead of the system's.
    pub ca: Option<Pem>,
    /// The certificate to show.
    pub identity: Option<Identity>,
    /// The name to expect in the server's certificate, if it is not the host of the URL.
    pub server_name: Option<String>,
    /// Accept any certificate. Unsafe unless the network is trusted; a warning is logged once per client.
    pub insecure_skip_verify: bool,
}

/// Certificates: in a file, which is read again when it changes, or at hand. `Debug` shows how long the text is, not
/// what it says: people do keep their keys beside their certificates.
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

/// A client certificate and its key. If both are files they are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by those that vouch for it.
    pub certificate: Pem,
    /// The private key.
    pub key: PrivateKey,
}

/// A private key: in a file, or at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivateKey {
    /// The path of the file.
    File(PathBuf),
    /// The text.
    Data(Secret),
}

/// Who we say we are, besides the certificate of [`Tls::identity`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// Anonymous.
    #[default]
    None,
    /// A bearer token.
    Token(Secret),
    /// A bearer token in a file. The file is read again at least once a minute and after a 401.
    TokenFile {
        /// The path of the file.
        path: PathBuf,
        /// The token to use while the file has never been readable. Without one, a file that cannot be read is an error
        /// when the client is made.
        fallback: Option<Secret>,
    },
    /// A user with a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
}

/// Whom we act as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The name.
    pub user: String,
    /// The uid; empty for none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Anything else the server's authorizers look at.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The way to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proxy {
    /// As `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say.
    #[default]
    Environment,
    /// Straight.
    Direct,
    /// Through this proxy, whatever the environment says.
    Url(ProxyUrl),
}

/// The times and sizes of connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Connections {
    /// Which versions of HTTP may be spoken. Over TLS both are offered; without it there is no way to ask, so HTTP/1.1 is
    /// spoken unless [`HttpVersions::Http2Only`] is chosen.
    pub http: HttpVersions,
    /// The time to connect.
    pub connect_timeout: Duration,
    /// The time for the TLS handshake.
    pub tls_timeout: Duration,
    /// After how much silence TCP asks whether the other side is still there.
    pub tcp_keepalive: Duration,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// How many unused HTTP/1.1 connections are kept.
    pub max_idle: usize,
    /// After how much silence HTTP/2 asks whether the other side is still there; `None` never asks.
    pub ping_after: Option<Duration>,
    /// How long the other side may take to answer that.
    pub ping_timeout: Duration,
    /// How many requests share an HTTP/2 connection, if the server allows as many; beyond it another one is opened.
    pub max_streams: usize,
    /// How long the body of a short answer may be silent before the call fails. Watches and logs may be silent for ever.
    pub body_idle_timeout: Duration,
}

/// Which versions of HTTP may be spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpVersions {
    /// HTTP/2 if the server speaks it, else HTTP/1.1.
    #[default]
    Any,
    /// HTTP/1.1 only.
    Http1Only,
    /// HTTP/2 only, also without TLS.
    Http2Only,
}

/// A limit on the rate of requests: a bucket of `burst` tokens that fills at `qps` tokens per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Tokens per second.
    pub qps: f32,
    /// The size of the bucket.
    pub burst: u32,
}

/// How failed requests are repeated.
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

/// The most that is accepted from a server. Whatever is larger is an error, and the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The bytes of an answer that is one object.
    pub object: usize,
    /// The bytes of a list.
    pub list: usize,
    /// The bytes of one event of a watch, or of one item of a list.
    pub frame: usize,
    /// The bytes of an error that is read whole.
    pub error: usize,
    /// How many times larger than its compressed form an answer may be, after its first MiB.
    pub inflation: usize,
    /// The bytes of an answer's headers.
    pub headers: usize,
    /// How many headers an answer may have.
    pub header_count: usize,
}

/// What to do when the server points elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// Refuse, with an error that names the place.
    #[default]
    Refuse,
    /// Follow at most three times, for reads, and only to the same scheme, host and port.
    SameOrigin,
}

impl Config {
    /// The defaults for this server: no credentials, the system's certificates.
    pub fn new(server: ServerUrl) -> Self {
        Config {
            server,
            namespace: "default".into(),
            tls: Tls::default(),
            auth: Auth::default(),
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

    /// The same without credentials: no client certificate, token, password or impersonation. Where the server
    /// is, how it is trusted, the way there and all limits stay.
    pub fn anonymous(&self) -> Self {
        let mut anonymous = self.clone();
        anonymous.tls.identity = None;
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
    /// client-go's numbers.
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
