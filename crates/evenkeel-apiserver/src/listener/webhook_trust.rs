//! [`BundleVerifier`]: verifies the certificates of webhooks against a `caBundle`, by Go's rules.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Accepts certificates that an authority of the bundle has signed, and certificates that are in the bundle themselves.
///
/// webpki accepts only the former. envtest writes the serving certificate of its webhooks into `caBundle`, without the
/// authority, and `openssl req -x509` makes a serving certificate that is marked as an authority; Go accepts both.
/// Name, dates and purpose are checked in either case.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    authorities: RootCertStore,
    bundle: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl BundleVerifier {
    /// Trusts the certificates of a bundle.
    ///
    /// # Errors
    ///
    /// A certificate that cannot be an authority, such as one that is not X.509.
    pub(super) fn new(bundle: Vec<CertificateDer<'static>>, provider: &CryptoProvider) -> Result<Arc<Self>, Error> {
        let mut authorities = RootCertStore::empty();
        for certificate in &bundle {
            authorities.add(certificate.clone())?;
        }
        let algorithms = provider.signature_verification_algorithms;
        Ok(Arc::new(BundleVerifier { authorities, bundle, algorithms }))
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if self.bundle.iter().any(|trusted| trusted == end_entity) {
            verify_dates_and_purpose(end_entity, now)?;
        } else {
            let (authorities, algorithms) = (&self.authorities, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(&certificate, authorities, intermediates, now, algorithms)?;
        }
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Checks what webpki checks of a certificate without its issuer.
fn verify_dates_and_purpose(certificate: &[u8], time: UnixTime) -> Result<(), Error> {
    let unreadable = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| unreadable())?;
    let purpose = parsed.extended_key_usage().map_err(|_| unreadable())?;
    let is_server = purpose.is_none_or(|purpose| purpose.value.server_auth || purpose.value.any);
    let since_epoch =
        |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    let validity = parsed.validity();
    let not_before = since_epoch(validity.not_before.timestamp());
    let not_after = since_epoch(validity.not_after.timestamp());
    let fault = if time.as_secs() > not_after.as_secs() {
        CertificateError::ExpiredContext { time, not_after }
    } else if time.as_secs() < not_before.as_secs() {
        CertificateError::NotValidYetContext { time, not_before }
    } else if !is_server {
        CertificateError::InvalidPurpose
    } else {
        return Ok(());
    };
    Err(Error::InvalidCertificate(fault))
}
