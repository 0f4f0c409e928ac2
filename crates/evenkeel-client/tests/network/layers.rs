//! Custom layers around connections.

use std::task::{Context, Poll};

use evenkeel_apiserver::ApiServer;
use evenkeel_client::config::Auth;
use evenkeel_client::transport::{Body, BoxError, ResponseFuture, Transport};
use evenkeel_client::{ClientBuilder, Error, Path, WatchParams};
use http::header::{HeaderName, HeaderValue};
use http::{Method, Version};
use tower_layer::Layer;
use tower_service::Service;

use crate::support::{Tap, config_map, error_chain, without_credentials};

#[tokio::test]
async fn trn_002_layers_see_every_attempt_with_its_credentials() {
    let server = ApiServer::builder().tls().token("secret").start().await.unwrap();
    let mut config = without_credentials(&server);
    config.auth = Auth::Token("secret".into());
    let tap = Tap::default();
    let client = tap.client(config);
    let maps = client.core_v1().config_maps("default");
    server.faults().fail_next(1, 429, Some(1));
    maps.create(&config_map("a")).await.unwrap();
    maps.get("a").await.unwrap();
    maps.watch(&WatchParams::default()).await.unwrap();
    let attempts = tap.attempts();
    let codes: Vec<_> = attempts.iter().map(|attempt| attempt.answer.unwrap()).collect();
    assert_eq!(codes, [429, 201, 200, 200].map(|code| (Version::HTTP_2, code)));
    assert!(attempts.iter().all(|attempt| attempt.authorization.as_deref() == Some("Bearer secret")));
    assert!(attempts[..2].iter().all(|attempt| attempt.method == Method::POST));
    assert!(attempts.iter().all(|attempt| attempt.path.starts_with("/api/v1/namespaces/default/configmaps")));
}

/// Impersonates another user and rejects deletes.
#[derive(Clone)]
struct Guard<S>(S);

struct GuardLayer;

impl Layer<Transport> for GuardLayer {
    type Service = Guard<Transport>;

    fn layer(&self, inner: Transport) -> Self::Service {
        Guard(inner)
    }
}

impl Service<http::Request<Body>> for Guard<Transport> {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> ResponseFuture {
        if request.method() == Method::DELETE {
            return Box::pin(async { Err("deletes are rejected here".into()) });
        }
        let jane = HeaderValue::from_static("jane");
        request.headers_mut().insert(HeaderName::from_static("impersonate-user"), jane);
        self.0.call(request)
    }
}

#[tokio::test]
async fn trn_002_a_layer_changes_requests_and_refuses_them() {
    let server = ApiServer::builder().tls().token("secret").start().await.unwrap();
    let mut config = without_credentials(&server);
    config.auth = Auth::Token("secret".into());
    let client = ClientBuilder::new(config).unwrap().layer(GuardLayer).build().unwrap();
    client.request(Method::GET, Path::raw("/api")).send().await.unwrap();
    let maps = client.core_v1().config_maps("default");
    let me = client.authentication_v1().self_subject_reviews().create(&Default::default()).await.unwrap();
    assert_eq!(me.status.unwrap().user_info.unwrap().username.as_deref(), Some("jane"));
    let error = maps.delete("a").await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert!(error_chain(&error).ends_with("deletes are rejected here"), "{}", error_chain(&error));
    assert!(server.requests().iter().all(|request| request.method != Method::DELETE));
}
