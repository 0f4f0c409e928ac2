use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::outbound::CallFuture;

fn call(name: &str, function: impl Fn(Bytes) -> CallFuture + Send + Sync + 'static) -> OutboundCall {
    OutboundCall {
        id: CallId::new(name, b""),
        endpoint: CallEndpoint::Function(Arc::new(function)),
        body: Bytes::from_static(b"question"),
        timeout: Duration::from_secs(10),
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_has_a_result() {
    let state = RequestState::default();
    let echo = call("echo", |body| Box::pin(async move { Ok(body) }));
    let hangs = call("hangs", |_| Box::pin(std::future::pending()));
    let panics = call("panics", |_| Box::pin(async { panic!("on purpose") }));
    let ids = [&echo, &hangs, &panics].map(|call| call.id);
    make_calls(vec![echo, hangs, panics], &Arc::default(), &state).await;
    let results = ids.map(|id| state.result(&id).map(|result| (*result).clone()));
    let failed = |why: &str| Some(Err(CallError(why.to_owned())));
    assert_eq!(results[0], Some(Ok(Bytes::from_static(b"question"))));
    assert_eq!(results[1], failed("context deadline exceeded"));
    assert_eq!(results[2], failed("the function panicked"));
}
