//! Replicas that elect a leader, which writes to a log (WRK-6).

use std::future::{Future, pending};
use std::time::Duration;

use evenkeel::election::{ElectorHandle, Lease};
use evenkeel::k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel_sim::{Fault, Process, Scenario, Workload};
use serde_json::json;
use tokio::time::sleep;

use super::Outcome;

const NAMESPACE: &str = "default";
/// The name of the invariant (INV-9), and of the place where a leader is.
const ONE_LEADER: &str = "one leader";
const LEASE: &str = "sim";
const LOG: &str = "log";
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// Campaigns, and leads whenever it is elected. What the elector has observed outlives its terms.
async fn campaign(process: Process) -> Outcome {
    campaign_beside(process, write_log, |_| pending()).await
}

async fn campaign_beside<W, B>(
    process: Process,
    work: impl Fn(Process, Lease) -> W,
    beside: impl FnOnce(ElectorHandle) -> B,
) -> Outcome
where
    W: Future<Output = ()>,
    B: Future<Output = ()>,
{
    let identity = format!("{}-{}", process.name(), process.life());
    // A request may take as long as a leader leads.
    let elector = LeaderElector::new(process.client(), LEASE).identity(&identity).call_timeout(Duration::from_secs(10));
    let campaigns = async {
        loop {
            // If the lease was lost, it campaigns again.
            let _ = elector.run(|lease| lead(process.clone(), lease, &work)).await;
        }
    };
    tokio::select! {
        biased;
        () = process.shutdown() => elector.handle().stop(),
        () = beside(elector.handle()) => {}
        () = campaigns => {}
    }
    Ok(())
}

/// Leads. It does not look at its lease: its time ends when the elector ends it.
async fn lead<W: Future<Output = ()>>(process: Process, lease: Lease, work: impl Fn(Process, Lease) -> W) {
    let _alone = process.alone(ONE_LEADER);
    process.note(format!("leads in term {}", lease.fencing_token()));
    work(process.clone(), lease).await;
}

async fn write_log(process: Process, lease: Lease) {
    let mut log = FencedLog { process, lease, seen: None };
    loop {
        log.write().await;
        sleep(Duration::from_secs(3)).await;
    }
}

/// A log that leaders write to, each with the number of its term. It takes no lower number than it has.
struct FencedLog {
    process: Process,
    lease: Lease,
    /// The log as this leader saw it last.
    seen: Option<ConfigMap>,
}

impl FencedLog {
    /// Writes the term and the holder, if the log has no later term. A write that fails is repeated by the next one.
    async fn write(&mut self) {
        let maps = self.process.client().core_v1().config_maps(NAMESPACE);
        if self.seen.is_none() {
            let Ok(found) = maps.get(LOG).await else { return };
            self.seen = found.typed().ok().map(|map| ConfigMap::clone(&map));
        }
        let Some(mut log) = self.seen.take() else { return };
        let (term, holder) = (self.lease.fencing_token(), self.lease.identity().to_owned());
        let data = log.data.get_or_insert_default();
        let last: u64 = data.get("term").and_then(|term| term.parse().ok()).unwrap_or_default();
        let other = data.get("holder").filter(|other| **other != holder);
        match other {
            Some(other) if last > term && self.lease.is_valid() => {
                self.process.fail(ONE_LEADER, format!("{holder} leads in term {term}, and {other} in term {last}"));
            }
            Some(other) if last == term => {
                self.process.fail(ONE_LEADER, format!("{holder} and {other} both had term {term}"));
            }
            _ => {}
        }
        if last > term {
            return;
        }
        data.insert("term".to_owned(), term.to_string());
        data.insert("holder".to_owned(), holder);
        // Conditional on the version that was read, so that it comes after no later term.
        let written = maps.update(&log).await;
        self.seen = written.ok().and_then(|log| log.typed().ok().map(|map| ConfigMap::clone(&map)));
    }
}

/// Steals the lease now and then, as a rival would that has waited too little (F-29).
async fn steal(workload: Workload) -> Outcome {
    for _ in 0..2 {
        sleep(Duration::from_secs(u64::from(20 + workload.choose(20)))).await;
        hold(&workload).await?;
    }
    Ok(())
}

