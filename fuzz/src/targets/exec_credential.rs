//! What exec plugins print (FUZ-15). The first byte selects the version; the rest is the output.

use evenkeel_client::auth::ExecApiVersion;
use evenkeel_client::internals::parse_exec_credential;
use serde_json::Value;

use crate::budget::{TREE, within};
use crate::input::Input;
use crate::sloppy_json;

/// A text that must not be seen: it stands in place of all secrets.
const CANARY: &str = "zq-canary-zq";

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let version = input.choice(&[ExecApiVersion::V1, ExecApiVersion::V1Beta1]);
    let output = input.0;
    check(version, output);
    // Output that goes on after the credential, and output that is cut off.
    check(version, &[output, CANARY.as_bytes()].concat());
    check(version, &[&b"\""[..], CANARY.as_bytes(), output].concat());
    // Secrets in every place of the status.
    let mut credential = sloppy_json::take_value(&mut { output });
    if let Some(status) = credential.get_mut("status") {
        put_canary(status);
    }
    check(version, credential.to_string().as_bytes());
}

fn check(version: ExecApiVersion, output: &[u8]) {
    match within(TREE, output.len(), || parse_exec_credential(version, output)) {
        Ok(credential) => {
            // Members that are not part of a credential may have bytes that are no text.
            let printed: Value = serde_json::from_str(&String::from_utf8_lossy(output)).expect("a credential is JSON");
            let status = &printed["status"];
            assert_eq!(printed["apiVersion"], version.as_str());
            if let Some(token) = &credential.token {
                assert_eq!(status["token"], token.expose(), "the token");
            }
            if let Some((certificate, key)) = &credential.certificate {
                assert_eq!(status["clientCertificateData"], certificate.as_str(), "the certificate");
                assert_eq!(status["clientKeyData"], key.expose(), "the key");
            }
            assert!(credential.token.is_some() || credential.certificate.is_some(), "a credential without one");
            let shown = format!("{:?} {:?}", credential.token, credential.certificate.map(|(_, key)| key));
            assert!(!shown.contains(CANARY), "a secret is shown: {shown}");
        }
        Err(problem) => {
            let shown = format!("{problem} {problem:?}");
            assert!(!shown.contains(CANARY), "output is repeated: {shown}");
        }
    }
}

fn put_canary(value: &mut Value) {
    match value {
        Value::String(text) if !text.is_empty() => text.push_str(CANARY),
        Value::Object(members) => members.values_mut().for_each(put_canary),
        Value::Array(items) => items.iter_mut().for_each(put_canary),
        _ => {}
    }
}
