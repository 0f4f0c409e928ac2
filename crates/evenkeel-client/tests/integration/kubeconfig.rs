//! The kubeconfigs of the embedded API server, as a user of the library would load them.

use evenkeel_apiserver::ApiServer;
use evenkeel_client::Config;
use evenkeel_client::config::{Auth, Overrides, Pem, PrivateKey};

#[tokio::test]
async fn kcf_001_the_kubeconfig_of_a_server_with_tls_loads() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap();
    assert_eq!(config.server.to_string(), server.url());
    assert!(config.server.is_tls());
    assert_eq!(config.tls.ca, server.ca_pem().map(|pem| Pem::Data(pem.to_owned())));
    let identity = config.tls.identity.as_ref().unwrap();
    assert!(matches!(&identity.certificate, Pem::Data(pem) if pem.starts_with("-----BEGIN CERTIFICATE-----")));
    assert!(matches!(&identity.key, PrivateKey::Data(pem) if pem.expose().starts_with("-----BEGIN PRIVATE KEY-----")));
    assert!(!format!("{config:#?}").contains("BEGIN"));
    let untrusted = Config::from_untrusted(&server.kubeconfig()).unwrap();
    assert_eq!(untrusted.tls.identity, config.tls.identity);
    server.shutdown().await;
}

#[tokio::test]
async fn kcf_011_the_kubeconfig_file_of_a_server_with_a_token_loads() {
    let server = ApiServer::builder().plain_http().token("let-me-in").start().await.unwrap();
    let path = std::env::temp_dir().join(format!("evenkeel-kubeconfig-{}", std::process::id()));
    server.write_kubeconfig(&path).unwrap();
    let config = Config::from_kubeconfig_file(&path, &Overrides::default());
    std::fs::remove_file(&path).unwrap();
    let config = config.unwrap();
    assert_eq!(config.server.to_string(), server.url());
    assert_eq!(config.auth, Auth::Token("let-me-in".into()));
    server.shutdown().await;
}