/// Takes the lease, and holds it until it expires. No candidate may write it meanwhile.
async fn hold(workload: &Workload) -> Outcome {
    let leases = workload.client().api::<LeaseObject>().namespace(NAMESPACE);
    let Ok(found) = leases.get(LEASE).await else { return Ok(()) };
    let transitions = found.typed()?.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
    let seconds = LEASE_DURATION.as_secs();
    let spec = json!({"holderIdentity": "thief", "leaseDurationSeconds": seconds, "leaseTransitions": transitions + 1,
               "acquireTime": null, "renewTime": null});
    leases.patch(LEASE, &Patch::merge(&json!({"spec": spec}))).await?;
    for _ in 0..4 {
        sleep(LEASE_DURATION / 5).await;
        let held = leases.get(LEASE).await?;
        let holder = held.typed()?.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        if holder.as_deref() != Some("thief") {
            workload.fail(ONE_LEADER, format!("the lease of another holder was taken: it names {holder:?}"));
        }
    }
    Ok(())
}

/// What may go wrong with an election, which has no watches, no pages, and no reads that tolerate staleness.
const FAULTS: [Fault; 13] = [
    Fault::TooManyRequests,
    Fault::ServerError,
    Fault::Refused,
    Fault::Unauthenticated,
    Fault::Slow,
    Fault::Hangs,
    Fault::ResponseLost,
    Fault::WriteLost,
    Fault::Rival,
    Fault::ClockJumps,
    Fault::Partition,
    Fault::Crash,
    Fault::Pause,
];

/// Adds the log, and times in which a few terms end.
fn timed(scenario: Scenario) -> Scenario {
    let log = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LOG, "namespace": NAMESPACE}});
    scenario
        .object(log)
        .rough_for(Duration::from_secs(90))
        .settle_within(Duration::from_secs(60))
        .stable_for(Duration::ZERO)
        .compare_final_state(false)
}

/// Three replicas that elect a leader, and a thief.
pub fn leader() -> Scenario {
    let scenario = Scenario::new("leader").faults(FAULTS).workload(steal);
    timed(scenario.process("a", campaign).process("b", campaign).process("c", campaign))
}

/// Campaigns, and creates an object when it has observed a holder.
async fn campaign_observed(process: Process) -> Outcome {
    let maps = process.client().core_v1().config_maps(NAMESPACE);
    let name = process.name().to_owned();
    let report = |handle: ElectorHandle| async move {
        let map = json!({"metadata": {"name": name, "labels": {"has": "observed"}}});
        let Ok(map) = serde_json::from_value(map) else { return };
        while handle.leader().is_none() {
            sleep(Duration::from_secs(1)).await;
        }
        while maps.create(&map).await.is_err_and(|error| !error.is_already_exists()) {
            sleep(Duration::from_secs(1)).await;
        }
        pending().await
    };
    // It writes no log: a replica that has not observed the last term starts one with a lower number.
    campaign_beside(process, |_, _| pending(), report).await
}

/// Deletes the lease once, when all candidates have observed it: who has not cannot know that it had a holder (F-29).
async fn delete(workload: Workload) -> Outcome {
    let leases = workload.client().api::<LeaseObject>().namespace(NAMESPACE);
    let maps = workload.client().core_v1().config_maps(NAMESPACE);
    for _ in 0..5 {
        sleep(Duration::from_secs(u64::from(5 + workload.choose(30)))).await;
        if maps.list(&ListParams::default().labels("has=observed")).await?.len() == 3 {
            // There may be none at the moment.
            let _ = leases.delete(LEASE).await;
            break;
        }
    }
    Ok(())
}

/// Three replicas that elect a leader, and a client that deletes the lease. A replica that restarts would observe nothing, so none does.
pub fn lease_deleted() -> Scenario {
    let faults = FAULTS.into_iter().filter(|fault| *fault != Fault::Crash);
    let scenario = Scenario::new("lease-deleted").faults(faults).workload(delete);
    timed(scenario.process("a", campaign_observed).process("b", campaign_observed).process("c", campaign_observed))
}
