//! The start of a server: opens its storage, binds its address, and runs it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_base::log_throttle::LogThrottle;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use super::system_env::SystemEnv;
use super::{ApiServer, Builder, Secret};
use crate::audit::AuditLogError;
use crate::data_dir::{DataDir, DataDirError};
use crate::engine::ApiEngine;
use crate::engine::bootstrap::ServerFacts;
use crate::env::Env;
use crate::faults::{Faults, StoreControl};
use crate::install::{self, InstallError};
use crate::listener::aside::AsideThreads;
use crate::listener::auth::{Authenticator, Tokens, admin, authenticated};
use crate::listener::flow::InFlightLimits;
use crate::listener::http::{ListenerHandle, listen};
use crate::listener::observation::SLOW_INTERVAL;
use crate::listener::service::{Caller, InProcess, ServerShared};
use crate::listener::sessions::Sessions;
use crate::listener::tls::{Identity, IdentityKeys, TlsError};
use crate::listener::{FaultEndpoint, Handler, RequestLog};
use crate::metrics::Metrics;
use crate::store::durable::read_backup;
use crate::store::first_revision;

/// The interval of the engine's tick.
const TICK: Duration = Duration::from_secs(1);

/// An error of [`Builder::start`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is in use.
    #[error(
        "{address} is in use by another program; stop that one, or listen on another port (port 0 picks a free one)"
    )]
    AddressInUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Every client on the network would be administrator.
    #[error(
        "refusing to listen on {address} without authentication: every client that can reach it would be administrator; \
         use TLS or a token, or allow it with `i_know_this_is_open`"
    )]
    OpenToTheNetwork {
        /// The requested address.
        address: SocketAddr,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory could not be opened.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A definition of [`Builder::crd_dir`] could not be installed.
    #[error(transparent)]
    Crds(#[from] InstallError),
    /// The file of [`Builder::audit_log`] could not be opened.
    #[error(transparent)]
    AuditLog(#[from] AuditLogError),
    /// The runtime shut down during the start.
    #[error("the runtime shut down while the server started")]
    Cancelled,
    /// The system gave no random bytes.
    #[error("the system's source of randomness failed")]
    Randomness,
}

impl Builder {
    /// Starts the server. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if it would be open to the network.
    pub async fn start(mut self) -> Result<ApiServer, StartError> {
        if self.client_ca.is_some() && !self.tls {
            return Err(TlsError::NotUsed.into());
        }
        self.ensure_token()?;
        let mut settings = self.settings.clone();
        // Before the data directory: a backup that cannot be read leaves it as it is.
        if let Some(path) = self.backup.take() {
            let history = settings.history;
            let reading = spawn_blocking(move || {
                read_backup(&path, history).map_err(|source| DataDirError::Recovery { path, source })
            });
            settings.backup = Some(reading.await.map_err(|_| StartError::Cancelled)??);
        }
        if let Some(data_dir) = self.storage() {
            let (history, has_snapshot) = (settings.history, settings.snapshot.is_some() || settings.backup.is_some());
            let memory = Arc::clone(&settings.memory);
            let opening = spawn_blocking(move || {
                let opened = data_dir.open(history, memory)?;
                match has_snapshot && !opened.empty {
                    true => Err(DataDirError::NotEmpty { path: data_dir.path }),
                    false => Ok((opened, data_dir.token_keys()?)),
                }
            });
            // The task neither panics nor is cancelled, except with the runtime.
            let (opened, token_keys) = opening.await.map_err(|_| StartError::Cancelled)??;
            settings.opened = Some(Arc::new(opened));
            settings.token_keys = Arc::new(token_keys);
        }
        settings.tls = self.tls;
        settings.static_tokens = self.static_tokens();
        settings.descriptions = std::mem::take(&mut self.descriptions).shared();
        settings.first_revision = self.first_revision.unwrap_or_else(|| first_revision(self.clock.wall()));
        let engine = Arc::new(ApiEngine::new(settings, self.clock.clone()));
        self.start_with(engine.clone(), engine).await
    }

    /// Returns whether every client is the administrator. TLS, tokens and anonymous users all mean that some are not.
    fn requires_no_credentials(&self) -> bool {
        !self.tls && !self.credentials && !self.anonymous
    }

    /// Generates a token for the administrator if a server that requires credentials has none.
    fn ensure_token(&mut self) -> Result<(), StartError> {
        if !self.requires_no_credentials() && !self.tokens.iter().any(|(_, user)| *user == admin()) {
            self.tokens.push((Secret::random()?, admin()));
        }
        Ok(())
    }

    fn storage(&self) -> Option<DataDir> {
        let path = self.data_dir.clone()?;
        Some(DataDir { path, fsync: self.fsync, salvage: self.salvage })
    }

    /// Returns the keys of TLS: those of the data directory, or new ones, which it keeps.
    fn identity_keys(&self) -> Result<IdentityKeys, StartError> {
        let now = SystemEnv::time_of_day();
        let Some(data_dir) = self.storage() else { return Ok(IdentityKeys::generate(now)?) };
        if let Some(keys) = data_dir.identity_keys()?.filter(|keys| keys.is_current(now)) {
            return Ok(keys);
        }
        let keys = IdentityKeys::generate(now)?;
        data_dir.keep_identity(&keys)?;
        Ok(keys)
    }

    fn static_tokens(&self) -> Tokens {
        let mut tokens = Tokens::default();
        for (token, user) in &self.tokens {
            tokens.add(&token.0, user.clone());
        }
        tokens
    }

    pub(crate) async fn start_with(
        mut self,
        handler: Arc<dyn Handler>,
        store: Arc<dyn StoreControl>,
    ) -> Result<ApiServer, StartError> {
        let open = self.requires_no_credentials();
        let local = self.address.is_none_or(|address| address.ip().to_canonical().is_loopback());
        if let Some(address) = self.address
            && open
            && !local
            && !self.open
        {
            return Err(StartError::OpenToTheNetwork { address });
        }
        let bound = match self.address {
            None => None,
            Some(address) => Some(bind(address)?),
        };
        let address = bound.as_ref().map(|(_, address)| *address);
        let identity = match (self.tls, address) {
            (true, Some(address)) => {
                let (now, keys) = (SystemEnv::time_of_day(), self.identity_keys()?);
                Some(Arc::new(Identity::issue(address.ip(), &admin(), now, &keys, self.client_ca.as_ref())?))
            }
            _ => None,
        };
        self.ensure_token()?;
        let fault_endpoint_token = if self.fault_endpoint { Some(Secret::random()?) } else { None };
        let tokens = self.static_tokens();
        let token =
            self.tokens.iter().position(|(_, user)| *user == admin()).map(|index| self.tokens.swap_remove(index).0);
        let metrics = Arc::<Metrics>::default();
        let shared = Arc::new(ServerShared {
            audit: self.audit.open(&metrics)?,
            metrics,
            auth: Authenticator {
                open,
                // A server that is open to the network is reached by any name that it has there.
                checks_host: local && (open || self.anonymous),
                anonymous: self.anonymous,
                tokens,
            },
            faults: Faults::new(Some(store), Some(Arc::clone(&self.clock))),
            fault_endpoint: fault_endpoint_token.as_ref().map(|token| FaultEndpoint::new(&token.0)),
            request_log: RequestLog::default(),
            #[cfg(feature = "client")]
            access_logs: self.record_access.then(Default::default),
            slow_requests: Mutex::new(LogThrottle::new(SLOW_INTERVAL)),
            sessions: Sessions::default(),
            memory: Arc::clone(&self.settings.memory),
            started: self.clock.monotonic(),
            env: self.clock,
            handler: Arc::clone(&handler),
            in_flight: InFlightLimits::new(self.max_in_flight.0, self.max_in_flight.1),
            aside: AsideThreads::new(),
            https: Arc::default(),
            draining: AtomicBool::new(false),
        });
        let others = self.client_ca.as_ref().map_or("", |ca| &ca.pem);
        let client_ca = identity.as_ref().map(|identity| format!("{}{others}", identity.ca_pem));
        handler.bootstrap(&ServerFacts { address, client_ca });
        let inside = InProcess::new(Arc::clone(&shared), Caller::InProcess(Arc::new(authenticated(admin()))));
        for folder in &self.crd_dirs {
            install::install_folder(&inside, folder).await?;
        }
        let url = url(self.tls, address);
        let listening = bound.map(|(listener, address)| {
            ListenerHandle::start(listener, address, identity.clone(), Arc::clone(&shared), self.max_connections)
        });
        if let Some(listening) = &listening {
            shared.metrics.connections.get_or_init(|| Arc::clone(&listening.counters));
        }
        tracing::debug!(%url, "API server started");
        Ok(ApiServer {
            shared,
            listening,
            url,
            identity,
            token,
            fault_endpoint_token,
            ticker: Ticker::start(handler),
            service_routes: self.settings.service_routes,
        })
    }
}

fn bind(address: SocketAddr) -> Result<(tokio::net::TcpListener, SocketAddr), StartError> {
    listen(address)
        .and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        })
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressInUse { address },
            _ => StartError::Listen { address, source },
        })
}

fn url(tls: bool, address: Option<SocketAddr>) -> String {
    let Some(mut address) = address else {
        return "http://localhost".into();
    };
    // Clients cannot connect to the unspecified address; on this machine the loopback address stands for it.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)),
        _ => {}
    }
    format!("{}://{address}", if tls { "https" } else { "http" })
}

/// Ticks the engine until dropped.
#[derive(Debug)]
pub(super) struct Ticker(JoinHandle<()>);

impl Ticker {
    fn start(handler: Arc<dyn Handler>) -> Self {
        Ticker(tokio::spawn(async move {
            let mut interval = interval(TICK);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval.tick().await;
            let in_place = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
            loop {
                interval.tick().await;
                if in_place {
                    handler.tick();
                    while handler.run_due_work() {
                        tokio::task::yield_now().await;
                    }
                } else {
                    let handler = Arc::clone(&handler);
                    // Sweeps of namespaces take long. A panic ends the tick alone.
                    let tick = move || {
                        handler.tick();
                        while handler.run_due_work() {}
                    };
                    let _ = spawn_blocking(tick).await;
                }
            }
        }))
    }

    pub(super) async fn stop(&mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.abort();
    }
}
