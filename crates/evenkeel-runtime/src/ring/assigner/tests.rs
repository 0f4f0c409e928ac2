//! Tests of the assigner machine.

use super::*;
use crate::ring::member_record::MemberRecord;
use crate::ring::table::SliceState;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An active assigner whose table has one slice of `a`, which it has listed.
fn active(members: Vec<(MemberName, u64, MemberLease)>) -> AssignerMachine {
    let mut machine = AssignerMachine::new(&RingSettings::default(), Duration::ZERO);
    machine.activate(1);
    let AssignerAction::Send(list) = machine.poll(Duration::ZERO, 0) else { panic!("no list") };
    assert_eq!(list.operation, AssignerOperation::List);
    let mut table = SliceTable::unknown(7, 1, RingSettings::default().terms(), vec!["a".into()], 1);
    table.confirmed = Some(7);
    *table.state_mut(0) = SliceState::Held { owner: "a".into(), epoch: 7, next: None };
    let table = Some((8, Ok(Arc::new(table))));
    machine.respond(Duration::ZERO, list.id, AssignerResponse::Listed { version: 9, members, table });
    machine
}

fn lease(renewed: i64) -> MemberLease {
    let by = RingSettings::default().terms().to_string();
    let record = MemberRecord { speaks: vec![1], by, capacity: 1, ..MemberRecord::default() };
    MemberLease { record: Arc::new(record), renewed, fenced: None }
}

/// Polls until a request for a Lease or the table is sent, with heartbeats of the own process.
fn next_request(machine: &mut AssignerMachine, from: u64, until: u64) -> Option<(u64, AssignerRequest)> {
    for second in from..=until {
        machine.note_write(secs(second));
        machine.observe_member(secs(second), &"own".into(), 1_000 + second, lease(second as i64));
        while let AssignerAction::Send(request) = machine.poll(secs(second), 0) {
            let response = match &request.operation {
                AssignerOperation::Fence(..) => return Some((second, request)),
                AssignerOperation::UpdateTable(table, _) if table.state(0).owner() != Some(&"a".into()) => {
                    return Some((second, request));
                }
                AssignerOperation::UpdateTable(..) => AssignerResponse::Written { version: 100 + second },
                AssignerOperation::ReadMember(_) => AssignerResponse::Missing,
                _ => AssignerResponse::Failed,
            };
            machine.respond(secs(second), request.id, response);
        }
    }
    None
}

#[test]
fn shr_018_an_owner_without_a_lease_is_out_after_the_lease_duration() {
    let mut machine = active(Vec::new());
    let (at, request) = next_request(&mut machine, 0, 40).unwrap();
    assert!((15..=17).contains(&at), "{at}");
    let AssignerOperation::UpdateTable(table, _) = request.operation else { panic!("{request:?}") };
    assert_eq!(table.state(0).owner(), Some(&"own".into()), "freed, and assigned with the same write");
}

#[test]
fn shr_018_a_fence_that_meets_no_lease_is_an_observed_deletion() {
    let mut machine = active(vec![("a".into(), 3, lease(1))]);
    let (at, request) = next_request(&mut machine, 0, 40).unwrap();
    assert!((15..=17).contains(&at), "{at}");
    assert_eq!(request.operation, AssignerOperation::Fence("a".into(), 3, FenceCause::Expired));
    machine.respond(secs(at), request.id, AssignerResponse::Missing);
    let (freed, request) = next_request(&mut machine, at, 60).unwrap();
    assert!(matches!(request.operation, AssignerOperation::UpdateTable(..)), "{request:?}");
    assert!((at + 15..=at + 17).contains(&freed), "{freed}");
}

#[test]
fn shr_018_a_late_response_without_a_table_does_not_hide_the_table_for_ever() {
    let mut machine = active(vec![("a".into(), 3, lease(1))]);
    let table = machine.table().unwrap().clone();
    machine.needs_table = true;
    let AssignerAction::Send(read) = machine.poll(secs(1), 0) else { panic!("no read") };
    assert_eq!(read.operation, AssignerOperation::ReadTable);
    machine.observe_table(secs(1), (20, Ok(Arc::clone(&table))));
    machine.respond(secs(1), read.id, AssignerResponse::Missing);
    let AssignerAction::Send(list) = machine.poll(secs(2), 0) else { panic!("no list") };
    let members = vec![("a".into(), 3, lease(1))];
    machine.respond(secs(2), list.id, AssignerResponse::Listed { version: 21, members, table: Some((20, Ok(table))) });
    assert!(machine.table().is_some());
}
