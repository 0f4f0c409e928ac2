use http::HeaderMap;
use http::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

use super::super::{ChannelProtocol, ClientHandshake, HandshakeError, Refusal, ServerHandshake};

const BOTH: &[&str] = &ChannelProtocol::NAMES;

fn request(handshake: &ClientHandshake) -> HeaderMap {
    handshake.headers().into_iter().map(|(name, value)| (name, HeaderValue::try_from(value).unwrap())).collect()
}

#[test]
fn rcm_010_v5_is_preferred_and_v4_is_the_fallback() {
    let handshake = ClientHandshake::new(BOTH);
    assert_eq!(request(&handshake)[SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io, v4.channel.k8s.io");
    let accepted = ServerHandshake::accept(&request(&handshake), BOTH).unwrap();
    assert_eq!(handshake.check(&accepted.headers), Ok("v5.channel.k8s.io"));
    let accepted = ServerHandshake::accept(&request(&handshake), &["v4.channel.k8s.io"]).unwrap();
    assert_eq!(handshake.check(&accepted.headers), Ok("v4.channel.k8s.io"));
}

#[test]
fn rcm_016_sec_50_a_subprotocol_that_was_not_offered_is_an_error() {
    let handshake = ClientHandshake::new(BOTH);
    let mut headers = ServerHandshake::accept(&request(&handshake), BOTH).unwrap().headers;
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("channel.k8s.io"));
    assert_eq!(handshake.check(&headers), Err(HandshakeError::Subprotocol { chosen: "channel.k8s.io".into() }));
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    assert_eq!(handshake.check(&headers), Err(HandshakeError::Subprotocol { chosen: String::new() }));
}

#[test]
fn rcm_016_a_response_to_another_request_is_an_error() {
    let handshake = ClientHandshake::new(BOTH);
    let other = ServerHandshake::accept(&request(&ClientHandshake::new(BOTH)), BOTH).unwrap().headers;
    assert_eq!(handshake.check(&other), Err(HandshakeError::Header { name: "sec-websocket-accept" }));
    for (name, text) in
        [(UPGRADE, "upgrade"), (CONNECTION, "connection"), (SEC_WEBSOCKET_ACCEPT, "sec-websocket-accept")]
    {
        let mut headers = ServerHandshake::accept(&request(&handshake), BOTH).unwrap().headers;
        headers.remove(name);
        assert_eq!(handshake.check(&headers), Err(HandshakeError::Header { name: text }));
    }
}

#[test]
fn msc_6_a_server_refuses_spdy_and_requests_without_upgrade() {
    let refusal = |headers: &HeaderMap| ServerHandshake::accept(headers, BOTH).unwrap_err();
    assert_eq!(refusal(&HeaderMap::new()), Refusal::NoUpgrade);
    let mut headers = request(&ClientHandshake::new(BOTH));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    assert_eq!(refusal(&headers), Refusal::Spdy);
    let headers = request(&ClientHandshake::new(&["v3.channel.k8s.io"]));
    assert_eq!(refusal(&headers), Refusal::Subprotocol { supported: BOTH });
}
