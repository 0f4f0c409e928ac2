//! [`OwnCertificates`]: a serving certificate that replicas share in a Secret and renew.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::{Event, Handler as _, InformerFactory};
use evenkeel_client::tls::{CryptoProvider, default_provider};
use evenkeel_client::{Client, Error};
use evenkeel_runtime::EventRecorder;
use evenkeel_runtime::events::EventType;
use evenkeel_runtime::health::Check;
use evenkeel_runtime::tls::{CurrentPair, TlsError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::PolicyRule;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::authority::CertificateError;
use super::secret::{RotationStep, SecretContent};
use crate::configuration::apply_conversion;
use crate::path::CONVERT_PATH;
use crate::{ConfigurationError, WebhookServer, WebhookTarget};

/// The pause after a failed request.
const RETRY: Duration = Duration::from_secs(5);
/// The number of steps without a pause. A rotation needs three; more are lost to other replicas.
const MAX_STEPS: usize = 10;
/// The longest sleep: clocks are set, and computers are suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why own certificates cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnCertificatesError {
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] Error),
    /// A certificate cannot be issued.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The configurations of the webhooks cannot be made.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The informer of the Secret cannot be started.
    #[error("cannot watch the Secret: {problem}")]
    Informer {
        /// What is wrong.
        problem: String,
    },
}

/// Keeps the serving certificate of a webhook server in a Secret that all replicas share, renews it, and writes the webhook
/// configurations, and the conversions of definitions, with the authorities that verify it.
///
/// ```no_run
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::Manager;
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_webhook::certificates::OwnCertificates;
/// use evenkeel_webhook::WebhookServer;
///
/// let certificates = OwnCertificates::new(&client, "shop", "shop-system", "hooks");
/// let webhooks = WebhookServer::builder().certificate(certificates.slot()).service("shop-system", "hooks").build()?;
/// let server = webhooks.clone();
/// Manager::new(&client)
///     .server("webhooks", move |stop| server.run(stop.requested()))
///     .always("webhook certificates", move |stop| certificates.run(webhooks, stop.requested()))
///     .run(shutdown_signal()?)
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// The Secret `<service>-certificates` has `ca.crt`, `ca.key`, `tls.crt` and `tls.key`. The first replica creates it; all others
/// read it. A serving certificate is renewed after two thirds of its 90 days, an authority after two thirds of its five years,
/// both with a jitter of up to a twentieth more. A new authority is first published beside the old one, whose key is then gone.
/// Certificates are issued from the new one once the configurations have both, and the old one is removed a day later.
///
/// A Secret without usable content is replaced, with an event `CertificatesReplaced` about it.
///
/// # Permissions
///
/// In the namespace, [`role_rules`](Self::role_rules): `get`, `list`, `watch` and `update` of the one Secret, `create` of Secrets,
/// `create` and `patch` of events. In the cluster, [`cluster_role_rules`](Self::cluster_role_rules): `get`, `patch` and `create`
/// of the two configurations, `get` and `patch` of the definitions whose kinds have conversions.
pub struct OwnCertificates {
    client: Client,
    namespace: String,
    secret: String,
    name: String,
    target: WebhookTarget,
    slot: CurrentPair,
    clock: Clock,
}

impl OwnCertificates {
    /// Returns the certificates of a program behind a Service. Nothing is requested until [`run`](Self::run).
    pub fn new(client: &Client, program: &str, namespace: &str, service: &str) -> Self {
        OwnCertificates {
            client: client.clone(),
            namespace: namespace.to_owned(),
            secret: format!("{service}-certificates"),
            name: format!("{service}.{namespace}.svc"),
            target: WebhookTarget::service(program, namespace, service),
            slot: CurrentPair::empty(),
            clock: Arc::new(now),
        }
    }

    /// Sets where the current time comes from. Default: the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the slot of the pair, for [`WebhookServerBuilder::certificate`](crate::WebhookServerBuilder::certificate). It is
    /// empty until the Secret has been read or created.
    pub fn slot(&self) -> &CurrentPair {
        &self.slot
    }

    /// Returns a readiness check with the name `webhook-configurations`: whether the configurations have authorities that verify the
    /// certificate. See [`WebhookServer::configuration_readiness`].
    pub fn readiness(&self, server: &WebhookServer) -> Check {
        server.configuration_readiness(&self.client, &self.target)
    }

    /// Returns what the program may do in its namespace, for a Role.
    pub fn role_rules(&self) -> Vec<PolicyRule> {
        vec![
            rule("", "secrets", &["get", "list", "watch", "update"], &[&self.secret]),
            rule("", "secrets", &["create"], &[]),
            rule("events.k8s.io", "events", &["create", "patch"], &[]),
        ]
    }

    /// Returns what the program may do in the cluster with the hooks and conversions of this server, for a ClusterRole.
    pub fn cluster_role_rules(&self, server: &WebhookServer) -> Vec<PolicyRule> {
        let group = "admissionregistration.k8s.io";
        let [mutating, validating] = self.target.configuration_names();
        let mut rules = vec![
            rule(group, "mutatingwebhookconfigurations", &["get", "patch", "create"], &[&mutating]),
            rule(group, "validatingwebhookconfigurations", &["get", "patch", "create"], &[&validating]),
        ];
        let definitions = server.converted_definitions();
        if !definitions.is_empty() {
            let names: Vec<&str> = definitions.iter().map(String::as_str).collect();
            rules.push(rule("apiextensions.k8s.io", "customresourcedefinitions", &["get", "patch"], &names));
        }
        rules
    }

