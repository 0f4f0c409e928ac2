//! [`AuthProxyLayer`]: for programs that authenticate users in front of an API server.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tower_layer::Layer;
use tower_service::Service;

use super::headers::UserHeaders;
use crate::config::{ConfigError, Impersonate};

const REMOTE: UserHeaders = UserHeaders {
    user: HeaderName::from_static("x-remote-user"),
    uid: HeaderName::from_static("x-remote-uid"),
    group: HeaderName::from_static("x-remote-group"),
    extra_prefix: "x-remote-extra-",
    called: "remote",
};

/// Sets `X-Remote-User`, `X-Remote-Uid`, `X-Remote-Group` and `X-Remote-Extra-*` to the user of a request. Such
/// headers of the request itself are removed, so that no caller can forge them.
///
/// The server accepts them if the client's certificate is one of the front proxy's (`--requestheader-client-ca-file`).
#[derive(Clone)]
pub struct AuthProxyLayer {
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

impl AuthProxyLayer {
    /// Returns a layer for requests of this user, described like one to impersonate.
    ///
    /// # Errors
    /// If a value holds a control character, or a key is too long for a header.
    pub fn new(user: &Impersonate) -> Result<Self, ConfigError> {
        let mut headers = REMOTE.describe(user)?;
        for (_, value) in &mut headers {
            value.set_sensitive(true);
        }
        Ok(AuthProxyLayer { headers: headers.into() })
    }
}

impl std::fmt::Debug for AuthProxyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthProxyLayer")
    }
}

impl<S> Layer<S> for AuthProxyLayer {
    type Service = AuthProxy<S>;

    fn layer(&self, inner: S) -> AuthProxy<S> {
        AuthProxy { inner, headers: Arc::clone(&self.headers) }
    }
}

/// A service inside an [`AuthProxyLayer`].
#[derive(Clone, Debug)]
pub struct AuthProxy<S> {
    inner: S,
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

impl<S, B> Service<Request<B>> for AuthProxy<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        replace(request.headers_mut(), &self.headers);
        self.inner.call(request)
    }
}

fn replace(headers: &mut HeaderMap, ours: &[(HeaderName, HeaderValue)]) {
    let theirs: Vec<HeaderName> = headers.keys().filter(|name| is_remote(name)).cloned().collect();
    for name in theirs {
        headers.remove(name);
    }
    for (name, value) in ours {
        headers.append(name.clone(), value.clone());
    }
}

fn is_remote(name: &HeaderName) -> bool {
    *name == REMOTE.user
        || *name == REMOTE.uid
        || *name == REMOTE.group
        || name.as_str().starts_with(REMOTE.extra_prefix)
}
