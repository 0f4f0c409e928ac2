//! The state machine, line by line of the contract, with a manual clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::election::config::Timing;
use crate::election::machine::{ElectionAction, ElectionMachine, LockOperation, LockResponse, LostReason};
use crate::election::record::{Record, VersionedRecord};

const ME: &str = "me";

/// A candidate, a lease and a clock.
struct Scene {
    core: ElectionMachine,
    now: Instant,
    began: Instant,
    wall: Timestamp,
    random: f64,
    lease: Option<VersionedRecord>,
    version: u64,
    /// Requests to the server. Rejected ones are marked with an exclamation mark.
    trace: Vec<String>,
    /// Responses that replace those of the server.
    instead: VecDeque<Option<LockResponse>>,
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A record as another candidate would have written it long ago.
fn held_by(holder: &str, lease_seconds: i32) -> Record {
    Record {
        holder: holder.into(),
        lease_seconds,
        acquire_time: Some(time(-90_000)),
        renew_time: Some(time(-80_000)),
        transitions: 7,
        strategy: "OldestEmulationVersion".into(),
        preferred_holder: String::new(),
    }
}

impl Scene {
    fn new(lease: Option<Record>) -> Self {
        Scene::of(lease, false)
    }

    fn coordinated(lease: Option<Record>) -> Self {
        Scene::of(lease, true)
    }

    fn of(lease: Option<Record>, coordinated: bool) -> Self {
        let now = tokio::time::Instant::now().into_std();
        let mut core = ElectionMachine::new(Timing::default(), ME.into(), coordinated, true);
        core.begin(now);
        let lease = lease.map(|record| VersionedRecord { record, version: "1".into() });
        let (trace, instead) = (Vec::new(), VecDeque::new());
        Scene { core, now, began: now, wall: time(0), random: 0.0, lease, version: 1, trace, instead }
    }

    /// Runs everything that is due at this time.
    fn settle(&mut self) -> ElectionAction {
        loop {
            match self.core.poll(self.now, self.wall, self.random) {
                ElectionAction::Send(call) => {
                    let answer = self.serve(call.what);
                    self.core.respond(self.now, call.id, answer);
                }
                other => return other,
            }
        }
    }

    fn serve(&mut self, what: LockOperation) -> LockResponse {
        let name = match what {
            LockOperation::Get => "get",
            LockOperation::Create(_) => "create",
            LockOperation::Update(..) => "update",
        };
        let scripted = self.instead.pop_front().flatten();
        let answer = scripted.unwrap_or_else(|| self.really_serve(what));
        let refused = matches!(answer, LockResponse::Conflict | LockResponse::Failed);
        self.trace.push(format!("{name}{}", if refused { "!" } else { "" }));
        answer
    }

    fn really_serve(&mut self, what: LockOperation) -> LockResponse {
        match what {
            LockOperation::Get => self.lease.clone().map_or(LockResponse::Missing, LockResponse::Held),
            LockOperation::Create(record) if self.lease.is_none() => LockResponse::Held(self.write(record)),
            LockOperation::Update(record, version)
                if self.lease.as_ref().is_some_and(|held| held.version == version) =>
            {
                LockResponse::Held(self.write(record))
            }
            LockOperation::Create(_) | LockOperation::Update(..) => LockResponse::Conflict,
        }
    }

    fn write(&mut self, record: Record) -> VersionedRecord {
        self.version += 1;
        let held = VersionedRecord { record, version: self.version.to_string() };
        self.lease = Some(held.clone());
        held
    }

    /// Another candidate writes.
    fn meanwhile(&mut self, change: impl FnOnce(&mut Record)) {
        let mut record = self.record();
        change(&mut record);
        self.write(record);
    }

    fn pass(&mut self, time: Duration) -> ElectionAction {
        self.now += time;
        self.wall += SignedDuration::try_from(time).unwrap();
        self.settle()
    }

    fn until(&self, doing: ElectionAction) -> Duration {
        match doing {
            ElectionAction::Wait(Some(until)) => until - self.now,
            other => panic!("does not wait: {other:?}"),
        }
    }

