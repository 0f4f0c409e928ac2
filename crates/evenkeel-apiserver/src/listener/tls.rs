//! The server's own certificate authority, generated at start and stored only in a data directory (SEC-61, AUT-3).
//!
//! rustls would abort the handshake over an invalid client certificate. kube-apiserver accepts the connection and
//! returns 401. Therefore the handshake here only proves that the client holds the key, and the certificate is
//! verified afterwards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use sha2::{Digest, Sha256};

use super::auth::ClientCertificate;
use crate::http_types::User;

/// Why the TLS setup failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate could not be generated.
    #[error("failed to generate a certificate")]
    Certificate(#[source] rcgen::Error),
    /// The server does not use TLS, so that it has no certificate authority.
    #[error("the server does not use TLS: build it with `Builder::tls`")]
    NotUsed,
    /// The certificates of [`Builder::client_ca`](crate::Builder::client_ca) cannot be used.
    #[error("the client CA cannot be used: {reason}")]
    ClientCa {
        /// Why.
        reason: String,
    },
    /// rustls rejected the generated configuration.
    #[error("failed to set up TLS")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The server's side of TLS, and what clients need for theirs.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) admin_certificate_pem: String,
    pub(crate) admin_key_pem: String,
    pub(crate) config: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
    ca: Issuer<'static, KeyPair>,
}

/// The keys of an identity, which a data directory keeps. Clients that trust the authority trust the next server, too.
#[derive(Clone)]
pub(crate) struct IdentityKeys {
    pub(crate) ca_pem: String,
    pub(crate) ca_key_pem: String,
    pub(crate) serving_key_pem: String,
}

impl std::fmt::Debug for IdentityKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentityKeys([redacted])")
    }
}

impl IdentityKeys {
    /// Generates an authority and a serving key.
    pub(crate) fn generate(now: Timestamp) -> Result<Self, TlsError> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let mut ca = parameters(today, "evenkeel-ca", None);
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_key = new_key()?;
        let ca_key_pem = ca_key.serialize_pem();
        let ca = CertifiedIssuer::self_signed(ca, ca_key).map_err(TlsError::Certificate)?;
        Ok(IdentityKeys { ca_pem: ca.pem(), ca_key_pem, serving_key_pem: new_key()?.serialize_pem() })
    }

    /// Returns whether the authority is still valid for a day.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(self.ca_pem.as_bytes()) else { return false };
        let tomorrow = now.as_second() + 86_400;
        x509_parser::parse_x509_certificate(&der)
            .is_ok_and(|(_, certificate)| certificate.validity().not_after.timestamp() > tomorrow)
    }
}

/// Authorities of the user's that issue client certificates.
#[derive(Clone, Debug)]
pub(crate) struct ClientCa {
    /// The certificates in PEM, without what else was in the text.
    pub(crate) pem: String,
    certificates: Vec<CertificateDer<'static>>,
}

impl ClientCa {
    /// The largest text.
    const MAX_BYTES: usize = 1 << 20;

    /// Reads the certificates of a PEM text.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, TlsError> {
        let refused = |reason: String| TlsError::ClientCa { reason };
        if pem.len() > Self::MAX_BYTES {
            return Err(refused(format!("it has more than {} bytes", Self::MAX_BYTES)));
        }
        let mut roots = RootCertStore::empty();
        let mut certificates = Vec::new();
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let of = |error: &dyn std::fmt::Display| refused(format!("certificate {}: {error}", index + 1));
            let certificate = certificate.map_err(|error| of(&error))?;
            roots.add(certificate.clone()).map_err(|error| of(&error))?;
            certificates.push(certificate);
        }
        if certificates.is_empty() {
            return Err(refused("it has no certificate in PEM form".to_owned()));
        }
        let encode = |certificate: &CertificateDer<'_>| {
            let text = BASE64_STANDARD.encode(certificate);
            let lines = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok());
            let lines: Vec<&str> = lines.collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        };
        Ok(ClientCa { pem: certificates.iter().map(encode).collect(), certificates })
    }
}

/// Returns the crypto provider of the features, never the process default. A feature that is asked for by name wins
/// over the default one.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    use rustls::crypto::aws_lc_rs::default_provider;
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    use rustls::crypto::ring::default_provider;

    Arc::new(default_provider())
}

impl Identity {
    /// Generates an authority, and certificates for the server at this address and for the administrator.
    #[cfg(test)]
    pub(crate) fn generate(address: IpAddr, admin: &User, now: Timestamp) -> Result<Self, TlsError> {
        Self::issue(address, admin, now, &IdentityKeys::generate(now)?, None)
    }

