use http::{HeaderMap, HeaderValue, Uri, header};

use crate::http_types::User;
use crate::listener::auth::{Authenticator, ClientCertificate, Tokens, admin};
use crate::listener::cross_site::check_host;
use crate::listener::tls::{ClientCa, Identity, IdentityKeys};

fn user(name: &str) -> User {
    User { name: name.into(), ..User::default() }
}

fn with_token(anonymous: bool) -> Authenticator {
    let mut tokens = Tokens::default();
    tokens.add("secret", user("alice"));
    tokens.add("other", user("bob"));
    Authenticator { anonymous, tokens, ..Authenticator::default() }
}

fn bearer(text: &'static str) -> HeaderValue {
    HeaderValue::from_static(text)
}

#[test]
fn aut_1_without_authentication_every_request_is_the_administrators() {
    let auth = Authenticator { open: true, ..Authenticator::default() };
    let user = auth.authenticate(Some(&bearer("Bearer whatever")), &ClientCertificate::Absent, |_| None).unwrap();
    assert_eq!(user.name, "system:admin");
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
}

#[test]
fn aut_2_bearer_tokens() {
    let auth = with_token(true);
    let ask = |value: &'static str| auth.authenticate(Some(&bearer(value)), &ClientCertificate::Absent, |_| None);
    assert_eq!(ask("Bearer secret").unwrap().name, "alice");
    assert_eq!(ask("bEaReR other").unwrap().name, "bob");
    let refused = ask("Bearer wrong").unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (401, "Unauthorized"));
    assert_eq!(ask("Basic c2VjcmV0").unwrap().name, "system:anonymous", "not a bearer token at all");
}

#[test]
fn aut_2_tokens_do_not_show_in_debug() {
    let shown = format!("{:?}", with_token(false));
    assert!(shown.contains("[redacted]") && !shown.contains("secret"), "{shown}");
}

#[test]
fn aut_3_a_certificate_names_user_and_groups() {
    let mut someone = user("carol");
    someone.groups = vec!["dev".into()];
    let now = jiff::Timestamp::from_second(rustls_now()).unwrap();
    let identity = Identity::generate([127, 0, 0, 1].into(), &someone, now).unwrap();
    let der = pem(&identity.admin_certificate_pem);
    let ClientCertificate::Valid(seen) = identity.judge(Some(&[der.as_slice().into()])) else {
        panic!("a certificate of the server's own authority");
    };
    assert_eq!((&seen.name, &seen.uid, &seen.groups), (&someone.name, &String::new(), &someone.groups));
    let credential = &seen.extra["authentication.kubernetes.io/credential-id"][0];
    let fingerprint = credential.strip_prefix("X509SHA256=").unwrap();
    assert!(fingerprint.len() == 64 && fingerprint.chars().all(|digit| digit.is_ascii_hexdigit()), "{credential}");
    assert_eq!(identity.judge(None), ClientCertificate::Absent);
    assert_eq!(identity.judge(Some(&[b"junk".as_slice().into()])), ClientCertificate::Invalid);
    let other = Identity::generate([127, 0, 0, 1].into(), &someone, now).unwrap();
    assert_eq!(other.judge(Some(&[der.as_slice().into()])), ClientCertificate::Invalid);
    let old = jiff::Timestamp::from_second(1_000_000_000).unwrap();
    let expired = Identity::generate([127, 0, 0, 1].into(), &someone, old).unwrap();
    let der = pem(&expired.admin_certificate_pem);
    assert_eq!(expired.judge(Some(&[der.as_slice().into()])), ClientCertificate::Invalid);
}

/// Issues a certificate with these names, and returns an identity that accepts it.
fn judged(names: &[(rcgen::DnType, &str)]) -> ClientCertificate {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::default();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = rcgen::CertifiedIssuer::self_signed(ca, key).unwrap();
    let mut client = rcgen::CertificateParams::default();
    client.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in names {
        client.distinguished_name.push(kind.clone(), *value);
    }
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let client = client.signed_by(&rcgen::KeyPair::generate().unwrap(), &ca).unwrap();
    let now = jiff::Timestamp::from_second(rustls_now()).unwrap();
    let client_ca = ClientCa::parse(ca.pem().as_bytes()).unwrap();
    let keys = IdentityKeys::generate(now).unwrap();
    let identity = Identity::issue([127, 0, 0, 1].into(), &admin(), now, &keys, Some(&client_ca)).unwrap();
    identity.judge(Some(&[client.der().clone()]))
}

