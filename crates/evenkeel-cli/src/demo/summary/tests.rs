use super::super::plan::{Phase, plan};
use super::super::report::Report;
use super::super::stopwatch::Times;
use super::*;

/// A picture of a story of which these phases are over, with this many Foos that did not converge in the last.
fn picture(phases: &[Phase], gaps: usize) -> Picture {
    let mut picture = Picture::new(&plan(20, false));
    for (index, phase) in phases.iter().copied().enumerate() {
        let times = Times { settled: 20, median: Duration::from_millis(20), longest: Duration::from_millis(1200) };
        let gaps = if index + 1 == phases.len() { gaps } else { 0 };
        let gaps = (0..gaps).map(|foo| (format!("foo-0{foo}"), "it has no status".to_owned())).collect();
        let (took, convergence) = (Duration::from_secs(3), Duration::from_millis(300));
        picture.take(Report::Began { phase, writes: 20 }, Duration::ZERO);
        picture.take(Report::Ended(Ended { phase, writes: 20, times, took, convergence, gaps }), Duration::ZERO);
    }
    picture
}

const ALL: [Phase; 6] = [Phase::Create, Phase::Scale, Phase::Break, Phase::Repair, Phase::Outage, Phase::Delete];

fn rendered(picture: &Picture) -> Vec<String> {
    let numbers = Numbers { requests: [123_456, 98_765, 54_321], breaks: 2, refusals: 12, ..Numbers::default() };
    lines(picture, &numbers).iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn a_story_that_went_well_says_so_last() {
    let picture = picture(&ALL, 0);
    assert_eq!(verdict(&picture), Ok(()));
    let lines = rendered(&picture);
    assert_eq!(lines[0], "phase     writes    Foos      took    median   longest         all");
    assert_eq!(lines[1], "create        20      20    3.00 s    0.02 s    1.20 s      0.30 s");
    assert_eq!(lines.last().unwrap(), "everything converged");
    assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
}

#[test]
fn what_did_not_converge_is_named() {
    let picture = picture(&ALL[..2], 4);
    let complaint = "scale did not converge: foo-00: it has no status; foo-01: it has no status; \
                     foo-02: it has no status; and 1 more";
    assert_eq!(verdict(&picture), Err(complaint.to_owned()));
    let lines = rendered(&picture);
    assert!(lines[2].ends_with("  4 did not converge"), "{lines:?}");
    assert_eq!(lines[3], "break     not played");
    assert_eq!(lines.last().unwrap(), complaint);
}

#[test]
fn a_story_that_was_cut_short_did_not_go_well() {
    assert_eq!(verdict(&picture(&ALL[..5], 0)), Err("the story ended before delete".to_owned()));
}
