//! [`CertificateTemplate`]: what a certificate is requested for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;

/// The subject and the names that a certificate is requested for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateTemplate {
    /// The common name: the user name for the API server.
    pub common_name: String,
    /// The organization: the group for the API server.
    pub organization: Option<String>,
    /// The DNS names. Client certificates have none.
    pub dns_names: Vec<String>,
    /// The IP addresses. Client certificates have none.
    pub ip_addresses: Vec<IpAddr>,
}

impl CertificateTemplate {
    /// Returns a template for this user, without a group and names.
    pub fn new(common_name: impl Into<String>) -> Self {
        CertificateTemplate { common_name: common_name.into(), ..CertificateTemplate::default() }
    }

    /// Sets the organization.
    #[must_use]
    pub fn organization(mut self, organization: impl Into<String>) -> Self {
        self.organization = Some(organization.into());
        self
    }

    /// Returns whether a certificate has everything of the template. It may have more.
    pub(super) fn is_satisfied_by(&self, facts: &CertificateFacts) -> bool {
        self.common_name == facts.common_name
            && self.organization.iter().all(|name| facts.organizations.contains(name))
            && self.dns_names.iter().all(|name| facts.dns_names.contains(name))
            && self.ip_addresses.iter().all(|address| facts.ip_addresses.contains(address))
    }
}

/// What the manager needs to know of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateFacts {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) common_name: String,
    pub(super) organizations: BTreeSet<String>,
    pub(super) dns_names: BTreeSet<String>,
    pub(super) ip_addresses: BTreeSet<IpAddr>,
}

impl CertificateFacts {
    /// Reads the first certificate of a PEM text.
    pub(super) fn parse(pem: &str) -> Option<Self> {
        let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).ok()?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let subject = leaf.subject();
        let common_name = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default();
        let mut facts = CertificateFacts {
            not_before: time(leaf.validity().not_before)?,
            not_after: time(leaf.validity().not_after)?,
            common_name: common_name.to_owned(),
            organizations: subject.iter_organization().filter_map(|name| Some(name.as_str().ok()?.into())).collect(),
            dns_names: BTreeSet::new(),
            ip_addresses: BTreeSet::new(),
        };
        for name in leaf.subject_alternative_name().ok()?.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => _ = facts.dns_names.insert((*name).to_owned()),
                GeneralName::IPAddress(bytes) => facts.ip_addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Some(facts)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
