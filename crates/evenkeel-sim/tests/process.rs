//! What a process of a scenario can ask of the harness.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_sim::{Fault, Process, Scenario};
use tokio::time::sleep;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A scenario of one process, without a server.
fn alone<F>(main: impl Fn(Process) -> F + Send + Sync + 'static) -> Scenario
where
    F: Future<Output = Outcome> + Send + 'static,
{
    Scenario::new("alone").without_server().process("one", main).compare_final_state(false)
}

#[test]
fn f_32_a_process_panics_where_it_may_and_only_while_there_are_faults() {
    let panics = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&panics);
    let scenario = alone(move |process| {
        let panics = Arc::clone(&counted);
        async move {
            for _ in 0..100 {
                let outcome = catch_unwind(AssertUnwindSafe(|| process.may_panic()));
                panics.fetch_add(u32::from(outcome.is_err()), Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
            }
            // The faults last for five minutes.
            sleep(Duration::from_secs(300)).await;
            for _ in 0..100 {
                process.may_panic();
            }
            process.shutdown().await;
            Ok(())
        }
    });
    let report = scenario.faults([Fault::Panics]).check(20).unwrap();
    let panics = u64::from(panics.load(Ordering::Relaxed));
    assert!(panics > 0 && report.faults.get(&Fault::Panics) == Some(&panics), "{panics} panics: {report}");
}

#[test]
fn f_28_the_time_of_day_of_a_process_jumps_and_its_timers_do_not() {
    let scenario = alone(|process| async move {
        let time_of_day = || evenkeel_base::task::simulated_time_of_day().unwrap_or_default();
        for _ in 0..300 {
            let before = time_of_day();
            sleep(Duration::from_secs(1)).await;
            let passed = time_of_day().as_secs_f64() - before.as_secs_f64();
            if (passed - 1.0).abs() > 0.1 {
                process.fail("steady", format!("{passed:.0} s in a second"));
            }
        }
        process.shutdown().await;
        Ok(())
    });
    let failed = scenario.faults([Fault::ClockJumps]).check(50).unwrap_err();
    assert_eq!(failed.failure().invariant, "steady");
}

#[test]
fn inv_10_the_tasks_of_a_process_are_counted() {
    let scenario = alone(|process| async move {
        let before = process.task_count();
        let tasks: Vec<_> =
            (1..4).map(|seconds| tokio::spawn(scheduled(sleep(Duration::from_secs(seconds))))).collect();
        let during = process.task_count();
        for task in tasks {
            task.await?;
        }
        let counts = [before, during, process.task_count()];
        if counts != [1, 4, 1] {
            process.fail("tasks", format!("{counts:?}"));
        }
        process.shutdown().await;
        Ok(())
    });
    scenario.check(10).unwrap();
}

#[test]
fn the_choices_of_a_process_are_part_of_the_run() {
    let scenario = alone(|process| async move {
        process.note(format!("chooses {}", process.choose(1_000)));
        process.shutdown().await;
        Ok(())
    });
    let chosen = |seed: u64| {
        let run = scenario.replay(&format!("seed={seed}")).unwrap();
        run.trace.lines().iter().find(|line| line.what.starts_with("chooses")).unwrap().what.clone()
    };
    assert_eq!(chosen(1), chosen(1));
    assert_ne!(chosen(1), chosen(2));
}

#[test]
fn without_a_server_requests_are_refused_and_no_objects_are_possible() {
    let scenario = alone(|process| async move {
        use evenkeel::client::Error;
        let refused = process.client().core_v1().config_maps("default").get("any").await;
        if !matches!(refused, Err(Error::Transport { .. })) {
            process.fail("no server", format!("{refused:?}"));
        }
        process.shutdown().await;
        Ok(())
    });
    scenario.clone().check(3).unwrap();
    let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let run = scenario.object(object).replay("tape=plain").unwrap();
    assert_eq!(run.failure.unwrap().invariant, "set-up");
}
