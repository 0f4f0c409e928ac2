use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An informer whose effective periods are recomputed for each added handler.
struct Informer {
    check: ResyncCheck,
    schedules: Vec<ResyncSchedule>,
    now: Instant,
}

impl Informer {
    fn new(period: Duration) -> Self {
        Informer { check: ResyncCheck::new(period), schedules: Vec::new(), now: Instant::now() }
    }

    fn add(&mut self, requested: impl Into<Option<Duration>>) -> Duration {
        let before = self.check.period();
        let schedule = self.check.admit(requested.into(), self.now);
        if self.check.period() != before {
            for other in &mut self.schedules {
                other.derive(self.check.period(), self.now);
            }
        }
        self.schedules.push(schedule);
        self.check.period()
    }

    fn periods(&self) -> Vec<Duration> {
        self.schedules.iter().map(ResyncSchedule::period).collect()
    }
}

#[test]
fn rsy_001_the_informers_period_is_the_default_and_the_first_check() {
    let mut informer = Informer::new(secs(30));
    assert_eq!(informer.check.period(), secs(30));
    informer.add(None);
    assert_eq!(informer.periods(), [secs(30)]);
}

#[test]
fn rsy_002_a_handler_has_its_own_period_and_zero_is_never() {
    let mut informer = Informer::new(secs(30));
    informer.add(secs(60));
    informer.add(Duration::ZERO);
    assert_eq!(informer.periods(), [secs(60), Duration::ZERO]);
    let later = informer.now + secs(3600);
    assert!(!informer.schedules[1].is_due(later));
}

#[test]
fn no_period_is_too_long() {
    let mut informer = Informer::new(secs(1));
    informer.add(Duration::MAX);
    assert!(!informer.schedules[0].is_due(informer.now + secs(1_000_000)));
}

#[test]
fn rsy_003_a_period_below_a_second_is_raised_to_one() {
    let mut informer = Informer::new(secs(30));
    assert_eq!(informer.add(Duration::from_millis(300)), secs(1));
    assert_eq!(informer.periods(), [secs(1)]);
}

#[test]
fn rsy_004_a_handler_with_a_period_gets_resyncs_though_the_informer_has_none() {
    let mut informer = Informer::new(Duration::ZERO);
    informer.add(Duration::ZERO);
    assert_eq!(informer.check.period(), Duration::ZERO);
    assert_eq!(informer.add(secs(30)), secs(30));
    informer.check.start();
    let mut late = Informer::new(Duration::ZERO);
    late.check.start();
    assert_eq!(late.add(secs(30)), secs(30), "even if it comes late");
    assert_eq!(late.add(secs(20)), secs(30), "but only the first one decides then");
}

#[test]
fn rsy_005_before_the_start_the_smallest_period_decides() {
    let mut informer = Informer::new(secs(12 * 3600));
    assert_eq!(informer.add(Duration::ZERO), secs(12 * 3600));
    assert_eq!(informer.add(secs(60)), secs(60));
    assert_eq!(informer.add(secs(55)), secs(55));
    assert_eq!(informer.add(secs(5)), secs(5));
    assert_eq!(informer.periods(), [secs(0), secs(60), secs(55), secs(5)]);
}

#[test]
fn rsy_006_after_the_start_a_smaller_period_is_raised() {
    let mut informer = Informer::new(secs(5));
    informer.check.start();
    assert_eq!(informer.add(secs(2)), secs(5));
    assert_eq!(informer.periods(), [secs(5)]);
}

#[test]
fn rsy_007_the_effective_period_is_the_larger_of_requested_and_check() {
    let mut informer = Informer::new(secs(10));
    informer.check.start();
    for (asked, effective) in [(0, 0), (3, 10), (10, 10), (25, 25)] {
        informer.add(secs(asked));
        assert_eq!(informer.periods().pop(), Some(secs(effective)));
    }
}

#[test]
fn rsy_008_the_informers_own_period_is_not_raised() {
    let mut informer = Informer::new(Duration::from_millis(100));
    informer.add(None);
    assert_eq!(informer.check.period(), Duration::from_millis(100));
    assert_eq!(informer.periods(), [Duration::from_millis(100)]);
}

#[test]
fn rsy_009_a_handler_is_due_at_the_first_check_after_its_period() {
    let mut informer = Informer::new(secs(1));
    for period in [0, 2, 3] {
        informer.add(secs(period));
    }
    let mut due = Vec::new();
    for second in 1..=6 {
        let now = informer.now + secs(second);
        let who: Vec<usize> = (0..3).filter(|i| informer.schedules[*i].is_due(now)).collect();
        due.push(who);
    }
    assert_eq!(due, [vec![], vec![1], vec![2], vec![1], vec![], vec![1, 2]]);
}

#[test]
fn rsy_011_the_first_period_starts_when_the_handler_is_added() {
    let mut check = ResyncCheck::new(secs(10));
    let begin = Instant::now();
    let joined = begin + secs(7);
    let mut schedule = check.admit(Some(secs(10)), joined);
    assert!(!schedule.is_due(begin + secs(10)));
    assert!(schedule.is_due(begin + secs(20)));
}

#[test]
fn ihc_05_periods_before_and_after_the_start() {
    let mut informer = Informer::new(secs(12 * 3600));
    let asked = [secs(0), secs(60), secs(55), secs(5), Duration::from_millis(300)];
    let checks: Vec<Duration> = asked.map(|period| informer.add(period)).into();
    assert_eq!(checks, [secs(12 * 3600), secs(60), secs(55), secs(5), secs(1)]);
    informer.check.start();
    informer.add(Duration::from_millis(200));
    assert_eq!(informer.periods().pop(), Some(secs(1)));
    let mut other = Informer::new(secs(5));
    other.check.start();
    other.add(secs(2));
    assert_eq!(other.periods(), [secs(5)]);
}

#[test]
fn ihc_06_a_period_of_60_s_checked_every_55_s_is_110_s() {
    let mut check = ResyncCheck::new(secs(55));
    let begin = Instant::now();
    let mut schedule = check.admit(Some(secs(60)), begin);
    let fired: Vec<u64> = (1..=4).map(|tick| tick * 55).filter(|at| schedule.is_due(begin + secs(*at))).collect();
    assert_eq!(fired, [110, 220]);
}
