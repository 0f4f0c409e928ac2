//! Authorities, certificates and servers for tests.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SignatureAlgorithm, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::time::Instant;

use crate::config::{HttpVersions, Identity, Pem, PrivateKey, Tls};
use crate::tls::default_provider;
use crate::tls::material::Material;

/// The provider of tests that do not choose one.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    default_provider().unwrap()
}

/// Every provider, with its name.
pub(crate) fn providers() -> [(&'static str, Arc<CryptoProvider>); 2] {
    use rustls::crypto::{aws_lc_rs, ring};
    [("ring", Arc::new(ring::default_provider())), ("aws-lc-rs", Arc::new(aws_lc_rs::default_provider()))]
}

/// A certificate and its key in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pair {
    pub(crate) fn identity(&self) -> Identity {
        Identity { certificate: Pem::Data(self.certificate.clone()), key: PrivateKey::Data(self.key.as_str().into()) }
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    fn private(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// Which years a certificate is valid in.
pub(crate) type Years = (i32, i32);

pub(crate) const VALID: Years = (2020, 4000);

fn params(common_name: &str, names: &[&str], years: Years) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    params
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name, &[], VALID);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A configuration that trusts this authority alone.
    pub(crate) fn trusted(&self) -> Tls {
        Tls { ca: Some(Pem::Data(self.pem())), ..Tls::default() }
    }

    pub(crate) fn server(&self, names: &[&str], years: Years) -> Pair {
        self.issue(params("server", names, years), ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub(crate) fn client(&self, name: &str) -> Pair {
        self.issue(params(name, &[], VALID), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Issues a client certificate for a key of this kind.
    pub(crate) fn client_for(&self, name: &str, kind: &'static SignatureAlgorithm) -> Pair {
        let purpose = ExtendedKeyUsagePurpose::ClientAuth;
        self.issue_for(params(name, &[], VALID), purpose, KeyPair::generate_for(kind).unwrap())
    }

    /// Issues what a signing request in PEM requests.
    pub(crate) fn sign_request(&self, pem: &str, not_before: Timestamp, not_after: Timestamp) -> String {
        let mut request = CertificateSigningRequestParams::from_pem(pem).unwrap();
        let seconds = |time: Timestamp| Duration::from_secs(time.as_second().try_into().unwrap());
        request.params.not_before = date_time_ymd(1970, 1, 1) + seconds(not_before);
        request.params.not_after = date_time_ymd(1970, 1, 1) + seconds(not_after);
        request.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        request.signed_by(&self.0).unwrap().pem()
    }

    fn issue(&self, params: CertificateParams, purpose: ExtendedKeyUsagePurpose) -> Pair {
        self.issue_for(params, purpose, KeyPair::generate().unwrap())
    }

    fn issue_for(&self, mut params: CertificateParams, purpose: ExtendedKeyUsagePurpose, key: KeyPair) -> Pair {
        params.extended_key_usages = vec![purpose];
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Returns a signing request with a key that is known to no other.
pub(crate) fn foreign_request() -> String {
    params("agent", &[], VALID).serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

/// Returns a self-signed CA certificate for these purposes.
pub(crate) fn self_signed(name: &str, years: Years, purposes: &[ExtendedKeyUsagePurpose]) -> Pair {
    let mut params = params(name, &[name], years);
    params.extended_key_usages = purposes.to_vec();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Pair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

/// Returns a server with this certificate and these protocols, which accepts client certificates of this CA.
pub(crate) fn server(pair: &Pair, alpn: &[&str], clients: Option<&Authority>) -> Arc<ServerConfig> {
    server_with(provider(), pair, alpn, clients)
}

/// Returns the same server with this provider.
pub(crate) fn server_with(
    provider: Arc<CryptoProvider>,
    pair: &Pair,
    alpn: &[&str],
    clients: Option<&Authority>,
) -> Arc<ServerConfig> {
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.0.der().clone()).unwrap();
            builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap(),
            )
        }
    };
    let mut config = builder.with_single_cert(pair.chain(), pair.private()).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Returns a server that sends a certificate without having its key.
pub(crate) fn impostor(shown: &Pair, owned: &Pair) -> Arc<ServerConfig> {
    let key = provider().key_provider.load_private_key(owned.private()).unwrap();
    let certified = rustls::sign::CertifiedKey::new(shown.chain(), key);
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
    Arc::new(config)
}

/// Returns the same server with only this version of TLS.
pub(crate) fn only(pair: &Pair, version: &'static rustls::SupportedProtocolVersion) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(pair.chain(), pair.private())
        .unwrap();
    Arc::new(config)
}

/// A client of this configuration.
pub(crate) fn client(tls: &Tls, http: HttpVersions) -> Arc<ClientConfig> {
    Material::new(tls, http, Instant::now()).unwrap().current()
}
