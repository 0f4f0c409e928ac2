//! Trust: certificates, names and validity.

use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::client::TlsStream as Ours;
use tokio_rustls::server::TlsStream as Theirs;

use super::pki::{Authority, VALID, impostor, only, self_signed, server};
use crate::config::{ConfigError, HttpVersions, Pem, Tls};
use crate::small_file::tests::Folder;
use crate::tls::material::Material;
use crate::tls::{TlsError, handshake, server_name};
use crate::transport::connect::BoxIo;
use crate::transport::{TransportError, TransportFault};

/// Both ends of a connection within this process.
pub(super) async fn shake(
    client: Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> Result<(Ours<BoxIo>, Theirs<DuplexStream>), TransportError> {
    let (ours, theirs) = duplex(64 << 10);
    let accept = TlsAcceptor::from(Arc::clone(server)).accept(theirs);
    let name = server_name(name).unwrap();
    let (ours, theirs) = tokio::join!(handshake(client, name, Box::new(ours), "host"), accept);
    Ok((ours?, theirs.map_err(|error| TransportError::new(TransportFault::Other, "server", error))?))
}

pub(super) fn material(tls: &Tls) -> Result<Arc<Material>, ConfigError> {
    Material::new(tls, HttpVersions::Any, Instant::now()).map(Arc::new)
}

async fn outcome(tls: &Tls, server: &Arc<ServerConfig>, name: &str) -> Result<(), TransportError> {
    shake(material(tls).unwrap().current(), server, name).await.map(|_| ())
}

/// The error of a failed connection. Derefs to its TLS error.
struct Complaint(TransportError);

impl std::ops::Deref for Complaint {
    type Target = TlsError;

    fn deref(&self) -> &TlsError {
        std::error::Error::source(&self.0).unwrap().downcast_ref().unwrap()
    }
}

async fn complaint(tls: &Tls, server: &Arc<ServerConfig>, name: &str) -> Complaint {
    let complaint = Complaint(outcome(tls, server, name).await.unwrap_err());
    assert_eq!(complaint.0.fault(), TransportFault::Tls);
    assert!(!complaint.0.to_string().contains(&complaint.to_string()), "the cause is reported once");
    complaint
}

fn lenient() -> Tls {
    Tls { insecure_skip_verify: true, ..Tls::default() }
}

#[tokio::test]
async fn sec_10_sec_13_a_configured_ca_replaces_the_systems() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = server(&ours.server(&["kube.test"], VALID), &[], None);
    outcome(&ours.trusted(), &server, "kube.test").await.unwrap();
    assert!(matches!(*complaint(&other.trusted(), &server, "kube.test").await, TlsError::Untrusted));
    assert!(matches!(*complaint(&Tls::default(), &server, "kube.test").await, TlsError::Untrusted), "the system's");
    let both = Tls { ca: Some(Pem::Data(format!("{}\n# and\n{}", other.pem(), ours.pem()))), ..Tls::default() };
    outcome(&both, &server, "kube.test").await.unwrap();
}

#[tokio::test]
async fn sec_12_the_name_is_checked_and_addresses_are_names() {
    let authority = Authority::new("ours");
    let server = server(&authority.server(&["kube.test", "10.1.2.3", "fd00::1"], VALID), &[], None);
    for name in ["kube.test", "kube.test.", "10.1.2.3", "fd00::1"] {
        outcome(&authority.trusted(), &server, name).await.unwrap();
    }
    for name in ["other.test", "10.1.2.4", "fd00::2"] {
        match &*complaint(&authority.trusted(), &server, name).await {
            TlsError::WrongName { expected, presented } => {
                assert_eq!(expected, name);
                assert_eq!(presented.len(), 3);
                assert!(presented.iter().any(|name| name.contains("kube.test")));
            }
            error => panic!("{error:?}"),
        }
    }
    assert!(server_name("").is_err());
    assert!(server_name("a b").is_err());
}

#[tokio::test]
async fn sec_12_tls_1_2_and_1_3_are_supported() {
    let authority = Authority::new("ours");
    let pair = authority.server(&["kube.test"], VALID);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = material(&authority.trusted()).unwrap().current();
        let (ours, _) = shake(config, &only(&pair, version), "kube.test").await.unwrap();
        assert_eq!(ours.get_ref().1.protocol_version(), Some(version.version));
    }
}

#[tokio::test]
async fn sec_12_tls_1_1_is_rejected() {
    let (ours, mut theirs) = duplex(64 << 10);
    let hello = async {
        let mut hello = vec![0x16, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2];
        hello.extend_from_slice(&[7; 32]);
        hello.extend_from_slice(&[0, 0xc0, 0x13, 0]);
        theirs.write_all(&hello).await.unwrap();
        // The client's hello and close, so that the connection does not end before the response was read.
        let mut rest = Vec::new();
        let _ = theirs.read_to_end(&mut rest).await;
    };
    let config = material(&lenient()).unwrap().current();
    let attempt = handshake(config, server_name("kube.test").unwrap(), Box::new(ours), "host");
    let (error, ()) = tokio::join!(async { attempt.await.err().unwrap() }, hello);
    let complaint = Complaint(error);
    assert!(matches!(*complaint, TlsError::Rustls(rustls::Error::PeerIncompatible(_))), "{:?}", *complaint);
}

#[test]
fn sec_11_trn_009_an_authority_and_no_verification_exclude_each_other() {
    let both = Tls { insecure_skip_verify: true, ..Authority::new("ours").trusted() };
    let error = material(&both).unwrap_err();
    let text = "specifying a root certificates file with the insecure flag is not allowed";
    assert!(error.to_string().contains(text), "{error}");
}

