//! Tests of the member machine.

use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn machine() -> MemberMachine {
    MemberMachine::new("a-1".into(), &RingSettings::default(), String::new(), Duration::ZERO)
}

fn sent(machine: &mut MemberMachine, now: Duration) -> MemberRequest {
    match machine.poll(now, 1_000) {
        MemberAction::Send(request) => request,
        other => panic!("{other:?}"),
    }
}

/// A member that has joined at zero.
fn joined() -> MemberMachine {
    let mut machine = machine();
    let request = sent(&mut machine, Duration::ZERO);
    assert!(matches!(request.operation, MemberOperation::Create(_)));
    machine.respond(Duration::ZERO, request.id, MemberResponse::Written { version: 5 });
    machine
}

#[test]
fn shr_010_validity_counts_from_the_send() {
    let mut machine = machine();
    let request = sent(&mut machine, secs(1));
    machine.respond(secs(3), request.id, MemberResponse::Written { version: 5 });
    assert_eq!(machine.valid_until(), Some(secs(11)));
}

#[test]
fn shr_009_a_failed_write_is_followed_by_a_read_and_failures_are_paced() {
    let mut machine = joined();
    let (mut now, mut writes) = (secs(3), 0);
    for _ in 0..1_000 {
        match machine.poll(now, 1_000) {
            MemberAction::Send(request) => {
                let response = match request.operation {
                    MemberOperation::Update(..) => {
                        writes += 1;
                        MemberResponse::Failed
                    }
                    MemberOperation::Read => {
                        let lease =
                            MemberLease { record: Arc::default(), renewed: machine.confirmed_write, fenced: None };
                        MemberResponse::Lease { version: 5, lease }
                    }
                    other => panic!("{other:?}"),
                };
                machine.respond(now, request.id, response);
            }
            MemberAction::Wait(Some(until)) if until < secs(13) => now = until,
            MemberAction::Wait(_) => break,
            _ => {}
        }
    }
    assert!((8..=12).contains(&writes), "{writes} writes in ten seconds");
}

#[test]
fn shr_013_a_fence_ends_the_member() {
    let mut machine = joined();
    let request = sent(&mut machine, secs(3));
    machine.respond(secs(3), request.id, MemberResponse::Conflict);
    let read = sent(&mut machine, secs(3));
    assert_eq!(read.operation, MemberOperation::Read);
    let fenced = Some(FenceCause::Evicted);
    let lease = MemberLease { record: Arc::default(), renewed: 1_000, fenced };
    machine.respond(secs(3), read.id, MemberResponse::Lease { version: 6, lease });
    assert_eq!(machine.poll(secs(3), 1_000), MemberAction::Over(MemberEnd::Fenced(FenceCause::Evicted)));
}

#[test]
fn she_021_a_lease_of_a_restored_store_ends_the_member() {
    let mut machine = joined();
    let request = sent(&mut machine, secs(3));
    machine.respond(secs(3), request.id, MemberResponse::Conflict);
    let read = sent(&mut machine, secs(3));
    let lease = MemberLease { record: Arc::default(), renewed: 999, fenced: None };
    machine.respond(secs(3), read.id, MemberResponse::Lease { version: 4, lease });
    assert_eq!(machine.poll(secs(3), 1_000), MemberAction::Over(MemberEnd::Overwritten));
}

/// Returns the ranges that the machine grants, with its predecessor and whether caches may have had it before.
fn grants(machine: &mut MemberMachine, now: Duration) -> Vec<(ShardRange, Option<MemberName>, bool)> {
    let mut grants = Vec::new();
    loop {
        match machine.poll(now, 1_000) {
            MemberAction::Event(MemberEvent::Granted { range, predecessor, is_prepared, .. }) => {
                grants.push((range, predecessor, is_prepared));
            }
            MemberAction::Event(_) => {}
            _ => return grants,
        }
    }
}

#[test]
fn shr_036_caches_that_had_a_range_before_its_grant_have_to_catch_up() {
    let (me, other): (MemberName, MemberName) = ("a-1".into(), "b-1".into());
    let held = |owner: &MemberName, next: Option<&MemberName>| SliceState::Held {
        owner: owner.clone(),
        epoch: 10,
        next: next.cloned(),
    };
    let mut machine = joined();
    let members = vec![me.clone(), other.clone()];
    let mut table = SliceTable::unknown(900, 1, RingSettings::default().terms(), members, 3);
    *table.state_mut(0) = held(&other, Some(&me));
    *table.state_mut(1) = held(&other, Some(&me));
    *table.state_mut(2) = SliceState::Free;
    let ranges = [0, 1, 2].map(|index| table.range(index));
    machine.observe_table(secs(1), Ok(Arc::new(table.clone())));
    machine.cover(ShardRanges::from(ShardRange::FULL));
    assert!(grants(&mut machine, secs(1)).is_empty());

    // Of the first slice the move is observed. Of the second it is not, or the owner was out before it.
    table.revision = 901;
    *table.state_mut(0) = SliceState::Moving { from: other.clone(), epoch: 10, since: 901, to: Some(me.clone()) };
    machine.observe_table(secs(2), Ok(Arc::new(table.clone())));
    table.revision = 902;
    for index in 0..3 {
        *table.state_mut(index) = held(&me, None);
    }
    machine.observe_table(secs(2), Ok(Arc::new(table)));
    let [moved, skipped, free] = ranges;
    let expected = [(moved, Some(other), true), (skipped, None, true), (free, None, false)];
    assert_eq!(grants(&mut machine, secs(2)), expected);
}
