use super::*;

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.render(false, usize::MAX)).collect()
}

#[test]
fn the_footer_shows_the_state_of_the_watch() {
    let now = Instant::now();
    let state = |phase, received| {
        let watch = Watch { phase, received, version: String::new(), failures: 0 };
        texts(&[watch.line("pods", now)]).remove(0)
    };
    assert_eq!(state(ReflectorPhase::Idle, Some(0)), "── pods  starting");
    assert_eq!(state(ReflectorPhase::Listing, Some(0)), "── pods  listing");
    assert_eq!(state(ReflectorPhase::Listing, Some(7)), "── pods  listing, 7 so far");
    assert_eq!(state(ReflectorPhase::Listing, None), "── pods  listing");
    assert_eq!(state(ReflectorPhase::Watching, None), "── pods  watching");
    let until = now + Duration::from_millis(1200);
    assert_eq!(state(ReflectorPhase::Waiting { until }, None), "── pods  retrying in 2s");
    assert_eq!(state(ReflectorPhase::Waiting { until: now }, None), "── pods  retrying in 1s");
    let watch = Watch { phase: ReflectorPhase::Watching, received: None, version: "9".to_owned(), failures: 2 };
    assert_eq!(
        texts(&live("pods", &watch, &mut Tally::default(), now, Duration::ZERO)),
        [
            "── pods  watching  at version 9  2 failures",
            "   0 objects  +0 added  ~0 updated  =0 unchanged  -0 deleted  0.0 events/s",
        ]
    );
}

#[test]
fn the_summary_is_a_title_and_a_table() {
    let lines = texts(&last("pods in default", &Tally::default(), 1, Duration::from_millis(134_567)));
    assert_eq!(lines[..2], ["", "pods in default, observed for 2m14s: 0 objects at the end, 1 failure"]);
    assert_eq!(lines.len(), 4);
}