#[tokio::test]
async fn sec_10_without_verification_any_certificate_is_accepted_but_the_key_is_checked() {
    let authority = Authority::new("ours");
    let expired = authority.server(&["other.test"], (2001, 2002));
    outcome(&lenient(), &server(&expired, &[], None), "kube.test").await.unwrap();
    let owned = authority.server(&["kube.test"], VALID);
    for tls in [lenient(), authority.trusted()] {
        let shown = authority.server(&["kube.test"], VALID);
        let error = complaint(&tls, &impostor(&shown, &owned), "kube.test").await;
        assert!(matches!(*error, TlsError::Rustls(_)), "{:?}", *error);
    }
}

#[tokio::test]
async fn sec_17_an_expired_certificate_is_named_with_its_date() {
    let authority = Authority::new("ours");
    let expired = server(&authority.server(&["kube.test"], (2001, 2002)), &[], None);
    let error = complaint(&authority.trusted(), &expired, "kube.test").await;
    assert_eq!(error.to_string(), "the server's certificate expired at 2002-01-01T00:00:00Z");
    let early = server(&authority.server(&["kube.test"], (3998, 3999)), &[], None);
    let error = complaint(&authority.trusted(), &early, "kube.test").await;
    assert_eq!(error.to_string(), "the server's certificate is not valid before 3998-01-01T00:00:00Z");
}

#[tokio::test]
async fn a_self_signed_certificate_as_the_ca_is_trusted_for_its_name_and_validity() {
    let trust = |pair: &super::pki::Pair| Tls { ca: Some(Pem::Data(pair.certificate.clone())), ..Tls::default() };
    let pair = self_signed("kube.test", VALID, &[]);
    outcome(&trust(&pair), &server(&pair, &[], None), "kube.test").await.unwrap();
    let error = complaint(&trust(&pair), &server(&pair, &[], None), "other.test").await;
    assert!(matches!(*error, TlsError::WrongName { .. }), "{:?}", *error);
    let twin = self_signed("kube.test", VALID, &[]);
    outcome(&trust(&pair), &server(&twin, &[], None), "kube.test").await.unwrap_err();
    let expired = self_signed("kube.test", (2001, 2002), &[]);
    let error = complaint(&trust(&expired), &server(&expired, &[], None), "kube.test").await;
    assert!(matches!(*error, TlsError::Expired { .. }), "{:?}", *error);
    for (purpose, fine) in [(ServerAuth, true), (Any, true), (ClientAuth, false)] {
        let pair = self_signed("kube.test", VALID, &[purpose]);
        assert_eq!(outcome(&trust(&pair), &server(&pair, &[], None), "kube.test").await.is_ok(), fine);
    }
    let early = self_signed("kube.test", (3998, 3999), &[]);
    let error = complaint(&trust(&early), &server(&early, &[], None), "kube.test").await;
    assert!(matches!(*error, TlsError::NotYetValid { .. }), "{:?}", *error);
}

#[test]
fn trn_009_unreadable_cas_fail_the_client_build() {
    let folder = Folder::new();
    let file = |path| Tls { ca: Some(Pem::File(path)), ..Tls::default() };
    let missing = material(&file(folder.path("missing"))).unwrap_err();
    assert!(matches!(&missing, ConfigError::Read { path, .. } if path.ends_with("missing")), "{missing}");
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for content in ["\n", "hello", garbage] {
        let error = material(&file(folder.write("ca", content))).unwrap_err();
        assert!(matches!(error, ConfigError::Read { .. }), "{error}");
        let error = material(&Tls { ca: Some(Pem::Data(content.into())), ..Tls::default() }).unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { .. }), "{error}");
    }
    assert!(material(&Tls { ca: Some(Pem::Data(String::new())), ..Tls::default() }).is_err());
}

#[tokio::test]
async fn trn_010_an_empty_ca_file_trusts_no_server() {
    let folder = Folder::new();
    let tls = Tls { ca: Some(Pem::File(folder.write("ca", ""))), ..Tls::default() };
    let server = server(&Authority::new("ours").server(&["kube.test"], VALID), &[], None);
    assert!(matches!(*complaint(&tls, &server, "kube.test").await, TlsError::Untrusted));
}

#[tokio::test]
async fn trn_008_alpn_offers_the_allowed_versions() {
    let authority = Authority::new("ours");
    let pair = authority.server(&["kube.test"], VALID);
    for (http, offered, chosen) in [
        (HttpVersions::Any, &["h2", "http/1.1"][..], Some("h2")),
        (HttpVersions::Any, &["http/1.1"], Some("http/1.1")),
        (HttpVersions::Any, &[], None),
        (HttpVersions::Http1Only, &["h2", "http/1.1"], Some("http/1.1")),
        (HttpVersions::Http2Only, &["http/1.1", "h2"], Some("h2")),
    ] {
        let material = Material::new(&authority.trusted(), http, Instant::now()).unwrap();
        let (ours, _) = shake(material.current(), &server(&pair, offered, None), "kube.test").await.unwrap();
        assert_eq!(ours.get_ref().1.alpn_protocol(), chosen.map(str::as_bytes), "{http:?} {offered:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_recognised() {
    let (ours, mut theirs) = duplex(64 << 10);
    let answer = async {
        theirs.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = theirs.read_to_end(&mut rest).await;
    };
    let config = material(&lenient()).unwrap().current();
    let attempt = handshake(config, server_name("kube.test").unwrap(), Box::new(ours), "host");
    let (error, ()) = tokio::join!(async { attempt.await.err().unwrap() }, answer);
    let complaint = Complaint(error);
    assert!(matches!(*complaint, TlsError::NotTls), "{:?}", *complaint);
}
