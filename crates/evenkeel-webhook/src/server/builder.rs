//! [`WebhookServerBuilder`]: configures a server.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, RwLock};

use evenkeel_client::Client;
use evenkeel_client::tls::CryptoProvider;
use evenkeel_runtime::tls::CurrentPair;

use super::budget::BodyBudget;
use super::{Certificates, Fault, Listening, RegisterError, ReviewSettings, ServeSettings, Shared, WebhookServer};
use crate::admission::{ErasedHook, Hook, HookHandler};
use crate::conversion::{Conversion, ConversionError, Conversions};

/// The default limit of conversion reviews.
const CONVERSION_LIMIT: usize = 64 << 20;
/// The default budget of all request bodies.
const BODY_BUDGET: usize = 256 << 20;

/// Configures a [`WebhookServer`]. See [`WebhookServer::builder`].
#[must_use = "a builder does nothing until build is called"]
pub struct WebhookServerBuilder {
    address: String,
    directory: PathBuf,
    client_ca: Option<PathBuf>,
    slot: Option<CurrentPair>,
    provider: Option<Arc<CryptoProvider>>,
    review: ReviewSettings,
    service_name: Option<String>,
    hooks: Vec<ErasedHook>,
    conversions: Conversions,
    conversion_error: Option<ConversionError>,
    conversion_limit: usize,
    body_budget: usize,
}

impl WebhookServerBuilder {
    pub(super) fn new() -> Self {
        WebhookServerBuilder {
            address: ":9443".to_owned(),
            directory: std::env::temp_dir().join("k8s-webhook-server").join("serving-certs"),
            client_ca: None,
            slot: None,
            provider: None,
            review: ReviewSettings::default(),
            service_name: None,
            hooks: Vec::new(),
            conversions: Conversions::new(),
            conversion_error: None,
            conversion_limit: CONVERSION_LIMIT,
            body_budget: BODY_BUDGET,
        }
    }

    /// Adds a hook.
    pub fn hook<H: HookHandler>(mut self, hook: Hook<H>) -> Self {
        self.hooks.push(hook.erase());
        self
    }

    /// Adds the conversions of a kind. Those of all kinds are served on `/convert`.
    pub fn conversion<H: 'static>(mut self, conversion: Conversion<H>) -> Self {
        let registered = self.conversions.register(conversion);
        self.conversion_error = self.conversion_error.or(registered.err());
        self
    }

    /// Sets the size of conversion reviews from which on they are rejected. Default: 64 MiB, because a list is one review.
    pub fn conversion_limit(mut self, bytes: usize) -> Self {
        self.conversion_limit = bytes;
        self
    }

    /// Sets how many bytes the bodies of all requests may have together. Default: 256 MiB.
    ///
    /// The bytes of a body count from their arrival to the answer. A body that does not fit waits for up to a second, then
    /// the request is answered with 429 and a `Retry-After`. A body that is larger than the whole budget is too large.
    pub fn body_budget(mut self, bytes: usize) -> Self {
        self.body_budget = bytes;
        self
    }

    /// Sets the address. Default: `:9443`, port 9443 of all addresses of the machine.
    ///
    /// An empty address or `0` disables the server: it starts without an error, and hooks are accepted. Port 0 picks a free port.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Sets the directory of `tls.crt` and `tls.key`, such as a mounted Secret. They are reloaded when they change. Default:
    /// `k8s-webhook-server/serving-certs` in the directory for temporary files.
    pub fn certificate_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Serves the pair of this slot instead of files. Its owner renews it.
    pub fn certificate(mut self, slot: &CurrentPair) -> Self {
        self.slot = Some(slot.clone());
        self
    }

    /// Requires client certificates that an authority in this file has issued. The file is reloaded when it changes. Default:
    /// every client may connect.
    /// It needs certificate files: with a [slot](Self::certificate), the server does not start.
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(file.into());
        self
    }

    /// Sets the crypto provider of TLS. Default: that of the feature `aws-lc-rs` or `ring`.
    pub fn crypto_provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets the Service by which API servers call this server. [Readiness](WebhookServer::readiness) then needs a certificate
    /// for it.
    pub fn service(mut self, namespace: &str, name: &str) -> Self {
        self.service_name = Some(format!("{name}.{namespace}.svc"));
        self
    }

    /// Sets the client that hooks get by [`AdmissionRequest::client`](crate::AdmissionRequest::client). Default: none.
    pub fn client(mut self, client: &Client) -> Self {
        self.review.client = Some(client.clone());
        self
    }

    /// Sets what reviews are answered with if a hook panics, fails or takes too long. Default: [`Fault::Fail`].
    pub fn on_fault(mut self, fault: Fault) -> Self {
        self.review.on_fault = fault;
        self
    }

    /// Lets a panic of a hook break its connection. Default: it is caught and answered as a [fault](Self::on_fault).
    pub fn propagate_panics(mut self) -> Self {
        self.review.catches_panics = false;
        self
    }

    /// Returns the server. It listens once it is [started](WebhookServer::start).
    ///
    /// # Errors
    /// If two hooks have one path, if no configuration could name a path, or if a conversion is incomplete.
    pub fn build(self) -> Result<WebhookServer, RegisterError> {
        if let Some(error) = self.conversion_error {
            return Err(error.into());
        }
        let shared = Shared {
            conversions: self.conversions,
            conversion_metrics: OnceLock::new(),
            conversion_limit: self.conversion_limit,
            bodies: BodyBudget::new(self.body_budget),
            routes: RwLock::new(HashMap::new()),
            review: self.review,
            service_name: self.service_name,
            listening: RwLock::new(Listening::No),
        };
        for hook in self.hooks {
            shared.register(hook)?;
        }
        let certificates = match self.slot {
            Some(slot) => Certificates::Slot { slot, has_client_ca: self.client_ca.is_some() },
            None => Certificates::Files {
                certificate: self.directory.join("tls.crt"),
                key: self.directory.join("tls.key"),
                client_ca: self.client_ca,
            },
        };
        let settings = ServeSettings { address: self.address, certificates, provider: self.provider };
        Ok(WebhookServer { shared: Arc::new(shared), settings: Arc::new(settings) })
    }
}

impl fmt::Debug for WebhookServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookServerBuilder")
            .field("address", &self.address)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}
