//! [`ApiSource`]: lists and watches through a client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use evenkeel_client::api::scope::Scope;
use evenkeel_client::transport::TransportFault;
use evenkeel_client::{Api, Error, ListParams, ListStream, Query, WatchEnd, WatchParams, WatchStream, Wire};
use evenkeel_core::{ResourceInfo, StreamError, Untyped, WatchEvent};
use futures_core::Stream;

use super::{
    BoxFuture, ListItems, ListPart, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest,
    is_about_protobuf,
};

/// The objects of an [`Api`], optionally restricted by selectors.
///
/// Requests share no state. An `Api` of [metadata](Api::metadata) works as well; the objects then have only their metadata.
///
/// Built-in kinds are transferred as protobuf, all others as JSON, unless the client's configuration or
/// [`Api::wire`] sets another encoding. A server without protobuf falls back to JSON.
///
/// ```
/// # fn example(client: &evenkeel_client::Client) {
/// use std::sync::Arc;
/// use evenkeel_cache::parts::Reflector;
/// use evenkeel_cache::source::ApiSource;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let source = ApiSource::new(client.api::<Pod>()).labels("app=web").fields("spec.nodeName=n1");
/// let pods = Arc::clone(source.resource());
/// let reflector = Reflector::builder(Arc::new(source), pods).build();
/// # }
/// ```
#[derive(Debug)]
pub struct ApiSource<K, S: Scope> {
    api: Api<K, S>,
    labels: String,
    fields: String,
    query: Query,
    supports_watch_list: bool,
}

impl<K, S: Scope> ApiSource<K, S> {
    /// Returns a source of all objects of the `Api`.
    pub fn new(api: Api<K, S>) -> Self {
        let api = for_many(api);
        ApiSource { api, labels: String::new(), fields: String::new(), query: Query::new(), supports_watch_list: true }
    }

    /// Restricts the source to objects whose labels match; see [`ListParams::labels`].
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Restricts the source to objects whose fields match; see [`ListParams::fields`].
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// Adds query parameters to lists and watches; see [`ListParams::query`].
    pub fn query(mut self, query: Query) -> Self {
        self.query = query;
        self
    }

    /// Disables WatchList, for servers without it. Otherwise each refusal costs a request.
    pub fn without_watch_list(mut self) -> Self {
        self.supports_watch_list = false;
        self
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        self.api.resource()
    }

    fn list_params(&self, request: ListRequest) -> ListParams {
        let mut params = ListParams::default().labels(&self.labels).fields(&self.fields).limit(request.limit);
        params.shard_selector = request.shard_selector;
        params.query = self.query.clone();
        params.continue_token = request.continue_token;
        params.resource_version = request.resource_version;
        // Without a match, a version means one that is not older. Old servers reject the parameter.
        if request.is_exact {
            params = params.clone().exactly_at(params.resource_version);
        }
        params
    }

    fn watch_params(&self, request: WatchRequest) -> WatchParams {
        let mut params = WatchParams::from_version(request.resource_version)
            .labels(&self.labels)
            .fields(&self.fields)
            .timeout(request.timeout);
        params.shard_selector = request.shard_selector;
        params.query = self.query.clone();
        if request.initial_events { params.initial_events() } else { params }
    }
}

/// The API to ask for many objects again and again, for which protobuf pays.
fn for_many<K, S: Scope>(api: Api<K, S>) -> Api<K, S> {
    match api.chosen_wire() {
        Wire::Automatic => api.wire(Wire::Protobuf),
        Wire::Json | Wire::Protobuf => api,
    }
}

impl<K, S: Scope> From<Api<K, S>> for ApiSource<K, S> {
    fn from(api: Api<K, S>) -> Self {
        ApiSource::new(api)
    }
}

impl<K: 'static, S: Scope> ListerWatcher for ApiSource<K, S> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>> {
        let params = self.list_params(request);
        Box::pin(async move {
            let stream = self.api.list_stream(&params).await?;
            Ok(Box::new(Items { stream, is_metadata_only: self.api.is_metadata_only() }) as Box<dyn ListItems>)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>> {
        let params = self.watch_params(request);
        Box::pin(async move {
            let stream = self.api.watch(&params).await?;
            Ok(Box::new(Events(stream)) as Box<dyn WatchEvents>)
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.supports_watch_list
    }

    fn is_metadata_only(&self) -> bool {
        self.api.is_metadata_only()
    }
}

struct Items<K> {
    stream: ListStream<K>,
    is_metadata_only: bool,
}

impl<K> Items<K> {
    /// Returns the end of a complete list. Metadata is a list of another kind, unless it was requested.
    fn end(&self) -> Result<ListPart, SourceError> {
        let Some(meta) = self.stream.meta() else { return Err(SourceError::Garbled(StreamError::Closed)) };
        if !self.is_metadata_only && meta.kind == "PartialObjectMetadataList" {
            let (expected, found) =
                ("a list of whole objects".to_owned(), format!("{} {}", meta.api_version, meta.kind));
            return Err(SourceError::Garbled(StreamError::OtherKind { expected, found }));
        }
        Ok(ListPart::End {
            resource_version: meta.resource_version.clone(),
            continue_token: meta.continue_token.clone(),
        })
    }
}

impl<K> ListItems for Items<K> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ListPart, SourceError>> {
        Poll::Ready(match ready!(Pin::new(&mut self.stream).poll_next(context)) {
            Some(Ok(object)) => Ok(ListPart::Object(object.cast())),
            Some(Err(error)) => match SourceError::from(error) {
                // The client requests JSON from now on, which may be readable: the list is retried.
                SourceError::Unreadable(error) if is_about_protobuf(&error) => Err(SourceError::Garbled(error)),
                SourceError::Unreadable(error) => Ok(ListPart::Unreadable(error)),
                error => Err(error),
            },
            None => self.end(),
        })
    }

    fn shard_selector(&self) -> Option<&str> {
        self.stream.meta()?.shard_selector.as_deref()
    }
}

struct Events<K>(WatchStream<K>);

impl<K> WatchEvents for Events<K> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<Untyped>, SourceError>>> {
        match ready!(Pin::new(&mut self.0).poll_next(context)) {
            Some(Ok(event)) => Poll::Ready(Some(Ok(event.cast()))),
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            None => Poll::Ready(self.0.take_end().and_then(end).map(Err)),
        }
    }
}

/// What the end of a watch means; nothing if it was an orderly one.
fn end(end: WatchEnd) -> Option<SourceError> {
    match end {
        WatchEnd::Truncated(error) | WatchEnd::Garbled(error) => Some(SourceError::Garbled(error)),
        WatchEnd::Lost(error) | WatchEnd::TimedOut(error) => Some(SourceError::Connection(error.into())),
        _ => None,
    }
}

impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api { status, .. } => SourceError::Status(status),
            Error::Transport { ref source, .. } => match source.fault() {
                TransportFault::Refused | TransportFault::Resolve => SourceError::ConnectionRefused(error.into()),
                TransportFault::Tls | TransportFault::Credentials | TransportFault::Protocol => {
                    SourceError::Other(error.into())
                }
                _ => SourceError::Connection(error.into()),
            },
            Error::Timeout { .. } | Error::RateLimited { .. } => SourceError::Connection(error.into()),
            Error::Stream { source, .. } if source.is_fatal() => SourceError::Garbled(source),
            Error::Stream { source, .. } => SourceError::Unreadable(source),
            error => SourceError::Other(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
