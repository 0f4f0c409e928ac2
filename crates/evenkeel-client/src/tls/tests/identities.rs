//! Client certificates, and that they are not leaked.

use super::handshakes::{material, shake};
use super::pki::{Authority, Pair, VALID, server};
use crate::config::{ConfigError, Identity, Pem, PrivateKey, Tls};
use crate::small_file::tests::Folder;

fn with(identity: Identity) -> Tls {
    Tls { identity: Some(identity), ..Authority::new("ours").trusted() }
}

#[tokio::test]
async fn trn_011_the_client_certificate_is_sent_from_data_or_from_files() {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = server(&authority.server(&["kube.test"], VALID), &[], Some(&clients));
    let pair = clients.client("jane");
    let folder = Folder::new();
    let certificate = Pem::File(folder.write("tls.crt", &pair.certificate));
    let key = PrivateKey::File(folder.write("tls.key", &pair.key));
    let mixed = Identity { certificate: certificate.clone(), key: pair.identity().key };
    for identity in [pair.identity(), Identity { certificate, key }, mixed] {
        let tls = Tls { identity: Some(identity), ..authority.trusted() };
        let (_, theirs) = shake(material(&tls).unwrap().current(), &server, "kube.test").await.unwrap();
        assert_eq!(theirs.get_ref().1.peer_certificates().unwrap().len(), 1);
    }
    let refused = shake(material(&authority.trusted()).unwrap().current(), &server, "kube.test").await;
    assert!(refused.is_err(), "this server wants one");
}

#[test]
fn sec_14_an_incomplete_pair_fails_the_client_build() {
    let Pair { certificate, key } = Authority::new("ours").client("jane");
    let folder = Folder::new();
    let data = |text: &str| Pem::Data(text.to_owned());
    let secret = |text: &str| PrivateKey::Data(text.into());
    for (certificate, key) in [
        (data(&certificate), secret("")),
        (data(&certificate), secret("no key")),
        (data(&certificate), secret(&certificate)),
        (data(""), secret(&key)),
        (data(&key), secret(&key)),
        (data(&certificate), PrivateKey::File(folder.path("missing"))),
        (Pem::File(folder.path("missing")), secret(&key)),
        (data(&certificate), PrivateKey::File(folder.write("empty", ""))),
    ] {
        let identity = Identity { certificate, key };
        let error = material(&with(identity.clone())).unwrap_err();
        let reported = matches!(error, ConfigError::Invalid { .. } | ConfigError::Read { .. });
        assert!(reported, "{identity:?}: {error}");
    }
}

#[test]
fn a_key_that_belongs_to_another_certificate_is_an_error() {
    let authority = Authority::new("ours");
    let (one, other) = (authority.client("one"), authority.client("other"));
    let error = material(&with(Identity { key: other.identity().key, ..one.identity() })).unwrap_err();
    assert!(error.to_string().contains("do not belong together"), "{error}");
}

#[test]
fn sec_9_no_error_contains_a_key() {
    let pair = Authority::new("ours").client("jane");
    // A key without its line breaks: the PEM parser would quote the whole line.
    let flat = pair.key.replace('\n', " ");
    let body = pair.key.lines().nth(1).unwrap();
    let broken = pair.key.replace(body, &format!("{body}!"));
    let cut = pair.key.replace("-----END", "");
    for key in [flat, broken, cut] {
        let identity = Identity { key: PrivateKey::Data(key.into()), ..pair.identity() };
        let error = material(&with(identity.clone())).unwrap_err();
        let shown = format!("{error} {error:?} {identity:?}");
        assert!(!shown.contains(&body[..20]), "{shown}");
    }
    let made = material(&with(pair.identity())).unwrap();
    assert!(!format!("{made:?}").contains(&body[..20]));
}
