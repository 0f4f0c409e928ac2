use super::super::plan::Write;
use super::*;

/// A Foo of size 2 that has all it asked for.
fn converged() -> (Intent, World) {
    let mut intent = Intent::default();
    intent.apply(&Write::CreateFoo { foo: "a".into(), deployment: "web".into(), replicas: 2 });
    let foo = Foo {
        name: "a".into(),
        uid: "1".into(),
        generation: 3,
        deployment: "web".into(),
        replicas: 2,
        available: Some(2),
        observed: Some(3),
    };
    let deployment = Deployment {
        name: "web".into(),
        owner: Some(("a".into(), "1".into())),
        replicas: 2,
        available: 2,
        is_foreign: false,
    };
    (intent, World { foos: vec![foo], deployments: vec![deployment], warned: BTreeSet::new() })
}

/// What is said of a world that is right but for this.
fn said(change: impl FnOnce(&mut Intent, &mut World)) -> String {
    let (mut intent, mut world) = converged();
    change(&mut intent, &mut world);
    in_words(&judge(&intent, &world))
}

#[test]
fn a_world_that_is_right_is_right() {
    assert_eq!(said(|_, _| {}), "");
    assert_eq!(in_words(&judge(&Intent::default(), &World::default())), "");
}

#[test]
fn everything_that_can_be_wrong_with_a_foo_is_found() {
    assert_eq!(said(|_, world| world.foos.clear()), "a: it is not there, though it was created");
    assert_eq!(said(|_, world| world.deployments.clear()), "a: its Deployment web is missing");
    assert_eq!(said(|_, world| world.deployments[0].owner = None), "a: its Deployment web belongs to nobody");
    assert_eq!(said(|_, world| world.deployments[0].replicas = 7), "a: its Deployment web is of size 7 instead of 2");
    assert_eq!(said(|_, world| world.deployments[0].available = 1), "a: of its 2 replicas 1 are available");
    assert_eq!(said(|_, world| world.foos[0].available = None), "a: it has no status");
    assert_eq!(said(|_, world| world.foos[0].available = Some(1)), "a: its status says 1 available instead of 2");
    assert_eq!(said(|_, world| world.foos[0].generation = 4), "a: its status is about generation 3 instead of 4");
}

#[test]
fn a_deployment_of_another_foo_of_that_name_is_not_ours() {
    let said = said(|_, world| world.deployments[0].owner = Some(("a".into(), "0".into())));
    assert_eq!(said, "a: its Deployment web belongs to a, or to one that is gone");
}

#[test]
fn what_was_renamed_or_deleted_leaves_nothing_behind() {
    let renamed = said(|_, world| {
        let old = Deployment { name: "old".into(), ..world.deployments[0].clone() };
        world.deployments.push(old);
    });
    assert_eq!(renamed, "a: its old Deployment old is still there");
    let deleted = |intent: &mut Intent| intent.apply(&Write::DeleteFoo { foo: "a".into() });
    assert_eq!(said(|intent, _| deleted(intent)), "a: it is still there, though it was deleted");
    let orphan = said(|intent, world| {
        deleted(intent);
        world.foos.clear();
    });
    assert_eq!(orphan, "a: its Deployment web is left over");
}

#[test]
fn what_belongs_to_somebody_else_is_left_alone_and_people_are_told() {
    let conflict = |change: fn(&mut World)| {
        said(|intent, world| {
            intent.apply(&Write::CreateStranger { deployment: "taken".into() });
            intent.apply(&Write::CreateFoo { foo: "b".into(), deployment: "taken".into(), replicas: 1 });
            world.foos.push(Foo { name: "b".into(), deployment: "taken".into(), ..Foo::default() });
            let foreign = Deployment { name: "taken".into(), is_foreign: true, ..Deployment::default() };
            world.deployments.push(foreign);
            world.warned.insert("b".into());
            change(world);
        })
    };
    assert_eq!(conflict(|_| {}), "");
    assert_eq!(conflict(|world| world.warned.clear()), "b: no event says that the Deployment taken is somebody else's");
    assert_eq!(
        conflict(|world| world.deployments[1].owner = Some(("b".into(), String::new()))),
        "b: it took the Deployment taken from somebody else"
    );
    // Somebody with kubectl may have been faster than the story.
    let gone = conflict(|world| _ = world.deployments.pop());
    assert_eq!(gone, "b: its Deployment taken is missing");
    let after_the_conflict = said(|intent, world| {
        intent.apply(&Write::CreateStranger { deployment: "web".into() });
        intent.apply(&Write::DeleteStranger { deployment: "web".into() });
        (world.deployments[0].is_foreign, world.deployments[0].owner) = (true, None);
    });
    assert_eq!(after_the_conflict, "a: its Deployment web belongs to nobody");
}

#[test]
fn what_others_do_beside_the_story_is_their_business() {
    let said = said(|_, world| {
        world.foos.push(Foo { name: "mine".into(), deployment: "none".into(), ..Foo::default() });
        world.deployments.push(Deployment { name: "theirs".into(), ..Deployment::default() });
        let owner = Some(("other".into(), "9".into()));
        world.deployments.push(Deployment { name: "owned".into(), owner, ..Deployment::default() });
    });
    assert_eq!(said, "");
}

#[test]
fn a_long_list_of_complaints_is_cut() {
    let gaps: Gaps = (0..5).map(|index| (format!("foo-{index}"), "wrong".to_owned())).collect();
    assert_eq!(in_words(&gaps), "foo-0: wrong; foo-1: wrong; foo-2: wrong; and 2 more");
}
