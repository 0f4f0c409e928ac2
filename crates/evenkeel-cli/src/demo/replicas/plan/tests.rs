use std::collections::BTreeSet;

use evenkeel::core::shard::{ShardRange, place};

use super::*;

#[test]
fn every_plan_has_a_crash_a_leave_and_a_replacement_and_never_ends_without_a_replica() {
    for replicas in REPLICAS {
        let (mut now, mut most) = (0_usize, 0);
        let phases = plan(replicas);
        for phase in &phases {
            match phase {
                Phase::Start(more) | Phase::Join(more) => now += more,
                Phase::Crash | Phase::Leave => now -= 1,
                Phase::Replace(left) => assert_eq!(*left, now, "{replicas}"),
            }
            assert!(now > 0, "{replicas}: {phase:?}");
            most = most.max(now);
        }
        assert_eq!(most, replicas);
        let names: Vec<&str> = phases.iter().map(|phase| phase.name()).collect();
        for name in ["start", "join", "crash", "leave", "replace"] {
            assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{replicas}: {names:?}");
        }
    }
}

#[test]
fn names_are_unique_and_every_eighth_of_the_hash_space_has_a_namespace() {
    let all = objects(200);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 200);
    let namespaces = namespaces(OBJECTS);
    for index in 0..8 {
        let part = ShardRange::FULL.part(index, 8).unwrap();
        assert!(namespaces.iter().any(|namespace| part.contains(place(namespace))), "{index}");
    }
    assert_eq!(super::namespaces(1), ["amber-badger"]);
}
