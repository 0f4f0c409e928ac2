use super::*;

#[test]
fn the_host_has_a_name() {
    assert!(!hostname().is_empty());
}
