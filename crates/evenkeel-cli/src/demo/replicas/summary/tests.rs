use evenkeel::core::ObjectKey;

use super::super::record::Gaps;
use super::super::report::Report;
use super::*;

const PHASES: [Phase; 3] = [Phase::Join(1), Phase::Crash, Phase::Leave];

fn dashboard(problem: Option<&str>, verified: Option<Option<&str>>) -> Dashboard {
    let mut dashboard = Dashboard::new(&PHASES);
    for (seconds, phase) in (1..).zip(PHASES) {
        dashboard.take(Report::Started(phase), Duration::from_secs(seconds));
        let gap = if phase == Phase::Crash { 7 } else { seconds };
        let gaps = Gaps { moved: 4, longest: Duration::from_secs(gap), ..Gaps::default() };
        let problem = problem.filter(|_| phase == Phase::Crash).map(str::to_owned);
        let (took, unowned) = (Duration::from_secs(9), Duration::ZERO);
        let ended = Ended { phase, took, moves: 2, unowned, gaps, problem };
        dashboard.take(Report::Ended(ended), Duration::from_secs(seconds));
    }
    if let Some(problem) = verified {
        dashboard.take(Report::Verified(problem.map(str::to_owned)), Duration::from_secs(9));
    }
    dashboard
}

fn record(replicas: &[usize]) -> ReconcileRecord {
    let mut record = ReconcileRecord::default();
    for replica in replicas {
        record.enter(&ObjectKey::namespaced("n", "a"), *replica);
    }
    record
}

fn last(dashboard: &Dashboard, record: &ReconcileRecord) -> Vec<String> {
    let lines = lines(dashboard, record, 5);
    lines[lines.len() - 3..].iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn the_last_lines_are_the_result_the_gaps_and_the_proof() {
    let dashboard = dashboard(None, Some(None));
    let expected = [
        "everything converged: 5 Foos and their ConfigMaps",
        "longest gap per key: planned moves 3.00 s, crash 7.00 s",
        "0 overlaps in 1 reconciles",
    ];
    assert_eq!(last(&dashboard, &record(&[1])), expected);
    assert_eq!(verdict(&dashboard, &record(&[1])), Ok(()));
}

#[test]
fn what_did_not_converge_or_overlapped_is_an_error() {
    for (problem, verified, replicas, expected) in [
        (Some("b owns nothing"), Some(None), &[1][..], "crash did not converge: b owns nothing"),
        (None, Some(Some("no")), &[1], "the objects did not converge: no"),
        (None, None, &[1], "the objects were not compared"),
        (None, Some(None), &[], "nothing was reconciled"),
        (None, Some(None), &[1, 2], "n/a was reconciled by replica-1 and replica-2 at once"),
    ] {
        let dashboard = dashboard(problem, verified);
        assert_eq!(verdict(&dashboard, &record(replicas)).as_ref().map_err(String::as_str), Err(expected));
        assert!(!last(&dashboard, &record(replicas))[0].starts_with("everything converged"));
    }
    let unfinished = Dashboard::new(&PHASES);
    assert!(verdict(&unfinished, &record(&[1])).unwrap_err().starts_with("the demo ended before the end of join"));
}