    /// Keeps Secret, pair and configurations current until `shutdown` resolves. Failed requests are logged and repeated.
    ///
    /// # Errors
    /// If there is no crypto provider, or if the hooks have no valid configurations.
    pub async fn run(
        self,
        server: WebhookServer,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), OwnCertificatesError> {
        let provider = default_provider().ok_or(CertificateError::Tls(TlsError::NoCryptoProvider))?;
        // An error that repeating does not help against.
        server.configurations(&self.target)?;
        let changed = Arc::new(Notify::new());
        let informers = self.informer(&changed)?;
        let _running = informers.start();
        let events = EventRecorder::new(&self.client, self.target.program());
        let keep = async {
            loop {
                let wait = match self.rotate(&server, &provider, &events).await {
                    Ok(wait) => wait,
                    Err(error) => {
                        tracing::warn!(secret = self.secret, %error, "cannot keep webhook certificates; retrying");
                        RETRY
                    }
                };
                tokio::select! {
                    () = changed.notified() => {}
                    () = sleep(wait) => {}
                }
            }
        };
        tokio::select! {
            biased;
            () = shutdown => Ok(()),
            never = keep => never,
        }
    }

    /// Watches the one Secret.
    fn informer(&self, changed: &Arc<Notify>) -> Result<InformerFactory, OwnCertificatesError> {
        let fields = format!("metadata.name={}", self.secret);
        let informers = InformerFactory::builder(&self.client)
            .namespace(&self.namespace)
            .configure::<Secret>(|secrets| secrets.fields(fields).resync(Duration::ZERO))
            .build();
        let changed = Arc::clone(changed);
        let handler = move |_: Event<Secret>| changed.notify_one();
        let added = informers.of::<Secret>().add_handler(handler.named("webhook certificates"));
        added.map_err(|error| OwnCertificatesError::Informer { problem: error.to_string() })?;
        Ok(informers)
    }

    /// Reads the Secret, takes the steps that are due, and returns when to look again.
    async fn rotate(
        &self,
        server: &WebhookServer,
        provider: &CryptoProvider,
        events: &EventRecorder,
    ) -> Result<Duration, OwnCertificatesError> {
        let secrets = self.client.api::<Secret>().namespace(&self.namespace);
        let names = [&*self.name];
        for _ in 0..MAX_STEPS {
            let now = (self.clock)();
            let (mut secret, exists) = match secrets.get(&self.secret).await {
                Ok(found) => match found.typed() {
                    Ok(secret) => (Secret::clone(&secret), true),
                    Err(_) => (Secret::default(), true),
                },
                Err(error) if error.is_not_found() => (Secret::default(), false),
                Err(error) => return Err(error.into()),
            };
            let content = SecretContent::parse(&secret, provider);
            let (step, publication) = match &content {
                None => (RotationStep::Create, Publication::Incomplete),
                Some(content) => {
                    self.slot.set(content.serving_pair(provider)?);
                    let publication = self.publish(server, content).await?;
                    (content.next_step(&names, publication != Publication::Incomplete, now), publication)
                }
            };
            if let RotationStep::WaitUntil(time) = step {
                let wait = Duration::try_from(time.duration_since(now)).unwrap_or_default();
                let limit = if publication == Publication::Complete { LONGEST_SLEEP } else { RETRY };
                return Ok(wait.clamp(Duration::from_secs(1), limit));
            }
            let is_damaged = exists && content.is_none();
            if is_damaged {
                tracing::warn!(secret = self.secret, "the Secret has no usable certificates; replacing them");
            }
            let next = match content {
                None => SecretContent::create(&names, now, provider)?,
                Some(content) => content.after(step, &names, now, provider)?,
            };
            next.write(&mut secret);
            secret.metadata.name = Some(self.secret.clone());
            secret.metadata.namespace = Some(self.namespace.clone());
            // Bound to the version that was read: of several replicas one succeeds.
            let written = if exists { secrets.update(&secret).await } else { secrets.create(&secret).await };
            match written {
                Ok(written) => {
                    tracing::info!(secret = self.secret, ?step, "webhook certificates written");
                    if is_damaged {
                        let note = "the Secret had no usable webhook certificates; new ones have replaced its content";
                        events.event(&written, EventType::Warning, "CertificatesReplaced", note);
                    }
                }
                // Another replica was first.
                Err(error) if error.is_conflict() || error.is_already_exists() => {}
                Err(error) if exists && error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(RETRY)
    }

    /// Writes the configurations and conversions, once the server listens with the pair.
    async fn publish(
        &self,
        server: &WebhookServer,
        content: &SecretContent,
    ) -> Result<Publication, OwnCertificatesError> {
        if !server.is_listening() {
            return Ok(Publication::Incomplete);
        }
        let target = self.target.clone().ca_bundle(content.bundle());
        server.configurations(&target)?.apply(&self.client).await?;
        let mut publication = Publication::Complete;
        for definition in server.converted_definitions() {
            let conversion = target.conversion(CONVERT_PATH)?;
            if !apply_conversion(&self.client, &definition, &target, conversion).await? {
                publication = Publication::AwaitsDefinitions;
            }
        }
        Ok(publication)
    }
}

/// Whether the bundle is where API servers look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publication {
    Incomplete,
    /// In all that exists. A definition that does not exist gets the bundle soon after it does; rotation does not wait for it.
    AwaitsDefinitions,
    Complete,
}

fn rule(group: &str, resource: &str, verbs: &[&str], names: &[&str]) -> PolicyRule {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(texts(&[group])),
        resources: Some(texts(&[resource])),
        verbs: texts(verbs),
        resource_names: Some(texts(names)).filter(|names| !names.is_empty()),
        ..PolicyRule::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "certificates are valid in real time")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl std::fmt::Debug for OwnCertificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnCertificates")
            .field("secret", &self.secret)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
