use evenkeel::apiserver::ApiServer;

use super::super::plan::plan;
use super::*;

#[test]
fn the_foreign_deployment_is_valid() {
    let deployment = foreign_deployment("taken");
    assert_eq!(deployment.metadata.name.as_deref(), Some("taken"));
    assert_eq!(deployment.spec.replicas, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_demo_without_a_controller_ends_with_its_mismatches() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    server.install_crds([evenkeel_sample_controller::CRD]).await.unwrap();
    let (reports, mut received) = mpsc::channel(10_000);
    let runner = Runner::new(&server.client(), server.faults(), Duration::ZERO, reports);
    runner.run(plan(2, false)).await.unwrap();
    let mut ended = Vec::new();
    while let Some(report) = received.recv().await {
        if let Report::Ended(report) = report {
            ended.push(report);
        }
    }
    let [create] = &ended[..] else { panic!("no phase follows one that did not converge: {ended:?}") };
    assert_eq!((create.phase, create.times.settled), (Phase::Create, 0));
    let expected = [("foo-00", "its Deployment web-00 is missing"), ("foo-01", "its Deployment web-01 is missing")];
    assert_eq!(create.mismatches, expected.map(|(foo, wrong)| (foo.to_owned(), wrong.to_owned())).into());
    assert!(create.convergence >= PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_phase_fails_without_progress_for_too_long() {
    let start = Instant::now();
    let mut patience = ProgressTimer::new(start);
    assert!(!patience.is_exceeded(3, start));
    assert!(!patience.is_exceeded(2, start + PATIENCE - Duration::from_secs(1)));
    // More mismatches are no progress, nor is returning to the former number.
    assert!(!patience.is_exceeded(5, start + PATIENCE));
    assert!(patience.is_exceeded(2, start + 2 * PATIENCE));
    patience.renew(start + 2 * PATIENCE);
    assert!(!patience.is_exceeded(2, start + 2 * PATIENCE));
}

#[tokio::test(start_paused = true)]
async fn writes_are_spread_over_the_first_part_of_a_slot() {
    let start = Instant::now();
    let writes = (0..6).map(|index| Write::DeleteFoo { foo: index.to_string() }).collect();
    let mut schedule = Schedule::new(writes, start, Duration::from_secs(10));
    let mut due = Vec::new();
    while !schedule.is_over() {
        tokio::time::sleep_until(schedule.due()).await;
        due.push(start.elapsed().as_secs());
        assert_eq!(schedule.next(Instant::now()).len(), 1);
    }
    assert_eq!(due, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn late_writes_are_sent_together_but_never_two_for_one_foo() {
    let start = Instant::now();
    let writes = ["a", "b", "a", "c", "d"].map(|foo| Write::ScaleFoo { foo: foo.into(), replicas: 1 });
    let mut schedule = Schedule::new(writes.into(), start, Duration::ZERO);
    let mut batches = Vec::new();
    while !schedule.is_over() {
        let batch = schedule.next(start);
        batches.push(batch.iter().map(|write| write.subject().to_owned()).collect::<String>());
    }
    assert_eq!(batches, ["ab", "acd"]);
}
