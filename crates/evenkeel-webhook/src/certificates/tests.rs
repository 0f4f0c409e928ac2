//! Certificates as clients see them.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::*;

const NAMES: [&str; 2] = ["hooks.system.svc", "hooks.system.svc.cluster.local"];

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[test]
fn rot_002_a_serving_certificate_is_valid_for_ninety_days() {
    let authority = Authority::generate(now()).unwrap();
    let issued = authority.issue(&NAMES, now()).unwrap();
    let pair = issued.serve().unwrap().get().unwrap();
    assert_eq!(pair.not_before(), now() - Duration::from_secs(60 * 60));
    assert_eq!(pair.not_after(), now() + Duration::from_secs(90 * 24 * 60 * 60));
    assert!(NAMES.into_iter().all(|name| pair.is_for(name)) && !pair.is_for("other"));
    let shown = format!("{authority:?} {issued:?}");
    assert!(shown.contains("CERTIFICATE") && !shown.contains("PRIVATE"), "{shown}");
}

#[test]
fn rot_004_serial_numbers_are_random() {
    let authority = Authority::generate(now()).unwrap();
    let serial = |pem: &str| {
        let der = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(
            pem.as_bytes(),
        );
        let der = der.unwrap();
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        certificate.raw_serial().to_vec()
    };
    let issued = (0..8).map(|_| serial(authority.issue(&NAMES, now()).unwrap().certificate()));
    let serials: BTreeSet<_> = issued.chain([serial(authority.certificate())]).collect();
    assert_eq!(serials.len(), 9);
    assert!(serials.iter().all(|serial| serial.len() <= 16 && serial[0] < 0x80));
}
