//! [`WebhookTarget`]: where API servers call webhooks.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, ServiceReference as ConversionService, WebhookClientConfig as ConversionClientConfig,
    WebhookConversion,
};

use super::ConfigurationError;
use crate::path::is_dns_subdomain;

/// Where API servers call the webhooks of a program, and whose certificate they expect there.
#[derive(Clone, Debug)]
pub struct WebhookTarget {
    pub(super) program: String,
    pub(super) own_namespace: Option<String>,
    address: Address,
    ca_bundle: Option<String>,
}

#[derive(Clone, Debug)]
enum Address {
    Service { namespace: String, name: String, port: Option<i32> },
    Url(String),
}

impl WebhookTarget {
    /// Returns the target of a program behind a Service. API servers call `https://<service>.<namespace>.svc:443`, and expect a
    /// certificate for `<service>.<namespace>.svc`. `namespace` is also that of the program.
    pub fn service(program: impl Into<String>, namespace: impl Into<String>, service: impl Into<String>) -> Self {
        let (namespace, name) = (namespace.into(), service.into());
        WebhookTarget {
            program: program.into(),
            own_namespace: Some(namespace.clone()),
            address: Address::Service { namespace, name, port: None },
            ca_bundle: None,
        }
    }

    /// Returns the target of a program outside of the cluster, such as `https://hooks.example.com:9443`. The paths of hooks are
    /// appended.
    pub fn url(program: impl Into<String>, url: impl Into<String>) -> Self {
        WebhookTarget {
            program: program.into(),
            own_namespace: None,
            address: Address::Url(url.into()),
            ca_bundle: None,
        }
    }

    /// Sets the port of the Service. Default: 443.
    #[must_use]
    pub fn port(mut self, number: u16) -> Self {
        if let Address::Service { port, .. } = &mut self.address {
            *port = Some(i32::from(number));
        }
        self
    }

    /// Sets the authorities of the server's certificate, in PEM. Default: none, which means the roots of the API server, or that
    /// another program such as cert-manager adds them.
    #[must_use]
    pub fn ca_bundle(mut self, pem: impl Into<String>) -> Self {
        self.ca_bundle = Some(pem.into());
        self
    }

    /// Returns the name of the program.
    #[cfg(feature = "certificates")]
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// Returns the names of the mutating and of the validating configuration.
    pub(crate) fn configuration_names(&self) -> [String; 2] {
        [format!("{}-mutating", self.program), format!("{}-validating", self.program)]
    }

    pub(super) fn check(&self) -> Result<(), ConfigurationError> {
        match &self.address {
            Address::Service { namespace, name, .. } if !is_dns_subdomain(namespace) || !is_dns_subdomain(name) => {
                Err(ConfigurationError::Service { namespace: namespace.clone(), name: name.clone() })
            }
            Address::Service { .. } => Ok(()),
            Address::Url(url) => {
                check_url(url).map_err(|problem| ConfigurationError::Url { url: url.clone(), problem })
            }
        }
    }

    /// Returns the end of the names of webhooks: a domain that is the program's own.
    pub(super) fn domain(&self) -> String {
        match &self.address {
            Address::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
            Address::Url(url) => {
                let uri = url.parse::<http::Uri>().ok();
                let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
                format!("{}.{host}", self.program)
            }
        }
    }

    /// Returns the conversion of a CustomResourceDefinition.
    pub(crate) fn conversion(&self, path: &str) -> Result<CustomResourceConversion, ConfigurationError> {
        self.check()?;
        let WebhookClientConfig { ca_bundle, service, url } = self.client_config(path);
        let service = service.map(|service| ConversionService {
            name: service.name,
            namespace: service.namespace,
            path: service.path,
            port: service.port,
        });
        Ok(CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: Some(WebhookConversion {
                client_config: Some(ConversionClientConfig { ca_bundle, service, url }),
                conversion_review_versions: vec!["v1".to_owned()],
            }),
        })
    }

    pub(super) fn client_config(&self, path: &str) -> WebhookClientConfig {
        let ca_bundle = self.ca_bundle.as_ref().map(|pem| ByteString(pem.clone().into_bytes()));
        match &self.address {
            Address::Service { namespace, name, port } => WebhookClientConfig {
                ca_bundle,
                service: Some(ServiceReference {
                    name: name.clone(),
                    namespace: namespace.clone(),
                    path: Some(path.to_owned()),
                    port: *port,
                }),
                url: None,
            },
            Address::Url(url) => WebhookClientConfig {
                ca_bundle,
                service: None,
                url: Some(format!("{}{path}", url.trim_end_matches('/'))),
            },
        }
    }
}

fn check_url(url: &str) -> Result<(), &'static str> {
    let uri: http::Uri = url.parse().map_err(|_| "it is no URL")?;
    let authority = uri.authority().ok_or("it has no host")?;
    if uri.scheme_str() != Some("https") {
        Err("its scheme is not https")
    } else if authority.host().is_empty() {
        Err("it has no host")
    } else if authority.as_str().contains('@') {
        Err("it has a user")
    } else if uri.query().is_some() {
        Err("it has a query")
    } else if url.contains('#') {
        Err("it has a fragment")
    } else {
        Ok(())
    }
}
