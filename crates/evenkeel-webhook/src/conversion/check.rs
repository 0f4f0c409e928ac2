//! [`WebhookServer::check_conversions`]: converts stored objects before API servers do.

use std::sync::Arc;

use evenkeel_client::{Client, Error, ListParams};
use evenkeel_core::ResourceInfo;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::review::convert;
use crate::WebhookServer;

/// The number of failures that are returned.
const MAX_FAILURES: usize = 1000;
/// Other tasks may run after this many objects.
const OBJECTS_PER_TURN: usize = 64;

/// The result of [`WebhookServer::check_conversions`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversionCheck {
    /// The number of objects.
    pub objects: usize,
    /// The number of objects that cannot be converted to one of the versions and back.
    pub failed: usize,
    /// Why, for the first thousand of them: kind, namespace, name, versions, and the error of the converter.
    pub failures: Vec<String>,
}

/// Why the conversions of a kind cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionCheckError {
    /// The objects cannot be read.
    #[error(transparent)]
    Api(#[from] Error),
    /// The kind has no conversions.
    #[error("the server has no conversions of {kind}; register them first")]
    NoConversions {
        /// Kind and group.
        kind: String,
    },
    /// No version of the definition is served.
    #[error("the definition of {kind} serves no version, so that its objects cannot be read")]
    NotServed {
        /// Kind and group.
        kind: String,
    },
}

impl WebhookServer {
    /// Reads all objects of a kind, converts each to every version of the definition and back, and returns those that fail.
    ///
    /// One object that cannot be converted makes every list, every informer and the deletion of its namespace fail. Run it
    /// before `spec.conversion` of the definition names this server, in a job or at the start of the program. Nothing is written.
    ///
    /// Objects are read page by page, in the version that is stored, or else in the first one that is served.
    ///
    /// # Errors
    /// If the objects cannot be read, or if the kind has no conversions.
    pub async fn check_conversions(
        &self,
        client: &Client,
        definition: &CustomResourceDefinition,
    ) -> Result<ConversionCheck, ConversionCheckError> {
        let spec = &definition.spec;
        let kind = || format!("{}.{}", spec.names.kind, spec.group);
        let converters = self.conversions().converters();
        if !converters.contains_key(&(spec.group.clone(), spec.names.kind.clone())) {
            return Err(ConversionCheckError::NoConversions { kind: kind() });
        }
        let mut served = spec.versions.iter().filter(|version| version.served);
        let Some(stored) = served.clone().find(|version| version.storage).or_else(|| served.next()) else {
            return Err(ConversionCheckError::NotServed { kind: kind() });
        };
        let is_namespaced = spec.scope == "Namespaced";
        let names = &spec.names;
        let info = ResourceInfo::new(&spec.group, &stored.name, &names.kind, &names.plural, is_namespaced);
        let api_version = |version: &str| format!("{}/{version}", spec.group);
        let others: Vec<_> = spec.versions.iter().filter(|other| other.name != stored.name).collect();

        let mut check = ConversionCheck::default();
        let mut objects = client.dynamic(&Arc::new(info)).pages(&ListParams::default()).stream();
        while let Some(object) = objects.next().await {
            let object = object?;
            let json = object.json().map_err(Error::from)?;
            let there_and_back = |version: &str| {
                let converted: Value = convert(&converters, &json, &api_version(version))?;
                convert(&converters, converted.to_string().as_bytes(), &api_version(&stored.name))
            };
            let failure = others.iter().find_map(|other| there_and_back(&other.name).err());
            check.objects += 1;
            if let Some(failure) = failure {
                check.failed += 1;
                if check.failures.len() < MAX_FAILURES {
                    check.failures.push(failure);
                }
            }
            if check.objects % OBJECTS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(check)
    }
}
