//! CertificateSubjectRestriction: no client certificate for `system:masters`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite, text_at};
use crate::engine::ApiEngine;
use crate::engine::request_error::RequestError;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const GROUP: &str = "system:masters";
const PEM_TYPE: &str = "CERTIFICATE REQUEST";
/// The object identifier of an organization in a distinguished name (2.5.4.10), DER-encoded.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;

pub(super) struct CertificateSubjectRestriction;

impl AdmissionPlugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.creates("certificatesigningrequests.certificates.k8s.io")
    }

    fn validate(
        &self,
        _: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(request) = object.filter(|request| text_at(request, &["spec", "signerName"]) == SIGNER) else {
            return Ok(());
        };
        let pem = STANDARD.decode(text_at(request, &["spec", "request"])).unwrap_or_default();
        let organizations = match pem_block(&pem) {
            None => Err("PEM block type must be CERTIFICATE REQUEST"),
            Some(der) => organizations(&der).ok_or("x509: malformed certificate request"),
        };
        match organizations {
            Err(why) => Err(write.forbidden(request, format!("failed to parse CSR: {why}"))),
            Ok(groups) if groups.iter().any(|group| group == GROUP.as_bytes()) => {
                Err(write.forbidden(request, format!("use of {SIGNER} signer with {GROUP} group is not allowed")))
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Returns the bytes of the first PEM block, if it is a certificate request.
fn pem_block(pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let rest = text.get(text.find("-----BEGIN ")? + "-----BEGIN ".len()..)?;
    let rest = rest.strip_prefix(PEM_TYPE)?.strip_prefix("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let digits: String = body.chars().filter(|character| !character.is_whitespace()).collect();
    STANDARD.decode(digits).ok()
}

/// Returns the organizations in the subject of a DER-encoded certificate request; `None` if it is malformed.
fn organizations(der: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut request = DerReader(DerReader(der).take(SEQUENCE)?);
    let mut info = DerReader(request.take(SEQUENCE)?);
    info.take(INTEGER)?;
    let mut subject = DerReader(info.take(SEQUENCE)?);
    let mut found = Vec::new();
    while !subject.0.is_empty() {
        let mut attributes = DerReader(subject.take(SET)?);
        while !attributes.0.is_empty() {
            let mut attribute = DerReader(attributes.take(SEQUENCE)?);
            let kind = attribute.take(OBJECT_IDENTIFIER)?;
            let (_, value) = attribute.next()?;
            if kind == ORGANIZATION {
                found.push(value.to_vec());
            }
        }
    }
    Some(found)
}

/// Reads the elements of a DER encoding one after the other.
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// Returns the tag and the content of the next element.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match usize::from(*first) {
            short @ 0..0x80 => (short, rest),
            long => {
                // A request is limited to far less than four bytes of length.
                let (digits, rest) = rest.split_at_checked(long - 0x80).filter(|(digits, _)| digits.len() <= 4)?;
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// Returns the content of the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests;
