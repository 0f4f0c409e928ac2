use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::{organizations, pem_block};

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short @ 0..0x80) => element.push(short),
        _ => {
            element.push(0x82);
            element.extend(u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    element.extend(content);
    element
}

fn request(organizations: &[&str]) -> Vec<u8> {
    let attribute = |kind: u8, value: &str| {
        let name = element(0x06, &[0x55, 0x04, kind]);
        element(0x31, &element(0x30, &[name, element(0x0c, value.as_bytes())].concat()))
    };
    let mut subject = attribute(0x03, "a common name");
    subject.extend(organizations.iter().flat_map(|organization| attribute(0x0a, organization)));
    let info = element(0x30, &[element(0x02, &[0]), element(0x30, &subject)].concat());
    element(0x30, &info)
}

#[test]
fn adm_001_organizations_of_a_request_are_found() {
    let long = "x".repeat(300);
    let found = organizations(&request(&["a", &long]));
    assert_eq!(found, Some(vec![b"a".to_vec(), long.into_bytes()]));
    assert_eq!(organizations(&request(&[])), Some(Vec::new()));
    assert_eq!(organizations(&[]), None);
    assert_eq!(organizations(&[0x30, 0x85, 1, 1, 1, 1, 1]), None);
}

#[test]
fn adm_001_only_a_certificate_request_is_read() {
    let block =
        |kind: &str| format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode("der")).into_bytes();
    assert_eq!(pem_block(&block("CERTIFICATE REQUEST")), Some(b"der".to_vec()));
    assert_eq!(pem_block(&block("CERTIFICATE")), None);
    assert_eq!(pem_block(b"text"), None);
}

proptest! {
    #[test]
    fn adm_001_malformed_requests_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = organizations(&bytes);
        let _ = pem_block(&bytes);
    }
}
