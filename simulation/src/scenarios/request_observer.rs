//! [`RequestObserver`]: sees what a client of a process sends, with its headers, and what it receives.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::Client;
use evenkeel::client::transport::{Body, BoxError, Transport};
use evenkeel::client::{Config, Error};
use evenkeel_sim::Process;
use http::header::RETRY_AFTER;
use http::{Request, Response};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Sees every attempt of a client.
pub(super) trait RequestObserver: Send + Sync + 'static {
    /// Called before an attempt. Returns the name of the request, for [`received`](Self::received).
    fn sent(&self, request: &Request<Body>) -> String;

    /// Called with the head of a response.
    fn received(&self, _request: String, _response: &Response<Body>) {}
}

/// Returns a client of a process that an observer sees.
pub(super) fn observed(process: &Process, config: Config, observer: impl RequestObserver) -> Result<Client, Error> {
    process.client_builder(config).layer(ObserverLayer(Arc::new(observer))).build()
}

struct ObserverLayer<O>(Arc<O>);

impl<O: RequestObserver> Layer<Transport> for ObserverLayer<O> {
    type Service = Observed<O>;

    fn layer(&self, transport: Transport) -> Observed<O> {
        Observed { transport, observer: Arc::clone(&self.0) }
    }
}

struct Observed<O> {
    transport: Transport,
    observer: Arc<O>,
}

impl<O> Clone for Observed<O> {
    fn clone(&self) -> Self {
        Observed { transport: self.transport.clone(), observer: Arc::clone(&self.observer) }
    }
}

impl<O: RequestObserver> Service<Request<Body>> for Observed<O> {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let observer = Arc::clone(&self.observer);
        let name = observer.sent(&request);
        let answer = self.transport.send(request);
        Box::pin(async move {
            let response = answer.await?;
            observer.received(name, &response);
            Ok(response)
        })
    }
}

/// Fails the run if a request is sent again before the time that its `Retry-After` names (INV-15).
///
/// Requests are the same if method and URL are. The process sends one at a time, and waits itself before it repeats what failed.
pub(super) struct RequestTimes {
    process: Process,
    earliest: Mutex<BTreeMap<String, Instant>>,
}

impl RequestTimes {
    pub(super) fn new(process: &Process) -> Self {
        RequestTimes { process: process.clone(), earliest: Mutex::default() }
    }

    fn earliest(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.earliest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestObserver for RequestTimes {
    fn sent(&self, request: &Request<Body>) -> String {
        let name = format!("{} {}", request.method(), request.uri());
        let early = self.earliest().get(&name).map(|earliest| earliest.saturating_duration_since(Instant::now()));
        if let Some(early) = early.filter(|early| !early.is_zero()) {
            self.process.fail("retry-after is respected", format!("{name} is sent again {early:?} too early"));
        }
        name
    }

    fn received(&self, request: String, response: &Response<Body>) {
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(seconds) = seconds {
            self.earliest().insert(request, Instant::now() + Duration::from_secs(seconds));
        }
    }
}
