use super::*;

const SERVER: &str = "https://kube.test:6443 (from --server)";

#[test]
fn every_fault_names_the_server_once() {
    for fault in [
        TransportFault::Resolve,
        TransportFault::Refused,
        TransportFault::Connect,
        TransportFault::ConnectTimeout,
        TransportFault::Proxy,
        TransportFault::Tls,
        TransportFault::Credentials,
        TransportFault::Reset,
        TransportFault::Closed,
        TransportFault::Timeout,
        TransportFault::Protocol,
    ] {
        let sentence = unreachable(SERVER, true, &TransportError::new(fault, "kube.test", "the cause"));
        assert_eq!(sentence.matches(SERVER).count(), 1, "{sentence}");
        assert!(!sentence.contains('\n'), "{sentence}");
    }
}

#[test]
fn a_timeout_names_what_to_check() {
    let timeout = TransportError::bare(TransportFault::ConnectTimeout, "kube.test");
    assert_eq!(
        unreachable(SERVER, true, &timeout),
        "connecting to https://kube.test:6443 (from --server) timed out; check the address and the network"
    );
}
