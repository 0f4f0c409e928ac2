use evenkeel::apiserver::ApiServer;

use super::super::plan::plan;
use super::*;

#[test]
fn the_deployment_of_somebody_else_is_one() {
    let deployment = stranger("taken");
    assert_eq!(deployment.metadata.name.as_deref(), Some("taken"));
    assert_eq!(deployment.spec.replicas, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_story_without_a_controller_ends_with_what_did_not_converge() {
    let server = ApiServer::builder().in_process_only().start().await.unwrap();
    server.install_crds([evenkeel_sample_controller::CRD]).await.unwrap();
    let (reports, mut heard) = mpsc::channel(10_000);
    let story = Story::new(&server.client(), server.faults(), Duration::ZERO, reports);
    story.play(plan(2, false)).await.unwrap();
    let mut ended = Vec::new();
    while let Some(report) = heard.recv().await {
        if let Report::Ended(report) = report {
            ended.push(report);
        }
    }
    let [create] = &ended[..] else { panic!("nothing comes after what did not converge: {ended:?}") };
    assert_eq!((create.phase, create.times.settled), (Phase::Create, 0));
    let expected = [("foo-00", "its Deployment web-00 is missing"), ("foo-01", "its Deployment web-01 is missing")];
    assert_eq!(create.gaps, expected.map(|(foo, wrong)| (foo.to_owned(), wrong.to_owned())).into());
    assert!(create.convergence >= PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn hope_is_lost_when_nothing_gets_better_for_too_long() {
    let start = Instant::now();
    let mut patience = Patience::new(start);
    assert!(!patience.is_lost(3, start));
    assert!(!patience.is_lost(2, start + PATIENCE - Duration::from_secs(1)));
    // Getting worse is no progress, and getting back is none either.
    assert!(!patience.is_lost(5, start + PATIENCE));
    assert!(patience.is_lost(2, start + 2 * PATIENCE));
    patience.renew(start + 2 * PATIENCE);
    assert!(!patience.is_lost(2, start + 2 * PATIENCE));
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
async fn what_is_late_is_written_together_but_never_two_things_about_one_foo() {
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
