//! Both crypto providers, on either end, in one process.

use std::sync::Arc;

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use tokio::time::{Instant, advance};

use super::handshakes::{material, shake};
use super::pki::{Authority, Pair, VALID, providers, server_with};
use crate::config::{ConfigError, HttpVersions, Identity, Pem, PrivateKey, Tls};
use crate::small_file::tests::Folder;
use crate::tls::material::Material;
use crate::tls::provider::chosen;
use crate::tls::slot::{ClientIdentity, IdentitySlot};
use crate::tls::{CryptoProvider, ProviderIdentity, default_provider, for_proxies};

fn with(provider: &Arc<CryptoProvider>, tls: Tls) -> Tls {
    Tls { crypto_provider: Some(Arc::clone(provider)), ..tls }
}

#[tokio::test]
async fn client_certificates_of_every_kind_of_key_work_with_both_providers() {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let serving = authority.server(&["kube.test"], VALID);
    for kind in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let pair = clients.client_for("jane", kind);
        for (ours, provider) in providers() {
            for (theirs, other) in providers() {
                let server = server_with(other, &serving, &["h2"], Some(&clients));
                let identity = Some(pair.identity());
                let tls = with(&provider, Tls { identity, ..authority.trusted() });
                let shaken = shake(material(&tls).unwrap().current(), &server, "kube.test").await;
                let (_, theirs) = shaken.unwrap_or_else(|error| panic!("{ours} to {theirs}: {error}"));
                assert!(theirs.get_ref().1.peer_certificates().is_some());
            }
        }
    }
}

