//! Events of a recorder: counted, combined, and held back (WRK-11).

use std::time::Duration;

use evenkeel::client::reference::typed_reference;
use evenkeel::events::{EventRecorder, EventType, EventsApi};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Event, ObjectReference};
use evenkeel::prelude::*;
use evenkeel_sim::{Process, Scenario};
use tokio::time::{Instant, sleep};

use super::Outcome;

const NAMESPACE: &str = "default";
/// The name of the invariant of events.
const INTENDED: &str = "exactly the intended effect";
/// Events about one object that are written at once, and the time after which one more is: the defaults of the recorder.
const BURST: u64 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// Different notes from which on events are combined.
const COMBINED_AT: usize = 10;
/// Events of each busy object.
const BUSY: u32 = 60;

/// What one life of the process has recorded. Its objects have other uids than those of other lives.
struct Reporter {
    process: Process,
    recorder: EventRecorder,
    started: Instant,
    /// Events about the steady object.
    steady: u32,
}

impl Reporter {
    /// Returns an object that events are about.
    fn subject(&self, name: &str) -> ObjectReference {
        let mut subject = ConfigMap::default();
        subject.metadata.name = Some(name.to_owned());
        subject.metadata.namespace = Some(NAMESPACE.to_owned());
        subject.metadata.uid = Some(self.uid(name));
        typed_reference(&subject)
    }

    fn uid(&self, name: &str) -> String {
        format!("{name}-{}", self.process.life())
    }

    /// The same event again and again, rarely enough for the spam filter.
    fn record_steady(&mut self) {
        self.steady += 1;
        self.recorder.event(&self.subject("steady"), EventType::Normal, "Checked", "it is well");
    }

    /// Events that differ in their notes, and events that differ in their reasons.
    fn record_busy(&self, number: u32) {
        self.recorder.event(&self.subject("similar"), EventType::Warning, "Failed", format!("attempt {number}"));
        self.recorder.event(&self.subject("different"), EventType::Warning, format!("Failed{number}"), "a failure");
    }

    /// Compares what the server has with what was recorded.
    async fn check(&self) -> Outcome {
        let events = self.process.client().api::<Event>().namespace(NAMESPACE).list(&ListParams::default()).await?;
        let events = events.iter().map(Obj::typed).collect::<Result<Vec<_>, _>>()?;
        let about = |name: &str| {
            let uid = Some(self.uid(name));
            events.iter().filter(move |event| event.involved_object.uid == uid)
        };
        let steady: Vec<i32> = about("steady").map(|event| event.count.unwrap_or_default()).collect();
        if steady != [i32::try_from(self.steady)?] {
            self.process
                .fail(INTENDED, format!("one event was recorded {} times, and there are {steady:?}", self.steady));
        }
        let similar = about("similar").count();
        if similar > COMBINED_AT {
            self.process.fail(INTENDED, format!("{similar} similar events are not combined"));
        }
        let refilled = self.started.elapsed().as_secs() / REFILL.as_secs();
        let different = about("different").count();
        if u64::try_from(different)? > BURST + refilled {
            self.process.fail(INTENDED, format!("{different} events about one object are not held back"));
        }
        Ok(())
    }
}

/// Records events for as long as it runs.
async fn report(process: Process) -> Outcome {
    let recorder =
        EventRecorder::builder(process.client(), "reporter").instance("reporter").api(EventsApi::Core).build();
    let mut reporter = Reporter { process: process.clone(), recorder, started: Instant::now(), steady: 0 };
    let records = async {
        for number in 0.. {
            // More often than the spam filter refills, as long as the burst lasts.
            if number % 60 == 0 {
                reporter.record_steady();
            }
            if number < BUSY {
                reporter.record_busy(number);
            }
            sleep(Duration::from_secs(5)).await;
        }
    };
    tokio::select! {
        biased;
        () = process.shutdown() => {}
        () = records => {}
    }
    reporter.recorder.shutdown().await;
    reporter.check().await
}

/// A recorder whose events are counted, combined and held back.
pub fn events() -> Scenario {
    Scenario::new("events").process("reporter", report)
}