    fn lead(&mut self) -> i32 {
        match self.settle() {
            ElectionAction::Lead(term) => term.number,
            other => panic!("does not lead: {other:?}"),
        }
    }

    fn record(&self) -> Record {
        self.lease.clone().unwrap().record
    }

    fn trace(&mut self) -> String {
        std::mem::take(&mut self.trace).join(",")
    }

    fn leads(&self) -> bool {
        self.core.valid_until().is_some_and(|until| self.now < until)
    }
}

#[test]
fn le_004_the_first_attempt_is_made_at_once_and_others_after_a_jittered_period() {
    let mut scene = Scene::new(Some(held_by("other", 15)));
    for (random, wait) in [(0.0, 2_000), (0.5, 3_200), (1.0, 4_400)] {
        scene.random = random;
        let doing = scene.settle();
        assert_eq!(scene.trace(), "get");
        assert_eq!(scene.until(doing), millis(wait));
        assert_eq!(
            scene.pass(millis(wait - 1)),
            ElectionAction::Wait(Some(scene.now + millis(1))),
            "and not a moment earlier"
        );
        scene.now += millis(1);
    }
}

#[test]
fn le_005_without_a_lease_one_get_and_one_create() {
    let mut scene = Scene::new(None);
    assert_eq!(scene.lead(), 0);
    assert_eq!(scene.trace(), "get,create");
    let record = scene.record();
    assert_eq!((record.holder.as_str(), record.transitions, record.lease_seconds), (ME, 0, 15));
    assert_eq!((record.acquire_time, record.renew_time), (Some(time(0)), Some(time(0))));
}

#[test]
fn le_006_a_create_that_fails_is_a_failed_attempt() {
    for failure in [LockResponse::Conflict, LockResponse::Failed] {
        let mut scene = Scene::new(None);
        scene.instead = [None, Some(failure)].into();
        let doing = scene.settle();
        assert_eq!(scene.until(doing), secs(2));
        assert_eq!(scene.trace(), "get,create!");
        assert!(matches!(scene.pass(secs(2)), ElectionAction::Lead(_)));
    }
}

#[test]
fn le_007_a_get_that_fails_is_a_failed_attempt() {
    let mut scene = Scene::new(None);
    scene.instead = [Some(LockResponse::Failed)].into();
    let doing = scene.settle();
    assert_eq!(scene.until(doing), secs(2));
    assert_eq!(scene.trace(), "get!");
}

#[test]
fn le_008_the_lease_expires_from_the_last_observed_change() {
    let mut scene = Scene::new(Some(held_by("other", 5)));
    scene.settle();
    scene.pass(millis(3_000));
    scene.meanwhile(|record| record.renew_time = Some(time(-70_000)));
    assert!(matches!(scene.pass(millis(2_500)), ElectionAction::Wait(_)), "5.5 s, but it has changed since");
    assert!(matches!(scene.pass(millis(4_900)), ElectionAction::Wait(_)), "4.9 s since the change was seen");
    assert!(matches!(scene.pass(millis(2_100)), ElectionAction::Lead(_)));
}

#[test]
fn le_008_a_renewal_is_observed_even_with_equal_content() {
    // The other candidate's clock was set back to exactly the time that it wrote before.
    let mut scene = Scene::new(Some(held_by("other", 5)));
    scene.settle();
    scene.now += millis(4_000);
    scene.meanwhile(|_| {});
    assert!(matches!(scene.settle(), ElectionAction::Wait(_)));
    assert!(matches!(scene.pass(millis(4_000)), ElectionAction::Wait(_)));
    assert!(matches!(scene.pass(millis(2_000)), ElectionAction::Lead(_)));
}

#[test]
fn le_008_a_renewal_with_an_unchanged_clock_changes_the_record() {
    let mut scene = Scene::new(None);
    scene.lead();
    let mut before = scene.record();
    for _ in 0..3 {
        scene.now += secs(2);
        scene.settle();
        assert_ne!(scene.record(), before);
        before = scene.record();
    }
    assert!(scene.leads());
}

#[test]
fn le_009_the_lease_duration_is_read_from_the_record() {
    let mut scene = Scene::new(Some(held_by("other", 3)));
    assert!(matches!(scene.settle(), ElectionAction::Wait(_)));
    assert!(matches!(scene.pass(secs(3)), ElectionAction::Lead(_)));
    assert_eq!(scene.record().lease_seconds, 15, "the configured duration is written");
}

#[test]
fn le_010_a_lease_of_another_holder_is_not_changed() {
    let mut scene = Scene::new(Some(held_by("other", 15)));
    scene.settle();
    assert!(matches!(scene.pass(millis(14_900)), ElectionAction::Wait(_)));
    assert_eq!(scene.record().holder, "other");
}

#[test]
fn le_010_a_lease_without_holder_is_taken_at_once() {
    let mut scene = Scene::new(Some(held_by("", 15)));
    assert_eq!(scene.lead(), 8);
    assert_eq!(scene.trace(), "get,update");
}

#[test]
fn le_010_an_equal_identity_in_a_foreign_record_is_another_holder() {
    let mut scene = Scene::new(Some(held_by(ME, 15)));
    assert!(matches!(scene.settle(), ElectionAction::Wait(_)), "another process may have been given our name");
    assert!(matches!(scene.pass(secs(15)), ElectionAction::Lead(_)));
    assert_eq!(scene.record().transitions, 8);
}

#[test]
fn le_011_taking_over_starts_a_term_and_renewing_continues_it() {
    let mut scene = Scene::new(Some(held_by("other", 3)));
    scene.settle();
    scene.now += secs(3);
    scene.wall = time(3);
    assert_eq!(scene.lead(), 8);
    let taken = scene.record();
    assert_eq!((taken.transitions, taken.acquire_time, taken.renew_time), (8, Some(time(3)), Some(time(3))));
    scene.pass(secs(2));
    let renewed = scene.record();
    assert_eq!((renewed.transitions, renewed.acquire_time, renewed.renew_time), (8, Some(time(3)), Some(time(5))));
}

#[test]
fn le_011_an_object_without_a_record_is_taken_over() {
    let mut scene = Scene::new(Some(Record::default()));
    assert_eq!(scene.lead(), 1);
}

#[test]
fn le_011_each_term_has_a_higher_number_even_after_its_own() {
    let mut scene = Scene::new(None);
    assert_eq!(scene.lead(), 0);
    scene.instead = std::iter::repeat_n(Some(LockResponse::Failed), 100).collect();
    assert_eq!(scene.pass(secs(10)), ElectionAction::Lost(LostReason::Expired));
    scene.core.leave(scene.now);
    assert_eq!(scene.settle(), ElectionAction::Over { released: false });
    assert_eq!(scene.record().holder, ME, "our record is still there");
    scene.instead.clear();
    scene.core.begin(scene.now);
    assert_eq!(scene.lead(), 1, "at once, because it is ours, but as another term");
}

#[test]
fn le_011_numbers_do_not_start_over_when_the_lease_is_deleted() {
    let mut scene = Scene::new(Some(held_by("other", 3)));
    scene.settle();
    scene.lease = None;
    assert!(matches!(scene.pass(secs(2)), ElectionAction::Wait(_)), "who held it may not have noticed yet");
    assert_eq!(scene.trace(), "get,get");
    assert!(matches!(scene.pass(secs(3)), ElectionAction::Lead(_)));
    assert_eq!(scene.trace(), "get,create");
    assert_eq!(scene.record().transitions, 8);
}

#[test]
fn le_012_a_leader_renews_without_a_get() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.pass(secs(2));
    scene.pass(secs(2));
    assert_eq!(scene.trace(), "get,create,update,update");
    assert_eq!(scene.core.slow_paths(), 0);
}

