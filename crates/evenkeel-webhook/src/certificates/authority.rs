//! [`Authority`]: issues serving certificates.

use std::fmt;
use std::time::Duration;

use evenkeel_client::tls::default_provider;
use evenkeel_runtime::tls::{CurrentPair, ServingPair, TlsError};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const AUTHORITY_NAME: &str = "evenkeel-webhook-ca";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The validity of an authority: five years.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(5 * 365 * DAY.as_secs());
/// The validity of a serving certificate: 90 days.
const SERVING_VALIDITY: Duration = Duration::from_secs(90 * DAY.as_secs());
/// Certificates are valid from an hour ago, because clocks differ.
pub(super) const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// Why a certificate cannot be issued. Contains nothing of a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// There is no crypto provider, or a pair cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There are no random numbers for a serial number.
    #[error("the crypto provider has no random numbers")]
    NoRandom,
    /// A certificate or a key could not be generated or parsed.
    #[error("cannot make a certificate: {0}")]
    Generate(#[source] rcgen::Error),
}

/// A certificate authority with its key: ECDSA on P-256, valid for five years.
pub struct Authority {
    certificate: String,
    key: KeyPair,
    params: CertificateParams,
}

/// A serving certificate with its key, in PEM: ECDSA on P-256, valid for 90 days.
pub struct IssuedPair {
    certificate: String,
    key: String,
}

impl Authority {
    /// Generates an authority that is valid from an hour before `now`.
    ///
    /// # Errors
    /// If there is no crypto provider.
    pub fn generate(now: Timestamp) -> Result<Self, CertificateError> {
        let mut params = parameters(AUTHORITY_NAME, now, AUTHORITY_VALIDITY)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = authority_parameters().key_usages;
        let key = new_key()?;
        let certificate = params.self_signed(&key).map_err(CertificateError::Generate)?.pem();
        Ok(Authority { certificate, key, params })
    }

    /// Parses an authority that this crate has generated.
    pub(super) fn from_pem(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let key = KeyPair::from_pem(key).map_err(CertificateError::Generate)?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| TlsError::NoCertificate)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|_| TlsError::NoCertificate)?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(TlsError::Mismatch.into());
        }
        Ok(Authority { certificate: certificate.to_owned(), key, params: authority_parameters() })
    }

    /// Returns from when and until when the authority is valid.
    pub(super) fn validity(&self) -> Option<(Timestamp, Timestamp)> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).ok()?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        Some((time(parsed.validity().not_before)?, time(parsed.validity().not_after)?))
    }

    /// Returns whether the authority has signed the certificate of a pair.
    pub(super) fn has_issued(&self, pair: &ServingPair) -> bool {
        // Both are valid at the later start. That may be the authority's: clocks of replicas differ.
        self.validity()
            .is_some_and(|(from, _)| pair.is_trusted_by(self.certificate.as_bytes(), pair.not_before().max(from)))
    }

    /// Returns when the authority is to be replaced.
    pub(super) fn renewal(&self) -> Option<Timestamp> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?;
        let (from, to) = self.validity()?;
        Some(renewal(from, to, &der))
    }

    /// Returns the private key in PEM. It is a secret.
    pub(super) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns the certificate in PEM: the `caBundle` of configurations.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues a serving certificate for these names, valid from an hour before `now`.
    ///
    /// # Errors
    /// If a name is no DNS name, or if there is no crypto provider.
    pub fn issue(&self, names: &[&str], now: Timestamp) -> Result<IssuedPair, CertificateError> {
        let mut params = parameters(names.first().copied().unwrap_or("webhook"), now, SERVING_VALIDITY)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let named = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        params.subject_alt_names = named.map_err(CertificateError::Generate)?.subject_alt_names;
        let key = new_key()?;
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(CertificateError::Generate)?.pem();
        Ok(IssuedPair { certificate, key: key.serialize_pem() })
    }
}

impl IssuedPair {
    /// Returns the certificate in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the private key in PEM. It is a secret.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns a slot with the pair, for [`WebhookServerBuilder::certificate`](crate::WebhookServerBuilder::certificate).
    ///
    /// # Errors
    /// If there is no crypto provider.
    pub fn serve(&self) -> Result<CurrentPair, CertificateError> {
        let provider = default_provider().ok_or(TlsError::NoCryptoProvider)?;
        Ok(CurrentPair::new(ServingPair::from_pem(self.certificate.as_bytes(), self.key.as_bytes(), &provider)?))
    }
}

/// Returns when a certificate is to be renewed: after two thirds of its validity and up to a twentieth more, so that programs
/// that were started together do not renew together. All replicas compute the same time: the signature is the random number.
pub(super) fn renewal(from: Timestamp, to: Timestamp, certificate: &[u8]) -> Timestamp {
    let validity = u64::try_from(to.as_second().saturating_sub(from.as_second())).unwrap_or(0);
    let random = certificate.iter().rev().take(2).fold(0, |number, byte| (number << 8) | u64::from(*byte));
    let jitter = validity / 20 * random / (1 << 16);
    from.checked_add(Duration::from_secs(validity / 3 * 2 + jitter)).unwrap_or(Timestamp::MAX)
}

/// The parameters of an authority that issuing depends on.
fn authority_parameters() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn new_key() -> Result<KeyPair, CertificateError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(CertificateError::Generate)
}

fn parameters(name: &str, now: Timestamp, validity: Duration) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch.saturating_sub(BACKDATED);
    params.not_after = epoch + since_epoch.saturating_add(validity);
    params.serial_number = Some(serial_number()?);
    Ok(params)
}

/// Returns a random number of 127 bits.
fn serial_number() -> Result<SerialNumber, CertificateError> {
    let provider = default_provider().ok_or(TlsError::NoCryptoProvider)?;
    let mut bytes = [0_u8; 16];
    provider.secure_random.fill(&mut bytes).map_err(|_| CertificateError::NoRandom)?;
    // A serial number is positive.
    bytes[0] &= 0x7f;
    Ok(SerialNumber::from_slice(&bytes))
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedPair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}
