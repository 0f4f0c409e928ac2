//! Properties of plans, over generated tables.

use fastrand::Rng;

use super::*;

fn member(number: usize) -> PlanMember {
    let name = format!("pod-{number}").into();
    PlanMember { name, capacity: 1, build: String::new(), is_leaving: false, may_gain: true }
}

const ALL: PlanScope = PlanScope { assign: true, fill: true, balance: true, shape: false };

fn run(table: &mut SliceTable, members: &[PlanMember], loads: &[SliceLoad], scope: PlanScope) -> PlanReport {
    let input = PlanInput { members, loads, slices_per_member: 8, imbalance: 0.25, revision: table.revision, scope };
    plan(table, &input)
}

/// A table of free slices for these members, assigned by a plan.
fn assigned(members: &[PlanMember], slices: usize) -> SliceTable {
    let names = members.iter().map(|member| member.name.clone()).collect();
    let mut table = SliceTable::unknown(9, 1, "x".into(), names, slices);
    for index in 0..slices {
        *table.state_mut(index) = SliceState::Free;
    }
    run(&mut table, members, &[], ALL);
    table
}

/// Completes all moves.
fn settle(table: &mut SliceTable) {
    for index in 0..table.len() {
        if let SliceState::Held { next: Some(next), epoch, .. } = table.state(index).clone() {
            *table.state_mut(index) = SliceState::Held { owner: next, epoch: epoch + 1, next: None };
        }
    }
}

fn moves(table: &SliceTable) -> usize {
    table.iter().filter(|(_, state)| state.is_moving()).count()
}

#[test]
fn shr_055_a_plan_is_deterministic_and_a_fixed_point() {
    let mut rng = Rng::with_seed(7);
    for _ in 0..500 {
        let members: Vec<PlanMember> = (0..rng.usize(1..=9)).map(member).collect();
        let mut table = assigned(&members, rng.usize(members.len()..=90));
        let loads: Vec<SliceLoad> = table
            .iter()
            .map(|(range, _)| SliceLoad { start: range.start(), objects: rng.u64(0..100), busy: 0.0, median: None })
            .collect();
        for _ in 0..200 {
            run(&mut table, &members, &loads, ALL);
            settle(&mut table);
        }
        let before = table.clone();
        run(&mut table, &members, &loads, ALL);
        assert_eq!(table, before, "nothing changed, so nothing moves");
        let mut again = before.clone();
        run(&mut again, &members, &loads, ALL);
        assert_eq!(again, table);
    }
}

#[test]
fn shr_059_a_join_moves_at_most_its_share_and_one_slice() {
    for count in 1..=20 {
        let mut members: Vec<PlanMember> = (0..count).map(member).collect();
        let mut table = assigned(&members, 8 * count);
        members.push(member(count));
        let mut moved = 0;
        while run(&mut table, &members, &[], ALL).is_filling || moves(&table) > 0 {
            moved += moves(&table);
            settle(&mut table);
        }
        let share = (8 * count) as f64 / (count + 1) as f64;
        assert!(moved as f64 <= share + 1.0, "{moved} slices to member {}", count + 1);
        assert!(moved as f64 >= share - 1.0, "{moved} slices to member {}", count + 1);
    }
}

#[test]
fn shr_059_a_leave_moves_the_leavers_slices_only() {
    let mut members: Vec<PlanMember> = (0..5).map(member).collect();
    let mut table = assigned(&members, 40);
    members[2].is_leaving = true;
    run(&mut table, &members, &[], ALL);
    let sources: BTreeSet<&MemberName> =
        table.iter().filter(|(_, state)| state.is_moving()).filter_map(|(_, state)| state.owner()).collect();
    assert_eq!(sources.into_iter().collect::<Vec<_>>(), [&members[2].name]);
    assert_eq!(moves(&table), 8);
}

#[test]
fn shr_057_no_grant_exceeds_the_bounded_load_while_another_member_has_room() {
    for count in 1..=12 {
        let members: Vec<PlanMember> = (0..count).map(member).collect();
        let report = run(&mut assigned(&members, 8 * count + 3), &members, &[], ALL);
        assert!(report.imbalance <= 1.25, "{count} members: {}", report.imbalance);
    }
}

#[test]
fn shr_062_a_leavers_slices_go_to_the_youngest_build() {
    let mut members: Vec<PlanMember> = (0..3).map(member).collect();
    let mut table = assigned(&members, 24);
    members.push(PlanMember { build: "2".into(), ..member(3) });
    members[0].is_leaving = true;
    run(&mut table, &members, &[], PlanScope { fill: false, balance: false, ..ALL });
    let targets: BTreeSet<&MemberName> = table.iter().filter_map(|(_, state)| state.target()).collect();
    assert_eq!(targets.into_iter().collect::<Vec<_>>(), [&members[3].name], "as a whole");
}

#[test]
fn shr_060_a_namespace_that_outweighs_a_member_is_split_off_and_hot() {
    let members: Vec<PlanMember> = (0..4).map(member).collect();
    let mut table = assigned(&members, 32);
    let heavy = table.range(5).start() + 99;
    let mut report = PlanReport::default();
    for _ in 0..40 {
        let loads: Vec<SliceLoad> = table
            .iter()
            .map(|(range, _)| {
                let is_heavy = range.contains(heavy);
                let median = is_heavy.then_some(heavy);
                SliceLoad { start: range.start(), objects: if is_heavy { 9_000 } else { 30 }, busy: 0.0, median }
            })
            .collect();
        report = run(&mut table, &members, &loads, PlanScope { shape: true, ..ALL });
        settle(&mut table);
    }
    assert_eq!(report.hot.iter().map(|range| (range.start(), range.width())).collect::<Vec<_>>(), [(heavy, 1)]);
    assert!(table.len() <= 64, "{} slices", table.len());
}

#[test]
fn shr_056_slices_are_split_at_the_median_of_their_weight() {
    let range = ShardRange::new(100, 200).unwrap();
    assert_eq!(split_point(range, Some(120)), Some(120));
    assert_eq!(split_point(range, Some(100)), Some(101), "half of the weight is at the first place");
    assert_eq!(split_point(range, None), Some(150));
    assert_eq!(split_point(ShardRange::new(100, 101).unwrap(), Some(100)), None);
}