#[test]
fn le_013_a_failed_renewal_gets_and_retries_at_once() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.pass(secs(2));
    scene.instead = [Some(LockResponse::Failed)].into();
    scene.pass(secs(2));
    scene.pass(secs(2));
    assert_eq!(scene.trace(), "get,create,update,update!,get,update,update");
    assert_eq!(scene.core.slow_paths(), 1);
}

#[test]
fn le_015_fields_of_a_coordinated_election_are_cleared() {
    let mut record = held_by("", 15);
    record.preferred_holder = "other".into();
    let mut scene = Scene::new(Some(record));
    scene.lead();
    assert_eq!((scene.record().strategy, scene.record().preferred_holder), (String::new(), String::new()));
}

#[test]
fn le_017_a_leader_tries_each_period_and_ends_at_its_deadline_from_when_it_sent() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.trace();
    scene.instead = std::iter::repeat_n(Some(LockResponse::Failed), 100).collect();
    for _ in 1..5 {
        let doing = scene.pass(secs(2));
        assert_eq!(scene.until(doing), secs(2));
        assert_eq!(scene.trace(), "update!,get!");
    }
    assert!(scene.leads());
    assert_eq!(scene.pass(secs(2)), ElectionAction::Lost(LostReason::Expired));
    assert_eq!(scene.trace(), "", "nothing more is sent");
    assert_eq!(scene.now, scene.began + secs(10));
}

