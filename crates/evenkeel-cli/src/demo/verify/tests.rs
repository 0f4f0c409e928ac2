use super::super::plan::Write;
use super::*;

/// A Foo with two replicas that has converged.
fn converged() -> (Intent, ServerState) {
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
    (intent, ServerState { foos: vec![foo], deployments: vec![deployment], warned: BTreeSet::new() })
}

/// Returns the mismatches of a converged state after this change.
fn printed(change: impl FnOnce(&mut Intent, &mut ServerState)) -> String {
    let (mut intent, mut state) = converged();
    change(&mut intent, &mut state);
    summarize(&verify(&intent, &state))
}

#[test]
fn a_converged_state_has_no_mismatch() {
    assert_eq!(printed(|_, _| {}), "");
    assert_eq!(summarize(&verify(&Intent::default(), &ServerState::default())), "");
}

#[test]
fn every_mismatch_of_a_foo_is_found() {
    assert_eq!(printed(|_, state| state.foos.clear()), "a: missing, although it was created");
    assert_eq!(printed(|_, state| state.deployments.clear()), "a: its Deployment web is missing");
    assert_eq!(printed(|_, state| state.deployments[0].owner = None), "a: its Deployment web has no owner");
    assert_eq!(
        printed(|_, state| state.deployments[0].replicas = 7),
        "a: its Deployment web has 7 replicas instead of 2"
    );
    assert_eq!(printed(|_, state| state.deployments[0].available = 1), "a: 1 of its 2 replicas are available");
    assert_eq!(printed(|_, state| state.foos[0].available = None), "a: it has no status");
    assert_eq!(printed(|_, state| state.foos[0].available = Some(1)), "a: its status reports 1 available instead of 2");
    assert_eq!(printed(|_, state| state.foos[0].generation = 4), "a: its status observed generation 3 instead of 4");
}

#[test]
fn a_deployment_of_another_foo_of_that_name_is_a_mismatch() {
    let printed = printed(|_, state| state.deployments[0].owner = Some(("a".into(), "0".into())));
    assert_eq!(printed, "a: its Deployment web is owned by a, or by a deleted one");
}

#[test]
fn renamed_and_deleted_foos_leave_no_deployment() {
    let renamed = printed(|_, state| {
        let old = Deployment { name: "old".into(), ..state.deployments[0].clone() };
        state.deployments.push(old);
    });
    assert_eq!(renamed, "a: its old Deployment old still exists");
    let deleted = |intent: &mut Intent| intent.apply(&Write::DeleteFoo { foo: "a".into() });
    assert_eq!(printed(|intent, _| deleted(intent)), "a: present, although it was deleted");
    let orphan = printed(|intent, state| {
        deleted(intent);
        state.foos.clear();
    });
    assert_eq!(orphan, "a: its Deployment web is orphaned");
}

#[test]
fn a_deployment_of_another_owner_stays_unchanged_with_a_warning() {
    let conflict = |change: fn(&mut ServerState)| {
        printed(|intent, state| {
            intent.apply(&Write::CreateForeign { deployment: "taken".into() });
            intent.apply(&Write::CreateFoo { foo: "b".into(), deployment: "taken".into(), replicas: 1 });
            state.foos.push(Foo { name: "b".into(), deployment: "taken".into(), ..Foo::default() });
            let foreign = Deployment { name: "taken".into(), is_foreign: true, ..Deployment::default() };
            state.deployments.push(foreign);
            state.warned.insert("b".into());
            change(state);
        })
    };
    assert_eq!(conflict(|_| {}), "");
    assert_eq!(conflict(|state| state.warned.clear()), "b: no event warns that the Deployment taken has another owner");
    assert_eq!(
        conflict(|state| state.deployments[1].owner = Some(("b".into(), String::new()))),
        "b: it took over the Deployment taken of another owner"
    );
    // A user of kubectl may have been faster than the demo.
    let gone = conflict(|state| _ = state.deployments.pop());
    assert_eq!(gone, "b: its Deployment taken is missing");
    let after_the_conflict = printed(|intent, state| {
        intent.apply(&Write::CreateForeign { deployment: "web".into() });
        intent.apply(&Write::DeleteForeign { deployment: "web".into() });
        (state.deployments[0].is_foreign, state.deployments[0].owner) = (true, None);
    });
    assert_eq!(after_the_conflict, "a: its Deployment web has no owner");
}

#[test]
fn foos_of_other_clients_are_ignored() {
    let printed = printed(|_, state| {
        state.foos.push(Foo { name: "mine".into(), deployment: "none".into(), ..Foo::default() });
        state.deployments.push(Deployment { name: "theirs".into(), ..Deployment::default() });
        let owner = Some(("other".into(), "9".into()));
        state.deployments.push(Deployment { name: "owned".into(), owner, ..Deployment::default() });
    });
    assert_eq!(printed, "");
}

#[test]
fn a_long_list_of_mismatches_is_truncated() {
    let mismatches: Mismatches = (0..5).map(|index| (format!("foo-{index}"), "wrong".to_owned())).collect();
    assert_eq!(summarize(&mismatches), "foo-0: wrong; foo-1: wrong; foo-2: wrong; and 2 more");
}
