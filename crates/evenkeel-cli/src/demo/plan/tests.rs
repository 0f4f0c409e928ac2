use std::collections::BTreeMap;

use super::*;

/// What the Foos ask for, if nobody but the story writes.
fn play(chapters: &[Chapter]) -> (Intent, BTreeMap<String, (String, i32)>) {
    let (mut intent, mut foos) = (Intent::default(), BTreeMap::new());
    for write in chapters.iter().flat_map(|chapter| &chapter.writes) {
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
            Write::CreateStranger { deployment } | Write::DeleteStranger { deployment } => {
                assert!(!deployment.is_empty());
            }
        }
    }
    (intent, foos)
}

#[test]
fn every_write_makes_sense_where_it_stands_and_nothing_is_left() {
    for objects in [1, 2, 3, 4, 5, 20, 101] {
        let chapters = plan(objects, false);
        let (intent, foos) = play(&chapters);
        assert!(foos.is_empty() && intent.foos.is_empty(), "{objects}: {foos:?}");
        assert!(intent.conflicting.is_empty() && intent.strangers.is_empty());
        assert_eq!(intent.gone.len() as u32, objects + 2);
        for chapter in chapters {
            assert!(!chapter.writes.is_empty(), "{objects}: nothing happens in {}", chapter.phase.name());
        }
    }
}

#[test]
fn a_conflict_lasts_from_the_break_to_the_repair() {
    let chapters = plan(3, false);
    let (broken, _) = play(&chapters[..3]);
    assert!(broken.is_conflicting(LATECOMER));
    let (repaired, _) = play(&chapters[..4]);
    assert!(!repaired.is_conflicting(LATECOMER));
    assert!(repaired.foos.contains(LATECOMER));
}

#[test]
fn both_kinds_change_in_the_dark_so_that_every_watch_breaks() {
    for objects in [1, 7] {
        let writes = &plan(objects, false)[4].writes;
        assert!(writes.iter().any(|write| matches!(write, Write::ScaleFoo { .. })));
        assert!(writes.iter().any(|write| matches!(write, Write::DeleteDeployment { .. })));
    }
}

#[test]
fn who_stays_finds_something_to_play_with() {
    let (_, foos) = play(&plan(20, true));
    assert_eq!(foos.len(), 3);
    let (_, foos) = play(&plan(1, true));
    assert_eq!(foos.len(), 1);
}

#[test]
fn names_sort() {
    let names: Vec<String> = Cast::new(101).each(|one| one.create(1)).iter().map(|w| w.subject().into()).collect();
    assert!(names.is_sorted());
    assert_eq!((names[0].as_str(), names[100].as_str()), ("foo-000", "foo-100"));
}
