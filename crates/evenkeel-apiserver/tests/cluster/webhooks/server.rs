//! A webhook server over HTTPS, as a program outside of the API server would be.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request that the server has received.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) uri: String,
    pub(crate) user_agent: String,
    pub(crate) host: String,
    pub(crate) server_name: Option<String>,
    /// Counts connections.
    pub(crate) connection: usize,
    pub(crate) review: Value,
}

/// A running server; it ends with the test's runtime.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    /// The authority of the certificate, as `caBundle` has it.
    pub(crate) ca_bundle: String,
    /// The certificate alone, in the same form.
    pub(crate) certificate_bundle: String,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl WebhookServer {
    /// Starts a server with a certificate for these names. `answer` returns code and body.
    pub(crate) async fn start(
        names: &[&str],
        answer: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
    ) -> WebhookServer {
        WebhookServer::start_with(names, |_| (), answer).await
    }

    /// Starts a server whose certificate is changed by `adjust` before it is signed.
    pub(crate) async fn start_with(
        names: &[&str],
        adjust: impl FnOnce(&mut CertificateParams),
        answer: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static,
    ) -> WebhookServer {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut certificate = CertificateParams::new(names).unwrap();
        adjust(&mut certificate);
        let certificate = certificate.signed_by(&key, &ca).unwrap();
        let certificate_bundle = STANDARD.encode(certificate.pem());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (shared, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (acceptor, seen, answer) = (acceptor.clone(), Arc::clone(&shared), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let server_name = stream.get_ref().1.server_name().map(str::to_owned);
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (seen, answer, server_name) = (Arc::clone(&seen), Arc::clone(&answer), server_name.clone());
                        async move {
                            let header = |name| {
                                let value = request.headers().get(name).and_then(|value| value.to_str().ok());
                                value.unwrap_or_default().to_owned()
                            };
                            let (user_agent, host) = (header("user-agent"), header("host"));
                            let uri = request.uri().to_string();
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let (code, text) = answer(&review);
                            seen.lock().unwrap().push(SeenRequest {
                                uri,
                                user_agent,
                                host,
                                server_name,
                                connection,
                                review,
                            });
                            let response = Response::builder().status(code).body(Full::new(Bytes::from(text))).unwrap();
                            Ok::<_, Infallible>(response)
                        }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        WebhookServer { address, ca_bundle: STANDARD.encode(ca.pem()), certificate_bundle, seen }
    }

    /// Starts a server at `127.0.0.1` that returns this `response` to every review.
    pub(crate) async fn answering(response: Value) -> WebhookServer {
        WebhookServer::start(&["127.0.0.1"], move |review| (200, reply(review, response.clone()))).await
    }

    /// Returns a `clientConfig` with the URL of this server.
    pub(crate) fn client(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.ca_bundle})
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }
}

/// Returns a review with a response to another one.
pub(crate) fn reply(review: &Value, mut response: Value) -> String {
    response["uid"] = review["request"]["uid"].clone();
    json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}).to_string()
}

/// Returns an address at which nothing listens.
pub(crate) fn closed_port() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