#[test]
fn le_017_validity_does_not_depend_on_the_response_time() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.now += secs(2);
    let ElectionAction::Send(call) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!("does not renew") };
    let answer = scene.serve(call.what);
    scene.now += millis(4_900);
    scene.core.respond(scene.now, call.id, answer);
    assert_eq!(scene.core.valid_until(), Some(scene.began + secs(12)), "sent at 2 s, answered at 6.9 s");
    let ElectionAction::Send(next) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!("the next is due") };
    assert_ne!(next.id, call.id);
}

#[test]
fn le_017_the_response_of_an_abandoned_call_is_ignored() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.now += secs(2);
    let ElectionAction::Send(call) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!("does not renew") };
    let answer = scene.serve(call.what);
    scene.now += secs(5);
    scene.core.respond(scene.now, call.id, answer);
    assert_eq!(scene.core.valid_until(), Some(scene.began + secs(10)));
    scene.settle();
    assert_eq!(scene.trace(), "get,create,update,get,update", "it took effect all the same, and that is noticed");
    assert_eq!(scene.core.valid_until(), Some(scene.began + secs(17)));
}

#[test]
fn le_017_an_acquisition_with_a_late_response_starts_no_term() {
    let mut scene = Scene::new(None);
    let ElectionAction::Send(get) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!() };
    scene.core.respond(scene.now, get.id, LockResponse::Missing);
    let ElectionAction::Send(create) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!() };
    let answer = scene.serve(create.what);
    scene.now += secs(11);
    scene.core.respond(scene.now, create.id, answer);
    assert!(!scene.leads());
    let doing = scene.settle();
    assert_eq!(scene.until(doing), secs(2));
    assert!(matches!(scene.pass(secs(2)), ElectionAction::Lead(_)), "the record is ours, so there is no need to wait");
    assert_eq!(scene.record().transitions, 1, "but that is another term");
}

#[test]
fn le_017_a_leader_that_observes_another_holder_ends_at_once() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.meanwhile(|record| record.holder = "other".into());
    assert_eq!(scene.pass(secs(2)), ElectionAction::Lost(LostReason::Taken { by: "other".into() }));
}

#[test]
fn le_017_a_leader_whose_lease_was_deleted_recreates_it() {
    let mut scene = Scene::new(Some(held_by("", 15)));
    assert_eq!(scene.lead(), 8);
    scene.lease = None;
    scene.pass(secs(2));
    assert_eq!(scene.trace(), "get,update,update!,get,create");
    assert_eq!((scene.record().transitions, scene.record().acquire_time), (8, Some(time(0))), "the same term");
    assert!(scene.leads());
}

#[test]
fn le_022_release_gets_the_lease_first_and_clears_the_record() {
    let mut scene = Scene::new(Some(held_by("", 15)));
    scene.lead();
    scene.trace();
    scene.pass(secs(1));
    scene.core.leave(scene.now);
    assert_eq!(scene.settle(), ElectionAction::Over { released: true });
    assert_eq!(scene.trace(), "get,update");
    let (record, now) = (scene.record(), Some(time(1)));
    assert_eq!((record.holder.as_str(), record.lease_seconds, record.transitions), ("", 1, 8));
    assert_eq!((record.acquire_time, record.renew_time), (now, now));
}

