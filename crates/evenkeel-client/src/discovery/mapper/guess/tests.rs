use super::*;

#[test]
fn map_003_plurals_are_guessed_by_their_ending() {
    for (kind, plural) in [
        ("Pod", "pods"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Endpoints", "endpoints"),
        ("FooEndpoints", "fooendpoints"),
        ("List", "lists"),
        ("PodList", "podlists"),
        ("", ""),
    ] {
        assert_eq!(guess_names(kind), (plural.to_owned(), kind.to_lowercase()));
    }
}
