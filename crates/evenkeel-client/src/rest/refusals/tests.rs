use super::*;

#[test]
fn each_group_is_remembered_by_itself_and_not_too_many() {
    let refusals = Refusals::default();
    assert!(!refusals.include(""));
    refusals.note("metrics.k8s.io", "a test");
    assert!(refusals.include("metrics.k8s.io") && !refusals.include("") && !refusals.include("apps"));
    for number in 0..2 * MOST {
        refusals.note(&format!("group-{number}"), "a test");
    }
    assert_eq!(refusals.groups.read().unwrap().len(), MOST);
    assert!(!refusals.include(&format!("group-{}", 2 * MOST - 1)));
}