#[tokio::test]
async fn trust_is_checked_with_both_providers() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    for (name, provider) in providers() {
        for (names, years, trusted) in
            [(["kube.test"], VALID, true), (["other.test"], VALID, false), (["kube.test"], (2001, 2002), false)]
        {
            let server = server_with(Arc::clone(&provider), &authority.server(&names, years), &[], None);
            let config = material(&with(&provider, authority.trusted())).unwrap().current();
            assert_eq!(shake(config, &server, "kube.test").await.is_ok(), trusted, "{name}: {names:?} {years:?}");
            let config = material(&with(&provider, other.trusted())).unwrap().current();
            assert!(shake(config, &server, "kube.test").await.is_err(), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn files_rotate_with_both_providers() {
    for (name, provider) in providers() {
        let (one, two) = (Authority::new("one"), Authority::new("two"));
        let clients = Authority::new("clients");
        let first = server_with(Arc::clone(&provider), &one.server(&["kube.test"], VALID), &[], Some(&clients));
        let second = server_with(Arc::clone(&provider), &two.server(&["kube.test"], VALID), &[], Some(&clients));
        let folder = Folder::new();
        let write = |pair: &Pair| Identity {
            certificate: Pem::File(folder.write("tls.crt", &pair.certificate)),
            key: PrivateKey::File(folder.write("tls.key", &pair.key)),
        };
        let identity = Some(write(&clients.client("one")));
        let ca = Some(Pem::File(folder.write("ca", one.pem())));
        let material = material(&with(&provider, Tls { ca, identity, ..Tls::default() })).unwrap();
        let shown = async |server| {
            let config = material.for_handshake(Instant::now()).await;
            let (_, theirs) = shake(config, server, "kube.test").await.ok()?;
            Some(theirs.get_ref().1.peer_certificates()?.first()?.clone())
        };
        let before = shown(&first).await.unwrap();
        assert_eq!(shown(&second).await, None, "{name}");
        write(&clients.client("two"));
        folder.write("ca", two.pem());
        advance(std::time::Duration::from_secs(300)).await;
        let after = shown(&second).await.unwrap();
        assert_ne!(before, after, "{name}");
        assert_eq!(shown(&first).await, None, "{name}");
        assert_eq!(material.epoch(), 2, "{name}: once for the CA, once for the certificate");
    }
}

#[tokio::test]
async fn the_certificate_of_a_plugin_works_with_both_providers() {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    for (name, provider) in providers() {
        let serving = authority.server(&["kube.test"], VALID);
        let server = server_with(Arc::clone(&provider), &serving, &[], Some(&clients));
        let slot = IdentitySlot::new();
        let tls = with(&provider, authority.trusted());
        let material = Material::new(&tls, HttpVersions::Any, Instant::now()).unwrap();
        let material = Arc::new(material.following(Some(&slot)));
        let pair = clients.client("jane");
        let identity = ClientIdentity::parse(&pair.certificate, &pair.key.as_str().into(), &provider).unwrap();
        slot.set(Some(identity));
        let config = material.for_handshake(Instant::now()).await;
        assert!(shake(config, &server, "kube.test").await.is_ok(), "{name}");
        let other = clients.client("other");
        let error = ClientIdentity::parse(&pair.certificate, &other.key.as_str().into(), &provider).unwrap_err();
        assert!(error.to_string().contains("do not belong together"), "{name}: {error}");
    }
}

#[test]
fn a_passed_provider_wins_and_none_at_all_is_an_error() {
    let [(_, ring), (_, aws)] = providers();
    let same = |chosen: &Arc<CryptoProvider>, expected| Arc::ptr_eq(chosen, expected);
    assert!(same(&chosen(Some(&aws), Some(Arc::clone(&ring))).unwrap(), &aws));
    assert!(same(&chosen(Some(&ring), None).unwrap(), &ring));
    assert!(same(&chosen(None, Some(Arc::clone(&ring))).unwrap(), &ring));
    let error = chosen(None, None).unwrap_err();
    assert!(matches!(error, ConfigError::NoCryptoProvider), "{error:?}");
    let text = error.to_string();
    assert!(["`ring`", "`aws-lc-rs`", "`crypto_provider`"].iter().all(|remedy| text.contains(remedy)), "{text}");

    let config = material(&with(&aws, Authority::new("ours").trusted())).unwrap().current();
    assert!(same(config.crypto_provider(), &aws));
    assert!(same(for_proxies(&with(&aws, Tls::default())).unwrap().crypto_provider(), &aws), "for proxies too");
}

#[test]
fn of_several_features_aws_lc_rs_wins_and_the_process_default_has_no_effect() {
    let [(_, ring), (_, aws)] = providers();
    let expected = if cfg!(feature = "aws-lc-rs") { &aws } else { &ring };
    let suites = |provider: &CryptoProvider| format!("{:?}", provider.kx_groups);
    assert_ne!(suites(&ring), suites(&aws), "they differ in what is compared here");
    assert_eq!(suites(&default_provider().unwrap()), suites(expected));
    // With two providers in one build rustls has no process default, and panics where one is needed.
    assert!(CryptoProvider::get_default().is_none(), "none is installed");
    let config = material(&Authority::new("ours").trusted()).unwrap().current();
    assert!(Arc::ptr_eq(config.crypto_provider(), &default_provider().unwrap()));
}

#[test]
fn a_configuration_of_a_fips_provider_counts_as_fips() {
    let config = material(&Authority::new("ours").trusted()).unwrap().current();
    assert_eq!(config.fips(), cfg!(feature = "fips"));
    assert_eq!(default_provider().unwrap().fips(), cfg!(feature = "fips"));
    for (name, provider) in providers() {
        let config = material(&with(&provider, Authority::new("ours").trusted())).unwrap().current();
        assert_eq!(config.fips(), provider.fips(), "{name}");
        assert_eq!(config.require_ems, provider.fips(), "{name}");
    }
}

#[test]
fn connections_of_different_providers_are_not_shared_and_debug_is_short() {
    let [(_, ring), (_, aws)] = providers();
    let of = |provider| ProviderIdentity::of(&with(provider, Tls::default()));
    assert_eq!(of(&ring), of(&ring));
    assert_ne!(of(&ring), of(&aws));
    assert_eq!(ProviderIdentity::of(&Tls::default()), None);
    let shown = format!("{:?}", with(&ring, Tls::default()));
    assert!(shown.ends_with("crypto_provider: Some(_) }"), "{shown}");
}
