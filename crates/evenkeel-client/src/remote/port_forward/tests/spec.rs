use std::net::IpAddr;

use super::super::spec::{ForwardedPort, LocalAddress, PortSpecError};

fn parse(text: &str) -> Result<(u16, u16), PortSpecError> {
    text.parse::<ForwardedPort>().map(|port| (port.local, port.remote))
}

#[test]
fn pfw_001_ports_have_the_forms_of_kubectl() {
    assert_eq!(parse("5000"), Ok((5000, 5000)));
    assert_eq!(parse("8888:5000"), Ok((8888, 5000)));
    assert_eq!(parse(":5000"), Ok((0, 5000)));
    assert_eq!(parse("0:5000"), Ok((0, 5000)));
    assert_eq!(parse("65535:65535"), Ok((65535, 65535)));
    assert_eq!(ForwardedPort::try_from(80).unwrap().to_string(), "80:80");
}

#[test]
fn pfw_001_other_forms_are_errors_that_name_the_text() {
    let remote = |text: &str| PortSpecError::Remote { text: text.to_owned() };
    let local = |text: &str| PortSpecError::Local { text: text.to_owned() };
    assert_eq!(parse("1:2:3"), Err(PortSpecError::Format { text: "1:2:3".into() }));
    assert_eq!(parse("5000:"), Err(remote("5000:")));
    assert_eq!(parse("5000:65536"), Err(remote("5000:65536")));
    assert_eq!(parse("5000:+1"), Err(remote("5000:+1")));
    for text in ["", "http", "-1", "65536", "a:80", " 80"] {
        assert_eq!(parse(text), Err(local(text)));
    }
    for text in ["0", ":0", "80:0"] {
        assert_eq!(parse(text), Err(PortSpecError::RemoteZero));
    }
    assert_eq!(ForwardedPort::try_from((80, 0)), Err(PortSpecError::RemoteZero));
}

fn addresses(texts: &[&str]) -> Result<Vec<(String, bool)>, String> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let parsed = LocalAddress::parse(&texts).map_err(str::to_owned)?;
    Ok(parsed.into_iter().map(|address| (IpAddr::to_string(&address.ip), address.is_localhost)).collect())
}

#[test]
fn pfw_002_localhost_is_both_families_and_addresses_are_sorted() {
    let named = |text: &str, is_localhost| (text.to_owned(), is_localhost);
    assert_eq!(addresses(&["localhost"]), Ok(vec![named("127.0.0.1", true), named("::1", true)]));
    assert_eq!(
        addresses(&["::", "localhost", "10.0.0.1", "127.0.0.1"]),
        Ok(vec![named("10.0.0.1", false), named("127.0.0.1", false), named("::", false), named("::1", true)])
    );
    assert_eq!(addresses(&["127.0.0.1", "kube.test"]), Err("kube.test".into()));
}
