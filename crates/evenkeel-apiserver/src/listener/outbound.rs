//! Makes the calls that requests need.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use super::https::HttpsClient;
use crate::http_types::{CallingStream, ConnectionCut, FrameStream, StreamStep};
use crate::outbound::{CallEndpoint, CallError, CallId, CallResult, OutboundCall};
use crate::request_state::RequestState;

/// Go's text for a call that exceeds its timeout.
const DEADLINE: &str = "context deadline exceeded";

/// Makes calls at the same time and keeps a result of each in the state of their request. Dropping the future aborts them.
pub(super) async fn make_calls(calls: Vec<OutboundCall>, https: &Arc<HttpsClient>, state: &RequestState) {
    for (id, result) in call_all(calls, Arc::clone(https)).await {
        state.keep_result(id, result);
    }
}

/// Makes calls at the same time and returns a result of each.
async fn call_all(calls: Vec<OutboundCall>, https: Arc<HttpsClient>) -> Vec<(CallId, CallResult)> {
    let mut running = JoinSet::new();
    let mut ids: HashMap<Id, CallId> = HashMap::new();
    for call in calls {
        let id = call.id;
        ids.insert(running.spawn(make_call(call, Arc::clone(&https))).id(), id);
    }
    let mut results = Vec::with_capacity(ids.len());
    while let Some(joined) = running.join_next_with_id().await {
        let (task, result) = match joined {
            Ok(finished) => finished,
            Err(error) => (error.id(), Err(CallError("the function panicked".to_owned()))),
        };
        results.extend(ids.get(&task).map(|id| (*id, result)));
    }
    results
}

async fn make_call(call: OutboundCall, https: Arc<HttpsClient>) -> CallResult {
    let url = match &call.endpoint {
        CallEndpoint::Https(endpoint) => Some(endpoint.url.clone()),
        CallEndpoint::Function(_) | CallEndpoint::Unreachable(_) => None,
    };
    let response = async move {
        match call.endpoint {
            CallEndpoint::Function(function) => function(call.body).await,
            CallEndpoint::Https(endpoint) => https.post(&endpoint, call.body).await,
            CallEndpoint::Unreachable(error) => Err(error),
        }
    };
    timeout(call.timeout, response).await.unwrap_or_else(|_| {
        Err(CallError(match url {
            Some(url) => format!("Post \"{url}\": {DEADLINE}"),
            None => DEADLINE.to_owned(),
        }))
    })
}

/// A stream that makes the calls that it needs.
pub(super) struct DrivenStream {
    stream: Box<dyn CallingStream>,
    https: Arc<HttpsClient>,
    running: Option<RunningCalls>,
}

type RunningCalls = Pin<Box<dyn Future<Output = Vec<(CallId, CallResult)>> + Send>>;

impl DrivenStream {
    pub(super) fn new(stream: Box<dyn CallingStream>, https: &Arc<HttpsClient>) -> Self {
        DrivenStream { stream, https: Arc::clone(https), running: None }
    }
}

impl FrameStream for DrivenStream {
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        let driven = self.get_mut();
        loop {
            if let Some(running) = &mut driven.running {
                for (id, result) in ready!(running.as_mut().poll(cx)) {
                    driven.stream.state().keep_result(id, result);
                }
                driven.running = None;
            }
            match ready!(driven.stream.poll_step(cx)) {
                StreamStep::Frame(bytes) => return Poll::Ready(Some(Ok(bytes))),
                StreamStep::End => return Poll::Ready(None),
                StreamStep::Calls(calls) => {
                    let https = Arc::clone(&driven.https);
                    driven.running = Some(Box::pin(call_all(calls, https)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
