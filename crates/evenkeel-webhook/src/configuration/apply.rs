//! Writes configurations.

use evenkeel_client::{Client, Error};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube_core::{Resource, ResourceExt};
#[cfg(feature = "certificates")]
use {
    super::WebhookTarget,
    evenkeel_client::apply,
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition,
    },
};

use super::Configurations;

/// cert-manager sets the `caBundle` of objects with this annotation.
pub(super) const INJECTED: &str = "cert-manager.io/inject-ca-from";

impl Configurations {
    /// Applies the configurations (server-side apply), with the field manager `<program>-webhooks`.
    ///
    /// Entries and fields of other managers are left alone. Entries of hooks that no longer exist are removed. An object with the
    /// annotation `cert-manager.io/inject-ca-from` keeps its `caBundle`. A configuration without webhooks is not created.
    ///
    /// Call it once the server listens: from then on API servers call it. The configurations stay when the program ends.
    ///
    /// # Errors
    /// If a request fails. It is safe to try again.
    pub async fn apply(mut self, client: &Client) -> Result<(), Error> {
        let manager = field_manager(&self.program);

        let name = self.mutating.name_any();
        let webhooks = self.mutating.webhooks.get_or_insert_default();
        let existing = look_up::<MutatingWebhookConfiguration>(client, &name).await?;
        if existing == Existing::Injected {
            webhooks.iter_mut().for_each(|webhook| webhook.client_config.ca_bundle = None);
        }
        if existing != Existing::No || !webhooks.is_empty() {
            client.api::<MutatingWebhookConfiguration>().apply(&name, &manager, &self.mutating).force().await?;
        }

        let name = self.validating.name_any();
        let webhooks = self.validating.webhooks.get_or_insert_default();
        let existing = look_up::<ValidatingWebhookConfiguration>(client, &name).await?;
        if existing == Existing::Injected {
            webhooks.iter_mut().for_each(|webhook| webhook.client_config.ca_bundle = None);
        }
        if existing != Existing::No || !webhooks.is_empty() {
            client.api::<ValidatingWebhookConfiguration>().apply(&name, &manager, &self.validating).force().await?;
        }
        Ok(())
    }
}

/// Writes `spec.conversion` of a definition (server-side apply), with the field manager of the configurations. Returns false if
/// there is no such definition.
#[cfg(feature = "certificates")]
pub(crate) async fn apply_conversion(
    client: &Client,
    definition: &str,
    target: &WebhookTarget,
    mut conversion: CustomResourceConversion,
) -> Result<bool, Error> {
    match look_up::<CustomResourceDefinition>(client, definition).await? {
        // It would be a definition without a kind.
        Existing::No => return Ok(false),
        Existing::Plain => {}
        Existing::Injected => {
            let webhook = conversion.webhook.as_mut();
            if let Some(target) = webhook.and_then(|webhook| webhook.client_config.as_mut()) {
                target.ca_bundle = None;
            }
        }
    }
    let fields = apply!(CustomResourceDefinition { spec: { conversion } });
    let manager = field_manager(&target.program);
    client.api::<CustomResourceDefinition>().apply(definition, &manager, &fields).force().await?;
    Ok(true)
}

fn field_manager(program: &str) -> String {
    format!("{program}-webhooks")
}

/// Whether a configuration exists, and whether another program sets its `caBundle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    No,
    Plain,
    Injected,
}

async fn look_up<K>(client: &Client, name: &str) -> Result<Existing, Error>
where
    K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + 'static,
{
    match client.api::<K>().get(name).await {
        Ok(found) if matches!(found.annotation(INJECTED), Ok(Some(_))) => Ok(Existing::Injected),
        Ok(_) => Ok(Existing::Plain),
        Err(error) if error.is_not_found() => Ok(Existing::No),
        Err(error) => Err(error),
    }
}
