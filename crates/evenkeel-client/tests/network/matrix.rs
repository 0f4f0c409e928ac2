//! One scenario over every protocol.

use std::sync::Arc;

use evenkeel_apiserver::{ApiServer, Builder};
use evenkeel_client::Wire;
use evenkeel_client::config::HttpVersions;
use evenkeel_client::tls::CryptoProvider;
use http::Version;
use rustls::crypto::{aws_lc_rs, ring};

use crate::scenario::everything;
use crate::support::{Tap, config, deserted, soon};

/// Runs the scenario in both wire formats.
async fn all_of_it_over(server: fn() -> Builder, http: HttpVersions, expected: Version) {
    for wire in [Wire::Automatic, Wire::Protobuf] {
        all_of_it_in(wire, server(), None, http, expected).await;
    }
}

async fn all_of_it_in(
    wire: Wire,
    server: Builder,
    provider: Option<CryptoProvider>,
    http: HttpVersions,
    expected: Version,
) {
    let server = server.start().await.unwrap();
    let mut config = config(&server);
    config.tls.crypto_provider = provider.map(Arc::new);
    config.connections.http = http;
    config.wire = wire;
    let tap = Tap::default();
    let client = tap.client(config);
    soon(everything(&server, &client)).await;
    let attempts = tap.attempts();
    assert!(attempts.len() > 60, "{}", attempts.len());
    for direction in [0, 1] {
        let count = attempts.iter().filter(|attempt| attempt.protobuf[direction]).count();
        assert_eq!(count > 20, wire == Wire::Protobuf, "{count} of {}", attempts.len());
    }
    for attempt in attempts {
        let (version, _) = attempt.answer.as_ref().unwrap();
        assert_eq!(*version, expected, "{attempt:?}");
    }
    assert_eq!(server.connections().rejected, 0);
    if expected == Version::HTTP_2 {
        assert!(server.connections().accepted <= 2, "one for calls, one for streams: {:?}", server.connections());
    }
    drop(client);
    deserted(&server).await;
}

#[tokio::test]
async fn everything_works_over_plain_http1() {
    all_of_it_over(ApiServer::builder, HttpVersions::Any, Version::HTTP_11).await;
}

#[tokio::test]
async fn everything_works_over_plain_http2() {
    all_of_it_over(ApiServer::builder, HttpVersions::Http2Only, Version::HTTP_2).await;
}

#[tokio::test]
async fn everything_works_over_tls_and_http2() {
    all_of_it_over(|| ApiServer::builder().tls(), HttpVersions::Any, Version::HTTP_2).await;
}

#[tokio::test]
async fn everything_works_over_tls_and_http1() {
    all_of_it_over(|| ApiServer::builder().tls(), HttpVersions::Http1Only, Version::HTTP_11).await;
}

#[tokio::test]
async fn everything_works_with_both_crypto_providers() {
    for provider in [ring::default_provider(), aws_lc_rs::default_provider()] {
        let server = ApiServer::builder().tls();
        all_of_it_in(Wire::Protobuf, server, Some(provider), HttpVersions::Any, Version::HTTP_2).await;
    }
}
