use super::*;

fn failure() -> ClusterFailure {
    ClusterFailure::new("refused", Instant::now())
}

#[tokio::test(start_paused = true)]
async fn mcl_007_five_failures_in_a_row_park_and_one_response_releases() {
    let mut streak = RequestStreak::default();
    for _ in 0..4 {
        assert!(!streak.unanswered(failure()));
    }
    assert!(!streak.responded(), "nothing was parked");
    let parked: Vec<bool> = (0..6).map(|_| streak.unanswered(failure())).collect();
    assert_eq!(parked, [false, false, false, false, true, false], "the change is reported once");
    assert!(streak.is_parked());
    assert!(streak.responded() && !streak.is_parked());
    assert!(!streak.responded());
    let counts = RequestCounts { responses: 3, without_connection: 10, other_failures: 0 };
    assert_eq!(streak.counts, counts);
}

#[test]
fn mcl_007_only_a_lack_of_a_connection_counts() {
    let without = |fault| is_without_connection(&TransportError::bare(fault, "example"));
    for fault in [TransportFault::Refused, TransportFault::ConnectTimeout, TransportFault::Tls, TransportFault::Closed]
    {
        assert!(without(fault), "{fault:?}");
    }
    for fault in [TransportFault::Credentials, TransportFault::Protocol, TransportFault::StreamReset] {
        assert!(!without(fault), "{fault:?}");
    }
}
