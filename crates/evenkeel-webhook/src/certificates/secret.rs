//! The Secret that replicas share: its content, and what has to be done about it. Sans-IO.

use std::fmt;
use std::time::Duration;

use evenkeel_client::tls::CryptoProvider;
use evenkeel_runtime::tls::ServingPair;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::authority::{Authority, BACKDATED, CertificateError, renewal};

/// How long a previous authority stays in the bundle once the serving certificate is of the new one: the time that replicas have
/// to load it.
const OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);
/// How old a new authority has to be before it issues certificates: the time that all replicas have to see it. One that has not
/// may write its older bundle into a configuration.
const SETTLE: Duration = Duration::from_secs(10 * 60);

/// The content of the Secret, parsed and matched.
pub(super) struct SecretContent {
    /// The newest authority, whose key is in the Secret.
    authority: Authority,
    /// The certificates of all authorities that may have issued a certificate in use, in PEM, the newest first.
    bundle: String,
    /// The previous authorities, in PEM.
    previous: Vec<String>,
    certificate: String,
    key: String,
    pair: ServingPair,
    /// Whether the newest authority has issued the serving certificate.
    is_of_newest: bool,
}

/// What has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RotationStep {
    /// Nothing before this time.
    WaitUntil(Timestamp),
    /// Make everything new: there is no usable content.
    Create,
    /// Add a new authority to the bundle. The serving certificate stays.
    AddAuthority,
    /// Issue a serving certificate of the newest authority.
    Issue,
    /// Remove previous authorities from the bundle.
    DropPrevious,
}

impl SecretContent {
    /// Parses a Secret; `None` if it is damaged or not ours.
    pub(super) fn parse(secret: &Secret, provider: &CryptoProvider) -> Option<Self> {
        let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
        let (bundle, ca_key) = (text("ca.crt")?, text("ca.key")?);
        let (certificate, key) = (text("tls.crt")?, text("tls.key")?);
        let mut authorities = split(&bundle).into_iter();
        let authority = Authority::from_pem(&authorities.next()?, &ca_key).ok()?;
        let pair = ServingPair::from_pem(certificate.as_bytes(), key.as_bytes(), provider).ok()?;
        let is_of_newest = authority.has_issued(&pair);
        let previous: Vec<_> = authorities.collect();
        Some(SecretContent { authority, bundle, previous, certificate, key, pair, is_of_newest })
    }

    /// Returns the certificates of all authorities in PEM: the `caBundle` of configurations.
    pub(super) fn bundle(&self) -> &str {
        &self.bundle
    }

    /// Returns when the authority is to be replaced.
    #[cfg(test)]
    pub(super) fn authority_renewal(&self) -> Option<Timestamp> {
        self.authority.renewal()
    }

    /// Returns the serving pair.
    pub(super) fn serving_pair(&self, provider: &CryptoProvider) -> Result<ServingPair, CertificateError> {
        Ok(ServingPair::from_pem(self.certificate.as_bytes(), self.key.as_bytes(), provider)?)
    }

    /// Makes everything new.
    pub(super) fn create(names: &[&str], now: Timestamp, provider: &CryptoProvider) -> Result<Self, CertificateError> {
        let authority = Authority::generate(now)?;
        let bundle = authority.certificate().to_owned();
        Self::issued(authority, bundle, Vec::new(), names, now, provider)
    }

    fn issued(
        authority: Authority,
        bundle: String,
        previous: Vec<String>,
        names: &[&str],
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Self, CertificateError> {
        let issued = authority.issue(names, now)?;
        let (certificate, key) = (issued.certificate().to_owned(), issued.key().to_owned());
        let pair = ServingPair::from_pem(certificate.as_bytes(), key.as_bytes(), provider)?;
        Ok(SecretContent { authority, bundle, previous, certificate, key, pair, is_of_newest: true })
    }

    /// Decides what to do. `is_published`: every configuration has the whole bundle.
    pub(super) fn next_step(&self, names: &[&str], is_published: bool, now: Timestamp) -> RotationStep {
        let validity = self.authority.validity();
        let (Some((from, _)), Some(authority_renewal)) = (validity, self.authority.renewal()) else {
            return RotationStep::Create;
        };
        if now >= authority_renewal {
            return RotationStep::AddAuthority;
        }
        let leaf = self.pair.chain().first().map_or(&[][..], |leaf| leaf.as_ref());
        let renewal = renewal(self.pair.not_before(), self.pair.not_after(), leaf);
        let is_for_names = names.iter().all(|name| self.pair.is_for(name));
        if now >= renewal || !is_for_names || !self.is_of_newest {
            // A certificate of a new authority is of use once API servers trust that. An expired one is of no use at all.
            let settled = later(from, BACKDATED + SETTLE);
            let is_usable = self.pair.not_after() > now && is_for_names;
            if is_usable && !self.previous.is_empty() && (!is_published || now < settled) {
                return RotationStep::WaitUntil(settled.max(now));
            }
            return RotationStep::Issue;
        }
        let mut next = renewal.min(authority_renewal);
        if !self.previous.is_empty() {
            let end = later(self.pair.not_before(), BACKDATED + OVERLAP);
            if now >= end {
                return RotationStep::DropPrevious;
            }
            next = next.min(end);
        }
        RotationStep::WaitUntil(next)
    }

    /// Returns the content after a step.
    pub(super) fn after(
        self,
        step: RotationStep,
        names: &[&str],
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Self, CertificateError> {
        match step {
            RotationStep::WaitUntil(_) => Ok(self),
            RotationStep::Create => Self::create(names, now, provider),
            RotationStep::Issue => Self::issued(self.authority, self.bundle, self.previous, names, now, provider),
            RotationStep::AddAuthority => {
                let authority = Authority::generate(now)?;
                let previous: Vec<_> =
                    std::iter::once(self.authority.certificate().to_owned()).chain(self.previous).collect();
                let bundle = [&[authority.certificate().to_owned()], &*previous].concat().concat();
                Ok(SecretContent { authority, bundle, previous, is_of_newest: false, ..self })
            }
            RotationStep::DropPrevious => {
                let bundle = self.authority.certificate().to_owned();
                Ok(SecretContent { bundle, previous: Vec::new(), ..self })
            }
        }
    }

    /// Writes the content into a Secret.
    pub(super) fn write(&self, secret: &mut Secret) {
        let data = secret.data.get_or_insert_default();
        data.clear();
        for (key, text) in [
            ("ca.crt", &self.bundle),
            ("ca.key", &self.authority.key_pem()),
            ("tls.crt", &self.certificate),
            ("tls.key", &self.key),
        ] {
            data.insert(key.to_owned(), ByteString(text.clone().into_bytes()));
        }
    }
}

/// Returns the certificates of a bundle, each in PEM as it was.
fn split(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = bundle.split_inclusive(END).map(|part| format!("{}\n", part.trim()));
    parts.filter(|part| CertificateDer::from_pem_slice(part.as_bytes()).is_ok()).collect()
}

fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretContent").field("pair", &self.pair).finish_non_exhaustive()
    }
}
