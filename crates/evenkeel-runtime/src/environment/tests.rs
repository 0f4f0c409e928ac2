use super::*;

#[test]
fn the_host_name_is_not_empty() {
    assert!(!hostname().is_empty());
}
