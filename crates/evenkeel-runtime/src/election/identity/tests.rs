use super::*;

#[test]
fn co_027_a_candidate_without_a_name_is_called_after_its_host_and_never_like_another() {
    let (one, other) = (default_identity(), default_identity());
    let (host, uuid) = one.rsplit_once('_').unwrap();
    assert_eq!((host, uuid.len(), &uuid[14..15]), (hostname().as_str(), 36, "4"));
    assert_ne!(one, other);
}
