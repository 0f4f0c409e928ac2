use super::*;

#[test]
fn co_027_the_default_identity_is_the_host_name_and_unique() {
    let (one, other) = (default_identity(), default_identity());
    let (host, uuid) = one.rsplit_once('_').unwrap();
    assert_eq!((host, uuid.len(), &uuid[14..15]), (hostname().as_str(), 36, "4"));
    assert_ne!(one, other);
}
