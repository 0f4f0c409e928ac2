use super::super::plan::plan;
use super::super::stopwatch::Times;
use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn rendered(picture: &mut Picture, now: Duration) -> Vec<String> {
    picture.lines(&Numbers::default(), now, 80).iter().map(|line| line.render(false, 79)).collect()
}

fn ended(phase: Phase, gaps: &[&str]) -> Report {
    let times = Times { settled: 20, ..Times::default() };
    let gaps = gaps.iter().map(|foo| ((*foo).to_owned(), "wrong".to_owned())).collect();
    Report::Ended(Ended { phase, writes: 20, times, took: s(2), convergence: s(1), gaps })
}

#[test]
fn a_phase_is_told_from_its_first_write_to_its_end() {
    let mut picture = Picture::new(&plan(20, false));
    let waiting = &rendered(&mut picture, s(0))[0];
    assert_eq!(waiting, "create  ························  Foos come; each gets a Deployment");
    picture.take(Report::Began { phase: Phase::Create, writes: 20 }, s(1));
    for _ in 0..10 {
        picture.take(Report::Wrote, s(1));
    }
    assert_eq!(picture.how_far(), "in the phase \"create\", after 10 of 116 writes");
    picture.take(Report::Looked { settled: 5, written: 10 }, s(2));
    assert_eq!(rendered(&mut picture, s(2))[0], "create  ██████▒▒▒▒▒▒░░░░░░░░░░░░  10/20 written  1.0 s");
    for _ in 0..10 {
        picture.take(Report::Wrote, s(2));
    }
    picture.take(Report::Looked { settled: 5, written: 20 }, s(2));
    assert_eq!(rendered(&mut picture, s(3))[0], "create  ██████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  5/20 converged  2.0 s");
    picture.take(Report::Looked { settled: 20, written: 20 }, s(3));
    picture.take(ended(Phase::Create, &[]), s(3));
    assert_eq!(rendered(&mut picture, s(9))[0], "create  ████████████████████████  20 converged  2.0 s");
    picture.take(Report::Began { phase: Phase::Scale, writes: 20 }, s(4));
    picture.take(ended(Phase::Scale, &["foo-00"]), s(5));
    assert!(rendered(&mut picture, s(9))[1].ends_with("  1 did not converge  2.0 s"));
    assert_eq!(picture.open().next(), Some(Phase::Break));
}

#[test]
fn what_happens_again_and_again_is_one_line() {
    let mut picture = Picture::new(&[]);
    let mut happen = |text: &str, at| picture.take(Report::Happened { tone: Tone::Bad, text: text.into() }, s(at));
    happen("a", 1);
    happen("b", 2);
    happen("a", 3);
    let lines = rendered(&mut picture, s(3));
    assert_eq!(lines[lines.len() - 2..], ["   2.00 s  b", "   3.00 s  a (2 times)"]);
}

#[test]
fn what_happens_all_the_time_does_not_drive_out_what_people_should_see() {
    let mut picture = Picture::new(&[]);
    let shown = |picture: &Picture| {
        let texts: Vec<&str> = picture.happened.iter().map(|happening| happening.text.as_str()).collect();
        texts.join(" ")
    };
    let mut happen = |tone, text: &str| {
        picture.take(Report::Happened { tone, text: text.into() }, s(4));
        shown(&picture)
    };
    for text in ["1", "2", "3", "4"] {
        happen(Tone::Faint, text);
    }
    assert_eq!(happen(Tone::Bad, "a"), "2 3 4 a");
    happen(Tone::Bad, "b");
    assert_eq!(happen(Tone::Faint, "5"), "4 a b 5");
    assert_eq!(happen(Tone::Bad, "c"), "a b 5 c");
    assert_eq!(happen(Tone::Faint, "6"), "a b c 6");
    assert_eq!(happen(Tone::Bad, "d"), "b c 6 d");
}

#[test]
fn everything_fits_into_twenty_lines_of_a_usual_terminal() {
    let mut picture = Picture::new(&plan(5000, true));
    for index in 0..10 {
        picture.take(Report::Happened { tone: Tone::Faint, text: index.to_string() }, s(4));
    }
    let lines = picture.lines(&Numbers::default(), s(5), 80);
    assert!(lines.len() <= 20, "{}", lines.len());
    for line in lines {
        let line = line.render(false, usize::MAX);
        assert!(line.chars().count() < 80, "{line}");
    }
}
