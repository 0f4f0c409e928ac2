//! Makes the calls that requests need.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use crate::outbound::{CallEndpoint, CallError, CallId, CallResult, OutboundCall};
use crate::request_state::RequestState;

/// Makes calls at the same time and keeps a result of each in the state of their request. Dropping the future aborts them.
pub(super) async fn make_calls(calls: Vec<OutboundCall>, state: &RequestState) {
    let mut running = JoinSet::new();
    let mut ids: HashMap<Id, CallId> = HashMap::new();
    for call in calls {
        let id = call.id;
        ids.insert(running.spawn(make_call(call)).id(), id);
    }
    while let Some(joined) = running.join_next_with_id().await {
        let (task, result) = match joined {
            Ok(finished) => finished,
            Err(error) => (error.id(), Err(CallError("the function panicked".to_owned()))),
        };
        if let Some(id) = ids.get(&task) {
            state.keep_result(*id, result);
        }
    }
}

async fn make_call(call: OutboundCall) -> CallResult {
    let response = async move {
        match call.endpoint {
            CallEndpoint::Function(function) => function(call.body).await,
        }
    };
    timeout(call.timeout, response).await.unwrap_or_else(|_| Err(CallError("context deadline exceeded".to_owned())))
}

#[cfg(test)]
mod tests;
