use super::*;

#[test]
fn an_argument_is_a_name_a_group_and_perhaps_a_version() {
    assert_eq!(Argument::parse("pods"), Argument { full: None, name: "pods", group: "" });
    assert_eq!(Argument::parse("deployments.apps"), Argument { full: None, name: "deployments", group: "apps" });
    let full = Argument::parse("ingresses.v1.networking.k8s.io");
    assert_eq!(full.full, Some(("ingresses", "v1", "networking.k8s.io")));
    assert_eq!((full.name, full.group), ("ingresses", "v1.networking.k8s.io"));
    assert_eq!(Argument::parse("").name, "");
}
