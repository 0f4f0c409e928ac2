//! [`ServerVerifier`]: the verifier of server certificates.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::roots::Roots;

/// Verifies server certificates. In any mode the server has to prove that it holds the key of its certificate.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Trust {
    /// Any certificate.
    Anyone,
    /// Certificates signed by these authorities, and certificates that are themselves among the configured ones.
    ///
    /// The latter is for self-signed certificates that are marked as authorities, as `openssl req -x509` makes them:
    /// Go accepts one that is configured as the CA, webpki alone does not. Names, dates and purposes are checked all
    /// the same.
    These(Roots),
}

impl ServerVerifier {
    /// Trusts certificates signed by the roots; without roots, none.
    pub(super) fn strict(roots: Roots, provider: &CryptoProvider) -> Self {
        ServerVerifier { trust: Trust::These(roots), algorithms: provider.signature_verification_algorithms }
    }

    /// Trusts any certificate.
    pub(super) fn lenient(provider: &CryptoProvider) -> Self {
        ServerVerifier { trust: Trust::Anyone, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Trust::These(roots) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if roots.given.iter().any(|given| given.as_ref() == end_entity.as_ref()) {
            check_alone(end_entity, now)?;
        } else {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, &roots.store, intermediates, now, algorithms)?;
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

/// Checks dates and purpose of a certificate, with webpki's errors.
fn check_alone(certificate: &[u8], time: UnixTime) -> Result<(), Error> {
    let bad_encoding = Error::InvalidCertificate(CertificateError::BadEncoding);
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return Err(bad_encoding) };
    let Ok(purpose) = parsed.extended_key_usage() else { return Err(bad_encoding) };
    let serves = purpose.is_none_or(|purpose| purpose.value.server_auth || purpose.value.any);
    let at = |seconds: i64| u64::try_from(seconds).unwrap_or(0);
    let validity = parsed.validity();
    let (not_before, not_after) = (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
    let problem = if time.as_secs() > not_after {
        CertificateError::ExpiredContext { time, not_after: moment(not_after) }
    } else if time.as_secs() < not_before {
        CertificateError::NotValidYetContext { time, not_before: moment(not_before) }
    } else if !serves {
        CertificateError::InvalidPurpose
    } else {
        return Ok(());
    };
    Err(Error::InvalidCertificate(problem))
}

fn moment(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}
