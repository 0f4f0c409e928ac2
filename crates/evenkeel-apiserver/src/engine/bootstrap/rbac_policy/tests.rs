use super::*;

#[test]
fn bst_008_aggregated_roles_are_owned_as_by_the_schema() {
    let registry = Registry::builtin();
    let objects = policy::objects();
    let gathered = policy::gathered_rules(&objects);
    assert!(gathered.len() >= 3, "view, edit and admin are aggregated");
    for role in objects.iter().filter(|object| object.get("aggregationRule").is_some()) {
        let rules = gathered.get(object::text(role, "name")).unwrap();
        let schema = super::super::resource_of(&registry, role).unwrap().schema().unwrap();
        let expected = with_rules(&registry, role.clone(), rules, schema).unwrap();
        let made = with_rules(&registry, role.clone(), rules, BootstrapTypes::of("ClusterRole")).unwrap();
        assert_eq!(made, expected);
    }
}
