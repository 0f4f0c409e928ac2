//! The stage that acts: objects come, change and go.

use std::time::Duration;

use evenkeel_client::{Api, Error};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::ledger::{Change, Entry};

/// What to do, in order, and how long to pause in between.
#[derive(Debug)]
pub(crate) struct Plan {
    steps: Vec<Entry>,
    pause: Duration,
}

impl Plan {
    /// How many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }
}

/// Creates, updates and deletes this many objects, spread over this time.
pub(crate) fn plan(objects: u32, time: Duration) -> Plan {
    let phase = |change: Change, value: u32| {
        (0..objects).map(move |index| Entry { change, name: format!("demo-{index:03}"), value: value.to_string() })
    };
    // A deletion shows the object as it last was.
    let steps: Vec<Entry> =
        phase(Change::Added, 1).chain(phase(Change::Modified, 2)).chain(phase(Change::Deleted, 2)).collect();
    let pause = time / u32::try_from(steps.len()).unwrap_or(u32::MAX).max(1);
    Plan { steps, pause }
}

/// Carries the plan out and reports each step when it is done.
pub(crate) async fn run(objects: Api<ConfigMap>, plan: Plan, done: Sender<Entry>) -> Result<(), Error> {
    for step in plan.steps {
        match step.change {
            Change::Added => drop(objects.create(&object(&step)).await?),
            Change::Modified => drop(objects.update(&object(&step)).await?),
            Change::Deleted => drop(objects.delete(&step.name).await?),
        }
        if done.send(step).await.is_err() {
            return Ok(());
        }
        if !plan.pause.is_zero() {
            sleep(plan.pause).await;
        }
    }
    Ok(())
}

fn object(step: &Entry) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(step.name.clone()), ..ObjectMeta::default() },
        data: Some([("value".to_owned(), step.value.clone())].into()),
        ..ConfigMap::default()
    }
}
