use std::collections::BTreeMap;

use super::*;

/// Returns the expected Foos, if only the demo writes.
fn run(phases: &[PhasePlan]) -> (Intent, BTreeMap<String, (String, i32)>) {
    let (mut intent, mut foos) = (Intent::default(), BTreeMap::new());
    for write in phases.iter().flat_map(|phase_plan| &phase_plan.writes) {
        intent.apply(write);
        match write {
            Write::CreateFoo { foo, deployment, replicas } => {
                let before = foos.insert(foo.clone(), (deployment.clone(), *replicas));
                assert_eq!(before, None, "{foo} is created twice");
            }
            Write::ScaleFoo { foo, replicas } => {
                let (_, size) = foos.get_mut(foo).unwrap();
                assert_ne!(size, replicas, "{foo} is scaled to what it is");
                *size = *replicas;
            }
            Write::RenameDeployment { foo, deployment } => foos.get_mut(foo).unwrap().0 = deployment.clone(),
            Write::DeleteFoo { foo } => assert!(foos.remove(foo).is_some(), "{foo} is deleted twice"),
            Write::DeleteDeployment { foo, deployment } => assert_eq!(&foos[foo].0, deployment),
            Write::ScaleDeployment { foo, deployment, replicas } => {
                assert_eq!(&foos[foo].0, deployment);
                assert_ne!(foos[foo].1, *replicas);
            }
            Write::CreateForeign { deployment } | Write::DeleteForeign { deployment } => {
                assert!(!deployment.is_empty());
            }
        }
    }
    (intent, foos)
}

#[test]
fn every_write_is_valid_in_its_place_and_no_foo_is_left() {
    for objects in [1, 2, 3, 4, 5, 20, 101] {
        let phases = plan(objects, false);
        let (intent, foos) = run(&phases);
        assert!(foos.is_empty() && intent.foos.is_empty(), "{objects}: {foos:?}");
        assert!(intent.conflicting.is_empty() && intent.strangers.is_empty());
        assert_eq!(intent.gone.len() as u32, objects + 2);
        for phase_plan in phases {
            assert!(!phase_plan.writes.is_empty(), "{objects}: nothing happens in {}", phase_plan.phase.name());
        }
    }
}

#[test]
fn a_conflict_lasts_from_the_break_to_the_repair() {
    let phases = plan(3, false);
    let (broken, _) = run(&phases[..3]);
    assert!(broken.is_conflicting(CONFLICTING));
    let (repaired, _) = run(&phases[..4]);
    assert!(!repaired.is_conflicting(CONFLICTING));
    assert!(repaired.foos.contains(CONFLICTING));
}

#[test]
fn both_kinds_change_in_the_outage_so_that_every_watch_fails() {
    for objects in [1, 7] {
        let writes = &plan(objects, false)[4].writes;
        assert!(writes.iter().any(|write| matches!(write, Write::ScaleFoo { .. })));
        assert!(writes.iter().any(|write| matches!(write, Write::DeleteDeployment { .. })));
    }
}

#[test]
fn staying_keeps_some_foos() {
    let (_, foos) = run(&plan(20, true));
    assert_eq!(foos.len(), 3);
    let (_, foos) = run(&plan(1, true));
    assert_eq!(foos.len(), 1);
}

#[test]
fn names_sort() {
    let names: Vec<String> =
        PlannedFoos::new(101).each(|one| one.create(1)).iter().map(|w| w.subject().into()).collect();
    assert!(names.is_sorted());
    assert_eq!((names[0].as_str(), names[100].as_str()), ("foo-000", "foo-100"));
}