#[test]
fn le_022_release_gives_up_when_the_lease_is_missing_or_unreadable() {
    for answer in [LockResponse::Missing, LockResponse::Failed] {
        let mut scene = Scene::new(None);
        scene.lead();
        scene.trace();
        scene.instead = [Some(answer)].into();
        scene.core.leave(scene.now);
        assert_eq!(scene.settle(), ElectionAction::Over { released: false });
        assert!(scene.trace().starts_with("get"));
    }
}

#[test]
fn le_023_release_retries_conflicts_until_its_deadline() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.trace();
    scene.instead = [None, Some(LockResponse::Conflict), None, Some(LockResponse::Conflict)].into();
    scene.core.leave(scene.now);
    scene.settle();
    scene.pass(millis(10));
    assert_eq!(scene.pass(millis(20)), ElectionAction::Over { released: true });
    assert_eq!(scene.trace(), "get,update!,get,update!,get,update");

    let mut scene = Scene::new(None);
    scene.lead();
    scene.trace();
    scene.core.leave(scene.now);
    let mut calls = 0;
    let over = loop {
        scene.instead = [None, Some(LockResponse::Conflict)].into();
        calls += 1;
        match scene.settle() {
            ElectionAction::Wait(Some(until)) => scene.now = until,
            other => break other,
        }
    };
    assert_eq!(over, ElectionAction::Over { released: false });
    assert_eq!(scene.now, scene.began + secs(10));
    assert!(calls < 20, "with pauses that grow: {calls}");
}

#[test]
fn le_023_other_errors_end_the_release() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.instead = [None, Some(LockResponse::Failed)].into();
    scene.core.leave(scene.now);
    assert_eq!(scene.settle(), ElectionAction::Over { released: false });
}

#[test]
fn le_024_a_release_follows_an_update_or_get_that_was_interrupted() {
    for get_too in [false, true] {
        let mut scene = Scene::new(None);
        scene.lead();
        scene.trace();
        scene.now += secs(2);
        let ElectionAction::Send(update) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!() };
        if get_too {
            scene.core.respond(scene.now, update.id, LockResponse::Failed);
            assert!(matches!(scene.core.poll(scene.now, scene.wall, 0.0), ElectionAction::Send(_)));
        }
        scene.core.leave(scene.now);
        assert_eq!(scene.settle(), ElectionAction::Over { released: true });
        assert_eq!(scene.record().holder, "");
    }
}

#[test]
fn le_024_a_release_follows_an_acquisition_of_unknown_outcome() {
    let mut scene = Scene::new(None);
    let ElectionAction::Send(get) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!() };
    scene.core.respond(scene.now, get.id, LockResponse::Missing);
    let ElectionAction::Send(create) = scene.core.poll(scene.now, scene.wall, 0.0) else { panic!() };
    scene.serve(create.what);
    scene.core.leave(scene.now);
    assert_eq!(scene.settle(), ElectionAction::Over { released: true });
    assert_eq!(scene.record().holder, "");
}

#[test]
fn le_025_release_does_not_change_a_lease_of_another_holder() {
    let mut scene = Scene::new(None);
    scene.lead();
    scene.trace();
    scene.meanwhile(|record| record.holder = "other".into());
    scene.core.leave(scene.now);
    assert_eq!(scene.settle(), ElectionAction::Over { released: true });
    assert_eq!((scene.trace(), scene.record().holder), ("get".into(), "other".into()));
}

#[test]
fn le_027_the_leader_is_the_last_observed_holder() {
    let mut scene = Scene::new(Some(held_by("other", 3)));
    assert_eq!(scene.core.holder(), None);
    scene.settle();
    assert_eq!(scene.core.holder(), Some("other"));
    scene.pass(secs(3));
    assert_eq!(scene.core.holder(), Some(ME));
    assert!(scene.leads());
    scene.now += secs(10);
    assert!(!scene.leads(), "whatever was seen last");
}

