use super::super::plan::plan;
use super::super::stopwatch::Times;
use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn rendered(dashboard: &mut Dashboard, now: Duration) -> Vec<String> {
    dashboard.lines(&Numbers::default(), now, 80).iter().map(|line| line.render(false, 79)).collect()
}

fn ended(phase: Phase, mismatches: &[&str]) -> Report {
    let times = Times { settled: 20, ..Times::default() };
    let mismatches = mismatches.iter().map(|foo| ((*foo).to_owned(), "wrong".to_owned())).collect();
    Report::Ended(Ended { phase, writes: 20, times, took: s(2), convergence: s(1), mismatches })
}

#[test]
fn a_phase_is_shown_from_its_first_write_to_its_end() {
    let mut dashboard = Dashboard::new(&plan(20, false));
    let waiting = &rendered(&mut dashboard, s(0))[0];
    assert_eq!(waiting, "create  ························  create Foos; each gets a Deployment");
    dashboard.take(Report::Started { phase: Phase::Create, writes: 20 }, s(1));
    for _ in 0..10 {
        dashboard.take(Report::Wrote, s(1));
    }
    assert_eq!(dashboard.progress(), "in the phase \"create\", after 10 of 116 writes");
    dashboard.take(Report::Checked { settled: 5, written: 10 }, s(2));
    assert_eq!(rendered(&mut dashboard, s(2))[0], "create  ██████▒▒▒▒▒▒░░░░░░░░░░░░  10/20 written  1.0 s");
    for _ in 0..10 {
        dashboard.take(Report::Wrote, s(2));
    }
    dashboard.take(Report::Checked { settled: 5, written: 20 }, s(2));
    assert_eq!(rendered(&mut dashboard, s(3))[0], "create  ██████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  5/20 converged  2.0 s");
    dashboard.take(Report::Checked { settled: 20, written: 20 }, s(3));
    dashboard.take(ended(Phase::Create, &[]), s(3));
    assert_eq!(rendered(&mut dashboard, s(9))[0], "create  ████████████████████████  20 converged  2.0 s");
    dashboard.take(Report::Started { phase: Phase::Scale, writes: 20 }, s(4));
    dashboard.take(ended(Phase::Scale, &["foo-00"]), s(5));
    assert!(rendered(&mut dashboard, s(9))[1].ends_with("  1 did not converge  2.0 s"));
    assert_eq!(dashboard.open().next(), Some(Phase::Break));
}

#[test]
fn repeated_messages_are_one_line() {
    let mut dashboard = Dashboard::new(&[]);
    let mut add_message =
        |text: &str, at| dashboard.take(Report::Message { importance: Importance::Bad, text: text.into() }, s(at));
    add_message("a", 1);
    add_message("b", 2);
    add_message("a", 3);
    let lines = rendered(&mut dashboard, s(3));
    assert_eq!(lines[lines.len() - 2..], ["   2.00 s  b", "   3.00 s  a (2 times)"]);
}

#[test]
fn frequent_messages_do_not_displace_important_ones() {
    let mut dashboard = Dashboard::new(&[]);
    let shown = |dashboard: &Dashboard| {
        let texts: Vec<&str> = dashboard.happened.iter().map(|message| message.text.as_str()).collect();
        texts.join(" ")
    };
    let mut add_message = |importance, text: &str| {
        dashboard.take(Report::Message { importance, text: text.into() }, s(4));
        shown(&dashboard)
    };
    for text in ["1", "2", "3", "4"] {
        add_message(Importance::Faint, text);
    }
    assert_eq!(add_message(Importance::Bad, "a"), "2 3 4 a");
    add_message(Importance::Bad, "b");
    assert_eq!(add_message(Importance::Faint, "5"), "4 a b 5");
    assert_eq!(add_message(Importance::Bad, "c"), "a b 5 c");
    assert_eq!(add_message(Importance::Faint, "6"), "a b c 6");
    assert_eq!(add_message(Importance::Bad, "d"), "b c 6 d");
}

#[test]
fn everything_fits_into_twenty_lines_of_a_usual_terminal() {
    let mut dashboard = Dashboard::new(&plan(5000, true));
    for index in 0..10 {
        dashboard.take(Report::Message { importance: Importance::Faint, text: index.to_string() }, s(4));
    }
    let lines = dashboard.lines(&Numbers::default(), s(5), 80);
    assert!(lines.len() <= 20, "{}", lines.len());
    for line in lines {
        let line = line.render(false, usize::MAX);
        assert!(line.chars().count() < 80, "{line}");
    }
}
