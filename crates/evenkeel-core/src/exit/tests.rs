use serde_json::{Value, json};

use super::{ExitStatus, ExitStatusError};

fn decode(value: Value) -> Result<u8, ExitStatusError> {
    ExitStatus::decode(value.to_string().as_bytes()).map(ExitStatus::code)
}

fn non_zero(details: Value) -> Value {
    json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "m", "details": details})
}

fn cause(code: &str) -> Value {
    json!({"causes": [{"reason": "Other", "message": "9"}, {"reason": "ExitCode", "message": code}]})
}

#[test]
fn rcm_003_success_and_exit_codes_are_results() {
    assert_eq!(decode(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})).unwrap(), 0);
    assert_eq!(decode(non_zero(cause("1"))).unwrap(), 1);
    assert_eq!(decode(non_zero(cause("255"))).unwrap(), 255);
}

#[test]
fn rcm_003_another_failure_is_its_status() {
    let failed = decode(json!({"status": "Failure", "reason": "InternalError", "message": "no such container"}));
    let Err(ExitStatusError::Failed(status)) = failed else { panic!("{failed:?}") };
    assert_eq!(status.message, "no such container");
}

#[test]
fn rcm_003_violations_of_the_protocol_are_errors() {
    for violation in [
        json!({"status": "Failure", "reason": "NonZeroExitCode"}),
        non_zero(json!({})),
        non_zero(json!({"causes": [{"reason": "Other", "message": "1"}]})),
        non_zero(cause("256")),
        non_zero(cause("-1")),
        non_zero(cause("+1")),
        non_zero(cause("")),
        non_zero(cause("one")),
        json!({"status": "Pending"}),
        json!({}),
        json!([]),
    ] {
        let decoded = decode(violation.clone());
        assert!(matches!(decoded, Err(ExitStatusError::Protocol { .. })), "{violation}: {decoded:?}");
    }
    let decoded = ExitStatus::decode(b"{");
    assert!(matches!(decoded, Err(ExitStatusError::Protocol { .. })), "{decoded:?}");
}

#[test]
fn msc_6_the_status_of_a_server_decodes_to_the_same_exit_code() {
    for code in [0, 1, 3, 127, 255] {
        let sent = serde_json::to_vec(&ExitStatus::exited(code).to_status()).unwrap();
        assert_eq!(ExitStatus::decode(&sent).unwrap(), ExitStatus::exited(code));
    }
}
