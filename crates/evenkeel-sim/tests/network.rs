//! What happens on the network, and what must not be shown.

use evenkeel_sim::{Fault, Process, Scenario};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Reads a version again and again, and notes how long each answer took.
async fn ask(process: Process) -> Outcome {
    let maps = process.client().core_v1().config_maps("default");
    let shutdown = process.shutdown();
    let asking = async {
        loop {
            let started = tokio::time::Instant::now();
            let outcome = maps.get("missing").await.map_or_else(|error| error.is_not_found(), |_| true);
            process.note(format!(
                "{} after {} s",
                if outcome { "answered" } else { "failed" },
                started.elapsed().as_secs()
            ));
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        }
    };
    tokio::select! {
        biased;
        () = shutdown => {}
        () = asking => {}
    }
    Ok(())
}

fn asker(fault: Fault) -> Scenario {
    let minute = std::time::Duration::from_secs(60);
    Scenario::new("asker").process("asker", ask).faults([fault]).settle_within(2 * minute).stable_for(minute)
}

/// Returns a run in which the fault occurred, and the notes of it.
fn notes_of(fault: Fault) -> Vec<String> {
    let scenario = asker(fault);
    let mut runs = (0..50).filter_map(|seed| scenario.replay(&format!("seed={seed:#x}")).ok());
    let Some(run) = runs.find(|run| run.faults.contains_key(&fault)) else { panic!("no run has {fault:?}") };
    assert_eq!(run.failure, None);
    run.trace.lines().iter().map(|line| line.what.clone()).collect()
}

#[test]
fn responses_are_late_before_a_process_is_cut_off() {
    let notes = notes_of(Fault::Partition);
    let cut = notes.iter().position(|note| note.ends_with("does not arrive")).unwrap();
    let late = notes.iter().position(|note| note.starts_with("has late responses")).unwrap();
    assert!(late < cut, "{notes:?}");
    assert!(notes[late..cut].iter().any(|note| note.starts_with("answered after")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("failed after")), "{notes:?}");
    assert_eq!(notes.iter().rfind(|note| note.contains(" after ")).unwrap(), "answered after 0 s");
}

#[test]
fn inv_20_a_secret_in_the_timeline_fails_the_run_and_is_not_shown() {
    let scenario = Scenario::new("leak").secret("canary").process("leak", |process: Process| async move {
        process.note("the token is canary");
        process.shutdown().await;
        Ok(())
    });
    let failed = scenario.check(1).unwrap_err();
    assert_eq!(failed.failure().invariant, "no secret leaves");
    assert!(!failed.to_string().contains("canary"), "{failed}");
}

#[test]
fn inv_20_a_secret_in_a_log_line_of_any_level_fails_the_run() {
    let scenario = Scenario::new("leak").secret("canary").process("leak", |process: Process| async move {
        tracing::trace!(token = "canary", "sending");
        process.shutdown().await;
        Ok(())
    });
    assert_eq!(scenario.check(1).unwrap_err().failure().invariant, "no secret leaves");
}
