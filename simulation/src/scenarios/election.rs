//! Replicas that elect a leader (WRK-6).

use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel_sim::{Process, Scenario};
use tokio::time::sleep;

use super::Outcome;

/// Leads, and acts every second while it does.
async fn lead(process: Process) -> Outcome {
    loop {
        let elector =
            LeaderElector::new(process.client(), "sim").identity(format!("{}-{}", process.name(), process.life()));
        let (leading, handle) = (process.clone(), elector.handle());
        let campaign = elector.run(|lease| async move {
            let alone = leading.alone("one leader");
            leading.note("leads");
            while lease.is_valid() {
                alone.check();
                sleep(Duration::from_secs(1)).await;
            }
        });
        let stopped = process.shutdown();
        tokio::select! {
            biased;
            () = stopped => {
                handle.stop();
                return Ok(());
            }
            // The lease was lost: it campaigns again.
            _ = campaign => {}
        }
    }
}

/// Three replicas that elect a leader.
pub fn leader() -> Scenario {
    Scenario::new("leader")
        .process("a", lead)
        .process("b", lead)
        .process("c", lead)
        .stable_for(Duration::from_secs(60))
        .settle_within(Duration::from_secs(60))
}