#[test]
fn le_032_a_coordinated_elector_neither_creates_nor_takes_over() {
    for lease in [None, Some(held_by("other", 1)), Some(held_by("", 1))] {
        let mut scene = Scene::coordinated(lease.clone());
        for _ in 0..10 {
            assert!(matches!(scene.settle(), ElectionAction::Wait(_)));
            scene.now += secs(5);
        }
        assert_eq!(scene.lease.as_ref().map(|held| held.record.clone()), lease);
        assert!(!scene.trace().contains("update"));
    }
    let mut scene = Scene::coordinated(Some(held_by(ME, 15)));
    assert_eq!(scene.lead(), 8, "a term has a number of its own, even if the server wrote the holder");
    assert_eq!(scene.trace(), "get,update");
}

#[test]
fn le_033_a_coordinated_elector_does_not_change_an_old_record() {
    let mut scene = Scene::coordinated(Some(held_by(ME, 3)));
    scene.instead = [None, Some(LockResponse::Failed), None, Some(LockResponse::Failed)].into();
    scene.settle();
    assert_eq!(scene.trace(), "get,update!");
    scene.now += millis(3_001);
    assert!(matches!(scene.settle(), ElectionAction::Wait(_)), "seen for longer than it says it lasts");
    assert_eq!(scene.trace(), "get");
}

#[test]
fn le_034_a_coordinated_leader_always_gets_the_lease_and_keeps_the_strategy() {
    let mut scene = Scene::coordinated(Some(held_by(ME, 15)));
    scene.lead();
    scene.pass(secs(2));
    scene.pass(secs(2));
    assert_eq!(scene.trace(), "get,update,get,update,get,update");
    assert_eq!(scene.core.slow_paths(), 2);
    assert_eq!(scene.record().strategy, "OldestEmulationVersion");
    assert_eq!(scene.record().transitions, 8);
}

#[test]
fn qhc_13_a_candidate_waits_by_its_own_clock() {
    let mut scene = Scene::new(Some(held_by("x", 3)));
    assert!(matches!(scene.settle(), ElectionAction::Wait(_)), "whenever it was written");
    assert!(matches!(scene.pass(millis(2_900)), ElectionAction::Wait(_)));
    scene.core.begin(scene.now);
    let doing = scene.pass(millis(200));
    assert!(matches!(doing, ElectionAction::Lead(term) if term.number == 8));

    let mut scene = Scene::new(Some(held_by("x", 3)));
    scene.settle();
    scene.meanwhile(|record| record.renew_time = Some(time(5)));
    scene.pass(millis(2_900));
    assert!(
        matches!(scene.pass(millis(2_900)), ElectionAction::Wait(_)),
        "counted from the attempt that saw the change"
    );
    scene.core.begin(scene.now);
    assert!(matches!(scene.pass(millis(200)), ElectionAction::Lead(_)));
}

#[test]
fn qhc_14_a_conflict_of_the_fast_path_does_not_end_a_term() {
    let mut scene = Scene::new(Some(held_by("", 15)));
    scene.lead();
    scene.pass(secs(2));
    let before = scene.record();
    scene.trace();
    scene.meanwhile(|_| {});
    scene.pass(secs(2));
    assert_eq!(scene.trace(), "update!,get,update");
    let after = scene.record();
    assert_eq!((after.acquire_time, after.transitions), (before.acquire_time, before.transitions));
    assert!(scene.leads());
}

#[test]
fn qhc_17_a_preferred_holder_ends_the_term() {
    let mut scene = Scene::coordinated(Some(held_by(ME, 15)));
    scene.lead();
    scene.trace();
    scene.meanwhile(|record| record.preferred_holder = "younger".into());
    assert_eq!(scene.pass(secs(2)), ElectionAction::Lost(LostReason::EndOfTerm { preferred: "younger".into() }));
    assert_eq!(scene.trace(), "get", "nothing is renewed");
    scene.core.leave(scene.now);
    assert_eq!(scene.settle(), ElectionAction::Over { released: true });
    let record = scene.record();
    assert_eq!((record.holder.as_str(), record.preferred_holder.as_str()), ("", "younger"), "and the wish is kept");
}
