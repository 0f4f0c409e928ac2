use super::*;

fn found(key: &str, uid: &str, replicas: &str) -> Found {
    Found { key: key.into(), uid: uid.into(), replicas: replicas.into() }
}

#[test]
fn every_foo_has_a_config_map_that_follows_it() {
    let foos = [found("a", "1", "5"), found("b", "2", "7")];
    assert!(mismatches(2, &foos, &foos).is_empty());
    for (objects, maps, key, expected) in [
        (3, vec![foos[0].clone(), foos[1].clone()], "Foos", "2 instead of 3"),
        (2, vec![foos[0].clone()], "b", "it has no ConfigMap"),
        (2, vec![foos[0].clone(), found("b", "9", "7")], "b", "its ConfigMap has another owner"),
        (2, vec![foos[0].clone(), found("b", "2", "6")], "b", "its ConfigMap says \"6\" replicas instead of 7"),
        (2, vec![foos[0].clone(), foos[1].clone(), found("c", "3", "1")], "c", "a ConfigMap without its Foo"),
    ] {
        let found = mismatches(objects, &foos, &maps);
        assert_eq!(found, BTreeMap::from([(key.to_owned(), expected.to_owned())]));
    }
}
