//! [`Judge`]: which servers are let through.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::provider;
use super::roots::Roots;

/// Decides which servers are let through. Whoever it is, the server has to prove that it holds the key of the
/// certificate that it shows.
#[derive(Debug)]
pub(super) struct Judge {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Trust {
    /// Whatever the certificate says.
    Anyone,
    /// Servers that these authorities vouch for, and servers whose certificate is itself among those given.
    ///
    /// The latter is for self-signed certificates that call themselves authorities, as `openssl req -x509` makes them: Go
    /// accepts one that is configured as the CA, webpki by itself does not. Names, dates and purposes are checked all the same.
    These(Roots),
}

impl Judge {
    /// Trusts servers that the roots vouch for; with no roots, nobody.
    pub(super) fn strict(roots: Roots) -> Self {
        Judge { trust: Trust::These(roots), algorithms: provider().signature_verification_algorithms }
    }

    /// Trusts everybody.
    pub(super) fn lenient() -> Self {
        Judge { trust: Trust::Anyone, algorithms: provider().signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Judge {
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

/// Checks what a certificate says about itself, its dates and its purpose, and fails in the words that webpki has for it.
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
