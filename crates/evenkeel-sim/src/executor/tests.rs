use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_base::task::{install, scheduled};
use tokio::time::sleep;

use super::*;
use crate::decisions::ChoiceSource;

type Log = Arc<Mutex<Vec<String>>>;

/// Runs `story` as the harness, and returns what it logged.
fn run<F: Future<Output = ()> + Send + 'static>(
    source: ChoiceSource,
    policy: SchedulePolicy,
    story: impl FnOnce(Arc<Executor>, Log) -> F,
) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let log = Log::default();
    runtime.block_on(async {
        let decisions = Arc::new(Mutex::new(Decisions::new(source)));
        let executor = Arc::new(Executor::new(decisions));
        executor.set_policy(policy);
        let _installed = install(executor.clone());
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let story = story(executor.clone(), Arc::clone(&log));
        let ended = Arc::clone(&done);
        drop(tokio::spawn(scheduled(async move {
            story.await;
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
        })));
        executor.dispatch(|| done.load(std::sync::atomic::Ordering::Relaxed)).await;
    });
    log.lock().unwrap().clone()
}

fn note(log: &Log, text: impl Into<String>) {
    log.lock().unwrap().push(text.into());
}

/// Three tasks that run three times each.
async fn three_tasks(log: Log) {
    let tasks: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            let log = Arc::clone(&log);
            tokio::spawn(scheduled(async move {
                for _ in 0..3 {
                    note(&log, name);
                    tokio::task::yield_now().await;
                }
            }))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn sim_5_first_in_first_out_is_the_plain_order() {
    let order = run(ChoiceSource::Seed(1), SchedulePolicy::Fifo, |_, log| three_tasks(log));
    assert_eq!(order, ["a", "b", "c", "a", "b", "c", "a", "b", "c"]);
}

#[test]
fn sim_3_a_seed_decides_the_order_and_repeats_it() {
    for policy in [
        SchedulePolicy::Random,
        SchedulePolicy::Priorities { change_every: 4 },
        SchedulePolicy::Starve(ProcessId::HARNESS),
    ] {
        let order = |seed| run(ChoiceSource::Seed(seed), policy, |_, log| three_tasks(log));
        let orders: std::collections::BTreeSet<_> = (0..20).map(order).collect();
        assert!(orders.iter().all(|order| order.len() == 9));
        assert_eq!(order(5), order(5));
        if policy == SchedulePolicy::Random {
            assert!(orders.len() > 10, "{} orders of 20 seeds", orders.len());
        }
    }
}

#[test]
fn sim_9_a_crash_ends_all_tasks_of_a_process_and_a_pause_delays_them() {
    let log = run(ChoiceSource::Seed(1), SchedulePolicy::Fifo, |executor, log| {
        let (worker, other) = (ProcessId(1), ProcessId(2));
        for process in [worker, other] {
            let log = Arc::clone(&log);
            executor.start(process, |life| async move {
                // A task that the process has spawned belongs to it.
                let child = Arc::clone(&log);
                drop(tokio::spawn(scheduled(async move {
                    loop {
                        sleep(Duration::from_secs(10)).await;
                        note(&child, format!("child of {}", life.process.0));
                    }
                })));
                std::future::pending().await
            });
        }
        async move {
            sleep(Duration::from_secs(15)).await;
            executor.crash(worker);
            executor.set_paused(other, true);
            sleep(Duration::from_secs(10)).await;
            note(&log, "continue");
            executor.set_paused(other, false);
            sleep(Duration::from_secs(11)).await;
            assert_eq!((executor.task_count(worker), executor.task_count(other)), (0, 2));
        }
    });
    assert_eq!(log, ["child of 1", "child of 2", "continue", "child of 2", "child of 2"]);
}
