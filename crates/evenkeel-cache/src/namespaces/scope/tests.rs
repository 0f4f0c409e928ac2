//! Scopes of a set, and which reflectors a change of the set stops and starts.

use super::*;

fn names<const N: usize>(names: [&str; N]) -> NamespaceNames {
    names.into_iter().collect()
}

fn running<const N: usize>(set: [&str; N]) -> BTreeMap<Arc<str>, Scope> {
    names(set).scopes().into_iter().map(|scope| (Arc::clone(scope.namespace()), scope)).collect()
}

fn planned<const N: usize, const M: usize>(from: [&str; N], to: [&str; M]) -> (Vec<String>, Vec<String>) {
    let ScopeChanges { stop, start } = plan(&running(from), names(to).scopes());
    let started = start.iter().map(|scope| match scope.is_rest() {
        true => format!("rest {}", scope.field_selector()),
        false => scope.namespace().to_string(),
    });
    (stop.iter().map(ToString::to_string).collect(), started.collect())
}

#[test]
fn mns_001_each_namespace_has_a_scope_of_its_own() {
    let set = names(["b", "a"]);
    let scopes = set.scopes();
    assert_eq!(scopes.iter().map(|scope| &**scope.namespace()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(scopes.iter().all(|scope| scope.field_selector().is_empty()));
    assert!(scopes[0].contains("a") && !scopes[0].contains("b"));
    assert!(set.covers("a") && !set.covers("c"));
}

#[test]
fn mns_002_the_empty_name_is_the_rest_with_a_sorted_field_selector() {
    let set = names(["b", "", "a"]);
    let rest = &set.scopes()[0];
    assert!(rest.is_rest());
    assert_eq!(rest.field_selector(), "metadata.namespace!=a,metadata.namespace!=b");
    assert!(rest.contains("c") && !rest.contains("a") && !rest.contains("b"));
    assert!(set.covers("c"));
    let all = &names([""]).scopes()[0];
    assert_eq!(all.field_selector(), "");
    assert!(all.contains("a"));
}

#[test]
fn mns_002_the_rest_restarts_when_its_selector_changes() {
    let restarted = (vec![String::new()], vec!["rest metadata.namespace!=a".to_owned(), "a".to_owned()]);
    assert_eq!(planned([""], ["", "a"]), restarted);
    let (stop, start) = planned(["", "a"], [""]);
    assert_eq!(stop, ["", "a"]);
    assert_eq!(start, ["rest "]);
    assert_eq!(planned(["a", ""], ["a"]), (vec![String::new()], vec![]));
}

#[test]
fn mns_010_a_change_leaves_all_other_reflectors_alone() {
    assert_eq!(planned([], ["a", "b"]), (vec![], vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(planned(["a", "b"], ["a", "b", "c"]), (vec![], vec!["c".to_owned()]));
    assert_eq!(planned(["a", "b"], ["a"]), (vec!["b".to_owned()], vec![]));
    assert_eq!(planned(["a"], ["a"]), (vec![], vec![]));
}
