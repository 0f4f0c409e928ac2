use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn inline_data_is_never_due() {
    let start = Instant::now();
    let mut schedule = Schedule::new(false, false, start);
    assert_eq!(schedule.claim(Occasion::Handshake, start + 1_000_000 * SECOND), Due::default());
    assert_eq!(schedule.next_for_request(), None);
}

#[test]
fn trn_012_trn_013_handshakes_check_files_every_second_requests_every_minute_and_the_ca_every_five() {
    let start = Instant::now();
    let mut schedule = Schedule::new(true, true, start);
    let mut claim = |occasion, now| {
        let due = schedule.claim(occasion, now);
        schedule.done();
        due
    };
    let nothing = Due::default();
    let identity = Due { identity: true, ca: false };
    assert_eq!(claim(Occasion::Handshake, start), nothing, "the first load is no rotation");
    assert_eq!(claim(Occasion::Handshake, start + SECOND / 2), nothing);
    assert_eq!(claim(Occasion::Handshake, start + SECOND), identity);
    assert_eq!(claim(Occasion::Handshake, start + SECOND), nothing, "one looks for all");
    assert_eq!(claim(Occasion::Request, start + 60 * SECOND), nothing);
    assert_eq!(claim(Occasion::Request, start + 61 * SECOND), identity);
    assert_eq!(claim(Occasion::Request, start + 300 * SECOND), Due { identity: true, ca: true });
    assert_eq!(claim(Occasion::Handshake, start + 599 * SECOND), identity);
    assert_eq!(claim(Occasion::Handshake, start + 600 * SECOND), Due { identity: true, ca: true });
    assert_eq!(schedule.next_for_request(), Some(start + 660 * SECOND));
}

#[test]
fn one_check_runs_at_a_time() {
    let start = Instant::now();
    let mut schedule = Schedule::new(true, true, start);
    assert!(schedule.claim(Occasion::Handshake, start + SECOND).any());
    assert!(!schedule.claim(Occasion::Handshake, start + 1000 * SECOND).any());
    schedule.done();
    assert!(schedule.claim(Occasion::Handshake, start + 1000 * SECOND).any());
}
