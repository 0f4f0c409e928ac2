//! OIDC providers, with an issuer in this process.

mod kubeconfigs;
mod protocol;
mod refreshes;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use tower_service::Service;

use super::issuer::Connector;
use super::source::OidcSource;
use super::*;
use crate::auth::error::CredentialProblem;
use crate::auth::refresh::{CredentialSource as _, Fetched, Refresher};
use crate::auth::wall_clock;
use crate::transport::{Body, BoxError, Transport};

/// The issuer of the tests.
const ISSUER: &str = "https://issuer.test/realm";
const DISCOVERY: &str = r#"{"token_endpoint":"https://issuer.test/realm/token?p=policy"}"#;

/// Returns an id token that expires in so many seconds.
fn jwt(seconds: i64, name: &str) -> String {
    let exp = wall_clock::now().as_second() + seconds;
    jwt_of(&format!(r#"{{"exp":{exp},"sub":"{name}"}}"#))
}

fn jwt_of(claims: &str) -> String {
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

/// Returns the response to a refresh.
fn tokens(id_token: &str, refresh_token: Option<&str>) -> String {
    serde_json::json!({"access_token": "a", "id_token": id_token, "refresh_token": refresh_token}).to_string()
}

fn provider() -> OidcProvider {
    let mut provider = OidcProvider::new(ISSUER.parse().unwrap(), "kube client");
    provider.client_secret = Some("s&cret=1".into());
    provider.refresh_token = Some("refresh-1".into());
    provider
}

/// A received request.
struct Seen {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: String,
}

impl Seen {
    fn form(&self) -> BTreeMap<String, String> {
        form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// Responds by a script, first with the discovery document. Hangs after the script.
#[derive(Clone, Default)]
struct FakeIssuer {
    discovery: Arc<Mutex<Option<(u16, String)>>>,
    responses: Arc<Mutex<VecDeque<(u16, String)>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    servers: Arc<Mutex<Vec<String>>>,
}

impl FakeIssuer {
    /// Returns these bodies with status 200.
    fn new(responses: impl IntoIterator<Item = String>) -> Self {
        FakeIssuer::with_codes(responses.into_iter().map(|body| (200, body)))
    }

    fn with_codes(responses: impl IntoIterator<Item = (u16, String)>) -> Self {
        FakeIssuer { responses: Arc::new(Mutex::new(responses.into_iter().collect())), ..FakeIssuer::default() }
    }

    fn discovery(self, code: u16, document: &str) -> Self {
        *self.discovery.lock().unwrap() = Some((code, document.to_owned()));
        self
    }

    fn connector(&self) -> Connector {
        let issuer = self.clone();
        Arc::new(move |server| {
            issuer.servers.lock().unwrap().push(server.to_string());
            Ok(Transport::new(issuer.clone()))
        })
    }

    fn source(&self, provider: &OidcProvider) -> OidcSource {
        OidcSource::new(provider, self.connector()).unwrap()
    }

    fn refresher(&self, provider: &OidcProvider) -> Arc<Refresher> {
        Refresher::new(self.source(provider))
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// The number of refreshes since the last call.
    fn refreshes(&self) -> usize {
        self.seen().iter().filter(|seen| seen.method == Method::POST).count()
    }
}

impl Service<http::Request<Body>> for FakeIssuer {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let issuer = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
            let is_discovery = parts.uri.path().ends_with("/.well-known/openid-configuration");
            let url = parts.uri.to_string();
            issuer.seen.lock().unwrap().push(Seen { method: parts.method, url, headers: parts.headers, body });
            let response = match is_discovery {
                true => {
                    let document = issuer.discovery.lock().unwrap().clone();
                    Some(document.unwrap_or_else(|| (200, DISCOVERY.to_owned())))
                }
                false => issuer.responses.lock().unwrap().pop_front(),
            };
            let Some((code, body)) = response else { return std::future::pending().await };
            Ok(http::Response::builder().status(code).body(Body::full(body))?)
        })
    }
}

/// Records what is stored. Fails as often as requested.
#[derive(Clone, Default)]
struct Recorder {
    stored: Arc<Mutex<Vec<OidcTokens>>>,
    failing: Arc<Mutex<usize>>,
}

impl Recorder {
    fn stored(&self) -> Vec<(String, String)> {
        let stored = std::mem::take(&mut *self.stored.lock().unwrap());
        stored.iter().map(|it| (it.id_token.expose().to_owned(), it.refresh_token.expose().to_owned())).collect()
    }
}

impl OidcTokenStore for Recorder {
    async fn store(&self, tokens: &OidcTokens) -> Result<(), BoxError> {
        self.stored.lock().unwrap().push(tokens.clone());
        let mut failing = self.failing.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return Err("the disk is full".into());
        }
        Ok(())
    }
}

/// Returns the token of a credential.
fn token(fetched: &Fetched) -> String {
    let value = fetched.authorization.as_ref().unwrap();
    assert!(value.is_sensitive());
    value.to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

async fn current(refresher: &Arc<Refresher>) -> String {
    let credential = refresher.credential().await.unwrap();
    credential.authorization.unwrap().to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

async fn problem(source: &OidcSource) -> OidcProblem {
    match source.fetch().await.unwrap_err() {
        CredentialProblem::Oidc { issuer, problem } => {
            assert_eq!(issuer, ISSUER);
            problem
        }
        other => panic!("{other}"),
    }
}
