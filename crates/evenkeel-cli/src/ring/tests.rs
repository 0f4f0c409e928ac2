use super::*;

#[test]
fn keys_have_a_namespace_and_a_name_or_a_name_only() {
    assert_eq!(key("team/a"), Ok(ObjectKey::namespaced("team", "a")));
    assert_eq!(key("node-1"), Ok(ObjectKey::cluster("node-1")));
    for text in ["", "/", "team/", "/a", "a/b/c"] {
        assert!(key(text).is_err(), "{text:?}");
    }
}
