use super::*;

#[test]
fn the_machine_has_a_name() {
    assert!(!hostname().is_empty());
}
