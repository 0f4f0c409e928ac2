use super::*;

#[test]
fn distances_count_typos() {
    for (one, other, apart) in [
        ("pods", "pods", 0),
        ("pod", "pods", 1),
        ("deploymnts", "deployments", 1),
        ("sevrices", "services", 1),
        ("confgimap", "configmaps", 2),
        ("", "po", usize::MAX),
        ("", "", 0),
        ("kitten", "sitting", 3),
    ] {
        assert_eq!(distance(one, other), apart, "{one} {other}");
    }
}