#[test]
fn aut_16_certificates_of_the_users_authority_name_user_groups_and_uid() {
    let uid = rcgen::DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let names = [(rcgen::DnType::CommonName, "carol"), (rcgen::DnType::OrganizationName, "dev"), (uid.clone(), "u-17")];
    let ClientCertificate::Valid(carol) = judged(&names) else { panic!("a valid certificate") };
    assert_eq!((carol.name.as_str(), carol.uid.as_str()), ("carol", "u-17"));
    assert_eq!(carol.groups, ["dev"]);
    assert_eq!(judged(&[(rcgen::DnType::CommonName, "carol"), (uid, "")]), ClientCertificate::Invalid);
    assert_eq!(judged(&[(rcgen::DnType::OrganizationName, "dev")]), ClientCertificate::Invalid, "without a name");
}

#[test]
fn aut_16_a_text_without_certificates_is_no_client_ca() {
    let large = vec![b'-'; (1 << 20) + 1];
    for (text, expected) in [
        (&b"nothing"[..], "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1"),
        (&large, "more than 1048576 bytes"),
    ] {
        let error = ClientCa::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn aut_3_invalid_certificates_do_not_count_as_absent() {
    let auth = with_token(true);
    assert_eq!(auth.authenticate(None, &ClientCertificate::Invalid, |_| None).unwrap_err().code, 401);
    let carol = ClientCertificate::Valid(user("carol"));
    assert_eq!(auth.authenticate(None, &carol, |_| None).unwrap().groups, ["system:authenticated"]);
}

#[test]
fn aut_4_anonymous_only_where_allowed() {
    let anonymous = with_token(true).authenticate(None, &ClientCertificate::Absent, |_| None).unwrap();
    assert_eq!(anonymous.name, "system:anonymous");
    assert_eq!(anonymous.groups, ["system:unauthenticated"]);
    let refused = with_token(false).authenticate(None, &ClientCertificate::Absent, |_| None);
    assert!(refused.unwrap_err().is_unauthorized());
}

#[test]
fn sec_61_every_start_has_its_own_certificates() {
    let now = jiff::Timestamp::from_second(rustls_now()).unwrap();
    let make = || Identity::generate([127, 0, 0, 1].into(), &admin(), now).unwrap();
    let (one, two) = (make(), make());
    assert_ne!(one.ca_pem, two.ca_pem);
    assert_ne!(one.admin_key_pem, two.admin_key_pem);
}

#[test]
fn sec_62_foreign_host_names_are_refused() {
    let check = |host: Option<&'static str>, origin: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, bearer(host));
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, bearer(origin));
        }
        check_host(&Uri::from_static("/api"), &headers).map_err(|status| status.code)
    };
    for host in ["127.0.0.1:80", "localhost", "LOCALHOST:6443", "[::1]:80", "192.168.0.7"] {
        assert_eq!(check(Some(host), None), Ok(()), "{host}");
    }
    assert_eq!(check(None, None), Ok(()));
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
        assert_eq!(check(Some(host), None), Err(403), "{host}");
    }
    assert_eq!(check(Some("localhost"), Some("http://evil.example")), Err(403));
    assert_eq!(check(Some("localhost"), Some("null")), Err(403));
    assert_eq!(check(Some("localhost"), Some("http://localhost:3000")), Ok(()));
    let absolute = Uri::from_static("http://evil.example/api");
    assert!(check_host(&absolute, &HeaderMap::new()).is_err());
}

/// The time that rustls uses.
fn rustls_now() -> i64 {
    i64::try_from(rustls::pki_types::UnixTime::now().as_secs()).unwrap()
}

fn pem(text: &str) -> Vec<u8> {
    x509_parser::pem::parse_x509_pem(text.as_bytes()).unwrap().1.contents
}