    /// Issues certificates for the server at this address and for the administrator. Clients may have certificates of
    /// `client_ca`, too.
    pub(crate) fn issue(
        address: IpAddr,
        admin: &User,
        now: Timestamp,
        keys: &IdentityKeys,
        client_ca: Option<&ClientCa>,
    ) -> Result<Self, TlsError> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let key_of = |pem: &str| KeyPair::from_pem(pem).map_err(TlsError::Certificate);
        let ca_der = CertificateDer::from_pem_slice(keys.ca_pem.as_bytes()).map_err(setup)?;
        let ca = Issuer::from_ca_cert_der(&ca_der, key_of(&keys.ca_key_pem)?).map_err(TlsError::Certificate)?;

        let mut serving = parameters(today, "evenkeel-apiserver", None);
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        if !addresses.contains(&address) {
            addresses.push(address);
        }
        let localhost = "localhost".try_into().map_err(TlsError::Certificate)?;
        serving.subject_alt_names = addresses.into_iter().map(SanType::IpAddress).collect();
        serving.subject_alt_names.push(SanType::DnsName(localhost));
        let serving_key = key_of(&keys.serving_key_pem)?;
        let serving = serving.signed_by(&serving_key, &ca).map_err(TlsError::Certificate)?;

        let mut client = parameters(today, &admin.name, admin.groups.first().map(String::as_str));
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = new_key()?;
        let client = client.signed_by(&client_key, &ca).map_err(TlsError::Certificate)?;

        let mut roots = RootCertStore::empty();
        roots.add(ca_der).map_err(setup)?;
        for certificate in client_ca.iter().flat_map(|ca| &ca.certificates) {
            roots.add(certificate.clone()).map_err(setup)?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(setup)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(serving_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(setup)?
            .with_client_cert_verifier(Arc::new(AnyCertificate(Arc::clone(&clients))))
            .with_single_cert(vec![serving.der().clone()], key)
            .map_err(setup)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Identity {
            ca_pem: keys.ca_pem.clone(),
            admin_certificate_pem: client.pem(),
            admin_key_pem: client_key.serialize_pem(),
            config: Arc::new(config),
            clients,
            ca,
        })
    }

    /// Issues the client certificate of a signing request, valid from a minute ago.
    pub(crate) fn sign(&self, request: &str, now: Timestamp, lifetime: Duration) -> Result<String, TlsError> {
        let mut request = CertificateSigningRequestParams::from_pem(request).map_err(TlsError::Certificate)?;
        let since_epoch = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0));
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        request.params.not_before = epoch + since_epoch(now).saturating_sub(Duration::from_secs(60));
        request.params.not_after = epoch + since_epoch(now).saturating_add(lifetime);
        request.params.is_ca = IsCa::NoCa;
        request.params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        request.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(request.signed_by(&self.ca).map_err(TlsError::Certificate)?.pem())
    }

    /// Verifies the client certificates of a handshake.
    pub(crate) fn judge(&self, certificates: Option<&[CertificateDer<'_>]>) -> ClientCertificate {
        let Some((leaf, intermediates)) = certificates.and_then(<[_]>::split_first) else {
            return ClientCertificate::Absent;
        };
        match self.clients.verify_client_cert(leaf, intermediates, UnixTime::now()) {
            Ok(_) => user_of(leaf).map_or(ClientCertificate::Invalid, ClientCertificate::Valid),
            Err(error) => {
                tracing::warn!(%error, "invalid client certificate");
                ClientCertificate::Invalid
            }
        }
    }
}

/// The attribute of a certificate's subject that is the uid of its user.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// Returns the user of a certificate: the (last) common name is the user, the organisations are the groups.
fn user_of(der: &[u8]) -> Option<User> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().last()?.as_str().ok().filter(|name| !name.is_empty())?;
    let groups: Result<Vec<String>, _> =
        subject.iter_organization().map(|group| group.as_str().map(str::to_owned)).collect();
    let mut uids = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID);
    let uid = match (uids.next(), uids.next()) {
        (None, _) => "",
        (Some(uid), None) => uid.as_str().ok().filter(|uid| !uid.is_empty())?,
        (Some(_), Some(_)) => return None,
    };
    let fingerprint: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
    let credential =
        ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={fingerprint}")]);
    Some(User { name: name.to_owned(), uid: uid.to_owned(), groups: groups.ok()?, extra: [credential].into() })
}

fn setup(error: impl std::error::Error + Send + Sync + 'static) -> TlsError {
    TlsError::Setup(Box::new(error))
}

fn new_key() -> Result<KeyPair, TlsError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(TlsError::Certificate)
}

/// Valid from yesterday, because clocks differ, and for a year.
fn parameters(today: Date, common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name = name;
    let part = |number: i8| u8::try_from(number).unwrap_or(1);
    let midnight = |date: Date| rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()));
    params.not_before = midnight(today.saturating_sub(1.day()));
    params.not_after = midnight(today.saturating_add(1.year()));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}

/// Accepts every certificate whose key the client proves to hold; [`Identity::judge`] verifies it later.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyCertificate {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
