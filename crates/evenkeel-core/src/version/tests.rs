use super::*;

fn compare(a: &str, b: &str) -> Option<Ordering> {
    ResourceVersion::new(a).compare(&ResourceVersion::new(b))
}

#[test]
fn numbers_of_any_length_compare() {
    assert_eq!(compare("9", "10"), Some(Ordering::Less));
    assert_eq!(compare("10", "10"), Some(Ordering::Equal));
    let huge = "9".repeat(40);
    assert_eq!(compare(&huge, "10"), Some(Ordering::Greater));
    assert_eq!(compare(&huge, &format!("1{}", "0".repeat(40))), Some(Ordering::Less));
}

#[test]
fn malformed_versions_do_not_compare() {
    for odd in ["", "0", "01", "1a", "-1", "١"] {
        assert_eq!(compare(odd, "1"), None, "{odd}");
        assert_eq!(compare("1", odd), None, "{odd}");
    }
}
