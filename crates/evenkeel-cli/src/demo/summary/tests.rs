use super::super::plan::{Phase, plan};
use super::super::report::Report;
use super::super::stopwatch::Times;
use super::*;

/// Returns a dashboard in which these phases ended, with this many mismatches in the last.
fn dashboard(phases: &[Phase], mismatches: usize) -> Dashboard {
    let mut dashboard = Dashboard::new(&plan(20, false));
    for (index, phase) in phases.iter().copied().enumerate() {
        let times = Times { settled: 20, median: Duration::from_millis(20), longest: Duration::from_millis(1200) };
        let mismatches = if index + 1 == phases.len() { mismatches } else { 0 };
        let mismatches = (0..mismatches).map(|foo| (format!("foo-0{foo}"), "it has no status".to_owned())).collect();
        let (took, convergence) = (Duration::from_secs(3), Duration::from_millis(300));
        dashboard.take(Report::Started { phase, writes: 20 }, Duration::ZERO);
        dashboard
            .take(Report::Ended(Ended { phase, writes: 20, times, took, convergence, mismatches }), Duration::ZERO);
    }
    dashboard
}

const ALL: [Phase; 6] = [Phase::Create, Phase::Scale, Phase::Break, Phase::Repair, Phase::Outage, Phase::Delete];

fn rendered(dashboard: &Dashboard) -> Vec<String> {
    let numbers = Numbers { requests: [123_456, 98_765, 54_321], breaks: 2, refusals: 12, ..Numbers::default() };
    lines(dashboard, &numbers).iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn a_converged_demo_ends_with_that_line() {
    let dashboard = dashboard(&ALL, 0);
    assert_eq!(verdict(&dashboard), Ok(()));
    let lines = rendered(&dashboard);
    assert_eq!(lines[0], "phase     writes    Foos      took    median   longest         all");
    assert_eq!(lines[1], "create        20      20    3.00 s    0.02 s    1.20 s      0.30 s");
    assert_eq!(lines.last().unwrap(), "everything converged");
    assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
}

#[test]
fn mismatches_are_named() {
    let dashboard = dashboard(&ALL[..2], 4);
    let complaint = "scale did not converge: foo-00: it has no status; foo-01: it has no status; \
                     foo-02: it has no status; and 1 more";
    assert_eq!(verdict(&dashboard), Err(complaint.to_owned()));
    let lines = rendered(&dashboard);
    assert!(lines[2].ends_with("  4 did not converge"), "{lines:?}");
    assert_eq!(lines[3], "break     not run");
    assert_eq!(lines.last().unwrap(), complaint);
}

#[test]
fn an_interrupted_demo_is_an_error() {
    assert_eq!(verdict(&dashboard(&ALL[..5], 0)), Err("the demo ended before delete".to_owned()));
}
