//! Recorders, broadcasters and sinks, in virtual time.

mod broadcaster;
mod core_sink;
mod lifecycle;
mod measured;
mod new_sink;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::sink::SinkEvent;
use super::testing::{at, reference, seconds, warning};
use super::{Event, EventBroadcaster, EventRecorder, EventSink, EventType, SinkError, SinkFuture, SinkOptions};

/// A clock that follows tokio's.
fn clock() -> impl Fn() -> Timestamp + Send + Sync + 'static {
    let start = Instant::now();
    move || at(0) + SignedDuration::try_from(start.elapsed()).unwrap()
}

fn broadcaster() -> EventBroadcaster {
    EventBroadcaster::with_clock(clock())
}

/// Lets all ready tasks run without advancing the time.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// A server in memory that fails on demand.
#[derive(Clone, Default)]
struct FakeSink(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    stored: BTreeMap<String, Value>,
    /// Verb, and count or count of the series.
    calls: Vec<(&'static str, i64)>,
    fail: Option<Fail>,
    delay: Option<Duration>,
    together: usize,
    most_together: usize,
}

/// Receives the verb and the number of the call.
type Fail = Box<dyn FnMut(&'static str, usize) -> Option<SinkError> + Send>;

fn unavailable(after: Option<u64>) -> SinkError {
    SinkError::Unavailable { after: after.map(Duration::from_secs), source: "away".into() }
}

fn refused() -> SinkError {
    SinkError::Refused { source: "no".into() }
}

impl FakeSink {
    fn failing(fail: impl FnMut(&'static str, usize) -> Option<SinkError> + Send + 'static) -> Self {
        let sink = FakeSink::default();
        sink.memory(|memory| memory.fail = Some(Box::new(fail)));
        sink
    }

    fn memory<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn calls(&self) -> Vec<(&'static str, i64)> {
        self.memory(|memory| std::mem::take(&mut memory.calls))
    }

    fn stored(&self) -> Vec<Value> {
        self.memory(|memory| memory.stored.values().cloned().collect())
    }

    fn delay(&self, delay: Option<Duration>) {
        self.memory(|memory| memory.delay = delay);
    }

    async fn call(&self, verb: &'static str, event: &Value) -> Result<(), SinkError> {
        let (delay, failure) = self.memory(|memory| {
            let count = event["count"].as_i64().or(event["series"]["count"].as_i64()).unwrap_or_default();
            let number = memory.calls.len();
            memory.calls.push((verb, count));
            memory.together += 1;
            memory.most_together = memory.most_together.max(memory.together);
            (memory.delay, memory.fail.as_mut().and_then(|fail| fail(verb, number)))
        });
        if let Some(delay) = delay {
            sleep(delay).await;
        }
        self.memory(|memory| memory.together -= 1);
        failure.map_or(Ok(()), Err)
    }
}

fn key(event: &Value) -> String {
    format!("{}/{}", event["metadata"]["namespace"], event["metadata"]["name"])
}

impl<E: SinkEvent + Serialize + DeserializeOwned> EventSink<E> for FakeSink {
    fn create<'a>(&'a self, event: &'a E) -> SinkFuture<'a, E> {
        Box::pin(async move {
            let event = serde_json::to_value(event).unwrap();
            self.call("create", &event).await?;
            self.memory(|memory| {
                if memory.stored.contains_key(&key(&event)) {
                    return Err(SinkError::AlreadyExists);
                }
                memory.stored.insert(key(&event), event.clone());
                Ok(serde_json::from_value(event).unwrap())
            })
        })
    }

    fn patch<'a>(&'a self, event: &'a E, patch: &'a Value) -> SinkFuture<'a, E> {
        Box::pin(async move {
            let event = serde_json::to_value(event).unwrap();
            self.call("patch", &event).await?;
            self.memory(|memory| {
                let stored = memory.stored.get_mut(&key(&event)).ok_or(SinkError::NotFound)?;
                for (name, value) in patch.as_object().unwrap() {
                    stored[name] = value.clone();
                }
                Ok(serde_json::from_value(stored.clone()).unwrap())
            })
        })
    }
}

/// A recorder of `v1` with a sink in memory.
fn core_recorder(sink: &FakeSink, options: SinkOptions) -> EventRecorder {
    let broadcaster = broadcaster();
    let _ = broadcaster.record_to_core(sink.clone(), options);
    broadcaster.recorder("kubelet").build()
}

/// A recorder of `events.k8s.io/v1` with a sink in memory.
fn new_recorder(sink: &FakeSink, options: SinkOptions) -> EventRecorder {
    let broadcaster = broadcaster();
    let _ = broadcaster.record_to_events(sink.clone(), options);
    broadcaster.recorder("kubelet").build()
}

/// A warning about the pod `web`.
fn warn(recorder: &EventRecorder, reason: &str, note: &str) {
    recorder.event(&reference("Pod", "web"), EventType::Warning, reason, note);
}
