//! [`WebhookServer::configuration_readiness`]: whether API servers trust the certificate of the server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_client::{Client, Error};
use evenkeel_runtime::health::Check;
use evenkeel_runtime::tls::ServingPair;
use jiff::Timestamp;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::apply::INJECTED;
use super::{Configurations, WebhookTarget};
use crate::WebhookServer;

/// How long a result counts for the same certificate: probes are frequent, and changes of configurations are not.
const COUNTS_FOR: Duration = Duration::from_secs(60);

/// The last certificate that the configurations verified, and when.
type LastSuccess = Mutex<Option<(Arc<ServingPair>, Instant)>>;

impl WebhookServer {
    /// Returns a readiness check with the name `webhook-configurations`, which reads the configurations back.
    ///
    /// It fails while a configuration does not have the webhook of a hook, and while the `caBundle` of one does not verify the
    /// certificate of the server; the reason names the configuration and the webhook. A webhook without a bundle passes, because
    /// API servers then use their own roots, unless cert-manager is to set it. A success counts for a minute, and for as long as
    /// the API server cannot be read.
    ///
    /// The program needs `get` of the two configurations. A server that is off passes.
    pub fn configuration_readiness(&self, client: &Client, target: &WebhookTarget) -> Check {
        let (server, client, target) = (self.clone(), client.clone(), target.clone());
        let last = Arc::new(LastSuccess::default());
        Check::new("webhook-configurations", move || {
            let (server, client, target, last) = (server.clone(), client.clone(), target.clone(), Arc::clone(&last));
            async move { Ok(check(&server, &client, &target, &last).await?) }
        })
    }
}

async fn check(
    server: &WebhookServer,
    client: &Client,
    target: &WebhookTarget,
    last: &LastSuccess,
) -> Result<(), String> {
    let Some(pair) = server.serving_pair()? else { return Ok(()) };
    let now = Instant::now();
    let age = |(known, at): &(Arc<ServingPair>, Instant)| Arc::ptr_eq(known, &pair).then(|| now.duration_since(*at));
    let age = last.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(age);
    if age.is_some_and(|age| age < COUNTS_FOR) {
        return Ok(());
    }
    let expected = server.configurations(target).map_err(|error| error.to_string())?;
    match ComparedConfiguration::read_both(client, &expected).await {
        Ok(both) => both.iter().try_for_each(|configuration| configuration.verify(&pair, crate::server::now()))?,
        Err(_) if age.is_some() => return Ok(()),
        Err(error) => return Err(format!("cannot read the webhook configurations: {error}")),
    }
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((pair, now));
    Ok(())
}

/// The names of webhooks, and their bundles.
type Webhooks = Vec<(String, Option<Vec<u8>>)>;

/// A configuration as it should be and as it is stored.
struct ComparedConfiguration {
    /// Kind and name.
    configuration: String,
    expected: Webhooks,
    /// `None` if it does not exist.
    found: Option<Webhooks>,
    /// Whether cert-manager sets the bundles.
    is_injected: bool,
}

impl ComparedConfiguration {
    async fn read_both(client: &Client, expected: &Configurations) -> Result<[Self; 2], Error> {
        let bundle = |config: &WebhookClientConfig| config.ca_bundle.as_ref().map(|bundle| bundle.0.clone());
        let mutating = |configuration: &MutatingWebhookConfiguration| {
            let webhooks = configuration.webhooks.iter().flatten();
            webhooks.map(|webhook| (webhook.name.clone(), bundle(&webhook.client_config))).collect()
        };
        let validating = |configuration: &ValidatingWebhookConfiguration| {
            let webhooks = configuration.webhooks.iter().flatten();
            webhooks.map(|webhook| (webhook.name.clone(), bundle(&webhook.client_config))).collect()
        };
        Ok([
            Self::read(client, &expected.mutating, mutating).await?,
            Self::read(client, &expected.validating, validating).await?,
        ])
    }

    async fn read<K>(client: &Client, expected: &K, webhooks: impl Fn(&K) -> Webhooks) -> Result<Self, Error>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        let name = expected.meta().name.as_deref().unwrap_or_default();
        let found = match client.api::<K>().get(name).await {
            Ok(found) => Some(found),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let is_injected = found.as_ref().is_some_and(|found| matches!(found.annotation(INJECTED), Ok(Some(_))));
        let found = found.map(|found| Ok::<_, Error>(webhooks(&*found.typed()?))).transpose()?;
        let configuration = format!("{} {name}", K::kind(&()));
        Ok(ComparedConfiguration { configuration, expected: webhooks(expected), found, is_injected })
    }

    /// Returns why API servers do not trust the pair.
    fn verify(&self, pair: &ServingPair, now: Timestamp) -> Result<(), String> {
        let configuration = &self.configuration;
        for (name, _) in &self.expected {
            let Some(found) = &self.found else { return Err(format!("{configuration} does not exist yet")) };
            let problem = match found.iter().find(|(webhook, _)| webhook == name) {
                None => "is not there yet",
                Some((_, None)) if self.is_injected => "waits for the caBundle of cert-manager",
                Some((_, Some(bundle))) if !pair.is_trusted_by(bundle, now) => {
                    "has a caBundle that does not verify the certificate of the server"
                }
                Some(_) => continue,
            };
            return Err(format!("{configuration}: the webhook {name} {problem}"));
        }
        Ok(())
    }
}
