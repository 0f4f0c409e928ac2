//! Tests of tables and their text.

use super::*;

fn name(text: &str) -> MemberName {
    text.into()
}

fn table() -> SliceTable {
    let members = vec![name("a-11111"), name("b-22222")];
    let mut table = SliceTable::unknown(900, 3, "Namespace/15s".into(), members, 4);
    *table.state_mut(1) = SliceState::Free;
    *table.state_mut(2) = SliceState::Held { owner: name("a-11111"), epoch: 12, next: Some(name("b-22222")) };
    *table.state_mut(3) = SliceState::Moving { from: name("b-22222"), epoch: 40, since: 899, to: None };
    table
}

#[test]
fn shr_004_the_text_of_a_table_is_read_back() {
    let mut table = table();
    assert_eq!(SliceTable::decode(&table.encode().unwrap()).unwrap(), table);
    table.confirmed = Some(901);
    assert_eq!(SliceTable::decode(&table.encode().unwrap()).unwrap(), table);
}

#[test]
fn shr_004_the_largest_table_fits_and_a_held_slice_has_at_most_24_bytes() {
    let members: Vec<MemberName> = (0..MAX_MEMBERS).map(|index| name(&format!("{index:055}"))).collect();
    let mut table = SliceTable::unknown(1 << 53, 3, "Namespace/15s".into(), members.clone(), MAX_SLICES);
    let without_owners = table.encode().unwrap().len();
    let starts: Vec<u64> = table.slices.iter().map(|slice| slice.start).collect();
    for (index, start) in starts.into_iter().enumerate().skip(1) {
        // The longest bounds.
        table.slices[index].start = start | 1;
        let owner = members[index % members.len()].clone();
        table.slices[index].state = SliceState::Held { owner, epoch: index as u64, next: None };
    }
    let text = table.encode().unwrap();
    assert!(text.len() <= MAX_BYTES && text.len() > without_owners);
    assert!(text.lines().nth(2).unwrap().split(' ').all(|slice| slice.len() < 24), "the longest: 23 and a space");
    assert_eq!(SliceTable::decode(&text).unwrap(), table);
    table.members.push(name("one-more"));
    assert_eq!(table.encode().unwrap_err(), TableError::TooManyMembers { members: 513 });
}

#[test]
fn shr_006_what_is_no_partition_is_rejected() {
    let rejected = |slices: &str| SliceTable::decode(&format!("1 9 0 1 x\na b\n{slices}")).unwrap_err();
    assert_eq!(rejected("B?"), TableError::NotAPartition, "a hole at the start");
    assert_eq!(rejected("A? C? B?"), TableError::NotAPartition, "not in order");
    assert_eq!(rejected("A? A?"), TableError::NotAPartition, "twice");
    assert_eq!(rejected("A=ACA"), TableError::UnknownMember { index: 2, members: 2 });
    for slices in ["", "A", "A?x", "A=A", "A=AA", "A~AAA", "A=AAZ", "_?", "A.>AA", "BAAAAAAAAAAAA?"] {
        let error = rejected(slices);
        let expected = matches!(error, TableError::Malformed { part: "slice", .. } | TableError::NotAPartition);
        assert!(expected, "{slices}: {error}");
    }
    assert_eq!(SliceTable::decode("2 9").unwrap_err(), TableError::UnknownFormat { format: "2".into() });
    assert!(matches!(SliceTable::decode("1 x"), Err(TableError::Malformed { part: "revision", .. })));
}

#[test]
fn shr_006_too_many_slices_are_rejected() {
    let slices = (0..=MAX_SLICES as u64).map(|start| Slice { start, state: SliceState::Free }).collect();
    assert_eq!(table().with_slices(slices).unwrap_err(), TableError::TooManySlices { slices: 4097 });
}

#[test]
fn shr_022_a_split_keeps_owner_and_epoch_and_a_merge_takes_the_higher_epoch() {
    let mut table = table();
    let (held, start) = (SliceState::Held { owner: name("a-11111"), epoch: 7, next: None }, table.range(1).start());
    *table.state_mut(1) = held.clone();
    table.split_at(start + 5);
    assert_eq!((table.len(), table.state(1), table.state(2)), (5, &held, &held));
    assert_eq!(table.range(2).start(), start + 5);
    *table.state_mut(2) = SliceState::Held { owner: name("a-11111"), epoch: 9, next: None };
    table.merge_after(1);
    assert_eq!(table.len(), 4);
    assert_eq!(table.state(1), &SliceState::Held { owner: name("a-11111"), epoch: 9, next: None });
    table.merge_after(0);
    assert_eq!(table.len(), 4, "only slices of one owner are merged");
}
