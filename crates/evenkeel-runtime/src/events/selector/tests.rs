use super::*;

#[test]
fn en_016_events_are_selected_by_their_object() {
    let pod = GroupVersionKind::gvk("", "v1", "Pod");
    let text = |group: &str, version: &str, kind: &GroupVersionKind, name: &str, uid: &str| {
        field_selector(&GroupVersion::gv(group, version), kind, name, uid).map(|selector| selector.to_string())
    };
    let new = "regarding.apiVersion=v1,regarding.kind=Pod,regarding.name=n,regarding.uid=u";
    assert_eq!(text("events.k8s.io", "v1", &pod, "n", "u").as_deref(), Ok(new));
    assert_eq!(text("events.k8s.io", "v1beta1", &pod, "n", "u").as_deref(), Ok(new));
    assert_eq!(
        text("", "v1", &GroupVersionKind::gvk("apps", "v1", "Deployment"), "n", "").as_deref(),
        Ok("involvedObject.apiVersion=apps/v1,involvedObject.kind=Deployment,involvedObject.name=n")
    );
    assert_eq!(text("", "v1", &GroupVersionKind::gvk("", "", ""), "", "u").as_deref(), Ok("involvedObject.uid=u"));
    let unknown = text("apps", "v1", &pod, "n", "u").unwrap_err();
    assert_eq!(unknown, NoEvents { group_version: "apps/v1".into() });
}
