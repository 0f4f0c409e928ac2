use std::collections::BTreeSet;

use evenkeel::core::shard::PLACES;

use super::super::division::{Division, Slice};
use super::*;

fn slice(quarter: u128, owner: Option<&str>, target: Option<&str>) -> Slice {
    let width = PLACES / 4;
    Slice {
        start: u64::try_from(quarter * width).unwrap(),
        end: (quarter + 1) * width,
        owner: owner.map(str::to_owned),
        target: target.map(str::to_owned),
    }
}

fn texts(dashboard: &Dashboard) -> Vec<String> {
    dashboard.lines(Duration::from_secs(9), 20).iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn the_bar_shows_owners_moves_crashed_replicas_and_what_has_no_owner() {
    let mut dashboard = Dashboard::new(&[Phase::Start(2), Phase::Crash]);
    dashboard.take(Report::Started(Phase::Start(2)), Duration::from_secs(1));
    let slices = vec![
        slice(0, Some("replica-1"), None),
        slice(1, Some("replica-1"), Some("replica-2")),
        slice(2, Some("replica-3"), None),
        slice(3, None, None),
    ];
    dashboard.take(
        Report::Looked(Snapshot {
            division: Division { revision: 1, members: Vec::new(), slices },
            replicas: vec![("replica-1".to_owned(), 7), ("replica-2".to_owned(), 5)],
            crashed: BTreeSet::from(["replica-3".to_owned()]),
            reconciles: 12,
            waiting: Some("1 slices are moving".to_owned()),
            ..Snapshot::default()
        }),
        Duration::from_secs(2),
    );
    dashboard.take(Report::Message { is_bad: true, text: "replica-3: crashed".to_owned() }, Duration::from_secs(3));
    let expected = [
        "start    2 replicas start a ring  8.0 s  1 slices are moving",
        "crash    one replica crashes: its tasks are dropped",
        "",
        "████▒▒▒▒xxxxx·····",
        "█ replica-1     50.0 %   2 slices  7 reconciles",
        "█ replica-2      0.0 %   0 slices  5 reconciles",
        "█ replica-3     25.0 %   1 slices  crashed",
        "  unowned       50.0 %    1 moving",
        "12 reconciles, 0 overlaps",
        "",
        "   3.00 s  replica-3: crashed",
    ];
    let found = texts(&dashboard);
    assert_eq!(found[3].chars().count(), 18);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found[..3], expected[..3]);
    assert_eq!(found[4..], expected[4..]);
    for (mark, range) in [('█', 0..4), ('▒', 5..9), ('x', 9..13), ('·', 14..18)] {
        assert!(found[3].chars().skip(range.start).take(range.len()).all(|c| c == mark), "{}", found[3]);
    }
}
