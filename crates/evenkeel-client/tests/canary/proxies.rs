//! Proxies that receive credentials and refuse the tunnel.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use evenkeel_client::config::{Proxy, ProxyUrl, ServerUrl};
use evenkeel_client::{Client, Config};

use crate::log_capture::{CANARY, assert_hidden, assert_nothing_was_logged, assert_quiet, listen};
use crate::puppet::Puppet;

async fn try_through(scheme: &str, proxy: &Puppet) {
    let mut config = Config::new(ServerUrl::parse("https://api.invalid:6443").unwrap());
    config.retry.max_retries = 0;
    config.proxy = Proxy::Url(ProxyUrl::parse(&format!("{scheme}://u:{CANARY}@{}", proxy.address)).unwrap());
    assert_hidden("a config", &config);
    let client = Client::new(config).unwrap();
    assert_hidden("a client", &client);
    assert_quiet("a proxy", client.core_v1().secrets("default").get("a").await.unwrap_err());
}

#[tokio::test]
async fn sec_52_sec_5_a_refusing_proxy_causes_no_credential_in_errors() {
    listen();
    let answers = [
        format!("HTTP/1.1 407 {CANARY}\r\nproxy-authenticate: Basic realm={CANARY}\r\n\r\n{CANARY}"),
        format!("HTTP/1.1 302 Found\r\nlocation: http://u:{CANARY}@elsewhere\r\n\r\n"),
        format!("{CANARY}\r\n\r\n"),
        String::new(),
        // Tunnels to a target without TLS.
        format!("HTTP/1.1 200 OK\r\n\r\n{CANARY}"),
    ];
    for answer in answers {
        let proxy = Puppet::new(answer).await;
        try_through("http", &proxy).await;
        let credentials = BASE64_STANDARD.encode(format!("u:{CANARY}"));
        let expected = format!("Proxy-Authorization: Basic {credentials}\r\n");
        assert!(proxy.heard().await.contains(&expected), "the proxy received: {}", proxy.heard().await);
    }
    assert_nothing_was_logged();
}

#[tokio::test]
async fn sec_52_sec_5_a_refusing_socks_proxy_causes_no_credential_in_errors() {
    listen();
    // Requires name and password, and then rejects them; or accepts them, and cannot connect.
    for answer in [&b"\x05\x02\x01\x01"[..], b"\x05\x02\x01\x00\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", b"\x05\xff"] {
        let proxy = Puppet::new(answer).await;
        try_through("socks5", &proxy).await;
        let asked_for_them = answer[1] == 2;
        assert_eq!(proxy.heard().await.contains(CANARY), asked_for_them, "{:?}", proxy.heard().await);
    }
    assert_nothing_was_logged();
}
