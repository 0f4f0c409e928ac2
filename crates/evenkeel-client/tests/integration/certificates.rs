//! Certificate managers over TLS: requested with a token, signed by the server, and used by clients.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, User};
use evenkeel_client::certificates::{
    CertificateManager, CertificateTemplate, FileCertificateStore, KUBE_APISERVER_CLIENT,
};
use evenkeel_client::config::{Auth, Pem, Proxy, ServerUrl};
use evenkeel_client::tls::CryptoProvider;
use evenkeel_client::{Client, Config, ListParams};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use rustls::crypto::{aws_lc_rs, ring};
use tokio::task::JoinHandle;

/// Ends a test that hangs. No test depends on how long this is.
async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(120), future.into_future())
        .await
        .expect("this takes so long that it will never end")
}

async fn server() -> Arc<ApiServer> {
    let user = User { name: "bootstrap".into(), ..User::default() };
    Arc::new(ApiServer::builder().tls().tokens([("the-bootstrap-token".to_owned(), user)]).start().await.unwrap())
}

fn bootstrap(server: &ApiServer, provider: CryptoProvider) -> Config {
    let mut config = Config::new(ServerUrl::parse(server.url()).unwrap());
    config.proxy = Proxy::Direct;
    config.tls.ca = server.ca_pem().map(|pem| Pem::Data(pem.to_owned()));
    config.tls.crypto_provider = Some(Arc::new(provider));
    config.auth = Auth::Token("the-bootstrap-token".into());
    config
}

/// Approves and signs every request, as an approver and kube-controller-manager do.
fn signer(server: &Arc<ApiServer>) -> JoinHandle<()> {
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let requests = server.client().api::<CertificateSigningRequest>();
        loop {
            for request in requests.list(&ListParams::default()).await.unwrap().items {
                let mut request = (*request.typed().unwrap()).clone();
                if request.status.as_ref().is_some_and(|status| status.certificate.is_some()) {
                    continue;
                }
                request.status.get_or_insert_default().conditions = Some(vec![CertificateSigningRequestCondition {
                    type_: "Approved".into(),
                    status: "True".into(),
                    ..CertificateSigningRequestCondition::default()
                }]);
                let approved = requests.approval().update(&request).await.unwrap();
                let mut approved = (*approved.typed().unwrap()).clone();
                let pem = String::from_utf8(request.spec.request.0).unwrap();
                let issued = server.sign_certificate(&pem, Duration::from_secs(3600)).unwrap();
                approved.status.get_or_insert_default().certificate = Some(ByteString(issued.into_bytes()));
                requests.status().update(&approved).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    })
}

async fn whoami(client: &Client) -> (String, Vec<String>) {
    let review = soon(client.authentication_v1().self_subject_reviews().create(&Default::default())).await.unwrap();
    let info = review.status.unwrap().user_info.unwrap();
    (info.username.unwrap(), info.groups.unwrap_or_default())
}

#[tokio::test]
async fn a_client_continues_with_its_renewed_certificate() {
    for (name, provider) in [("ring", ring::default_provider()), ("aws-lc-rs", aws_lc_rs::default_provider())] {
        let server = server().await;
        let signer = signer(&server);
        // A manager that is dropped may still be writing a file, so the directory goes when it can.
        let directory = tempfile::tempdir().unwrap();
        let start = |provider| {
            let template = CertificateTemplate::new("agent-7").organization("agents");
            CertificateManager::builder(bootstrap(&server, provider), KUBE_APISERVER_CLIENT, template)
                .store(FileCertificateStore::new(directory.path(), "agent").unwrap())
                .start()
        };
        let manager = soon(start(provider.clone())).await.unwrap();
        soon(manager.ready()).await.unwrap();
        let client = manager.client();
        let (user, groups) = whoami(&client).await;
        assert_eq!(user, "agent-7", "{name}");
        assert!(groups.contains(&"agents".to_owned()), "{name}: {groups:?}");
        let created = |user: &str| {
            let requests = server.requests().into_iter();
            requests.filter(|request| request.user == user && request.method == "POST").count()
        };
        assert_eq!(created("bootstrap"), 1, "{name}: the first request is made with the token");

        let before = (server.connections().accepted, manager.status().expires);
        manager.set_template(CertificateTemplate::new("agent-7").organization("renewed"));
        let is_renewed = async {
            while !whoami(&client).await.1.contains(&"renewed".to_owned()) {
                tokio::task::yield_now().await;
            }
        };
        soon(is_renewed).await;
        assert!(server.connections().accepted > before.0, "{name}: with another connection");
        assert_eq!(created("bootstrap"), 1, "{name}: the second request is made with the first certificate");

        // Other clients use the same certificate, also after a restart, without another request.
        drop(manager);
        signer.abort();
        let manager = soon(start(provider)).await.unwrap();
        soon(manager.ready()).await.unwrap();
        let mut config = manager.client().config().clone();
        config.tls.rotating_identity = Some(manager.identity());
        // The template of the restarted manager is the first one, so it requests another certificate.
        assert!(whoami(&Client::new(config).unwrap()).await.1.contains(&"renewed".to_owned()), "{name}");
    }
}

#[tokio::test]
async fn a_rotating_certificate_excludes_other_certificates_and_plain_http() {
    let server = server().await;
    let config = bootstrap(&server, ring::default_provider());
    let manager = CertificateManager::builder(config.clone(), KUBE_APISERVER_CLIENT, CertificateTemplate::new("a"));
    let manager = manager.start().await.unwrap();
    let mut both = Config::from_kubeconfig_str(&server.kubeconfig(), &Default::default()).unwrap();
    both.tls.rotating_identity = Some(manager.identity());
    assert!(Client::new(both).unwrap_err().to_string().contains("renews itself"));
    let mut plain = Config::new(ServerUrl::parse("http://127.0.0.1:1").unwrap());
    plain.tls.rotating_identity = Some(manager.identity());
    assert!(Client::new(plain).unwrap_err().to_string().contains("not be sent"));
    let mut anonymous = config;
    anonymous.tls.rotating_identity = Some(manager.identity());
    assert!(anonymous.anonymous().tls.rotating_identity.is_none());
}
