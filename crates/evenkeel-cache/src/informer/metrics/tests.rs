use super::*;

fn foos() -> ResourceInfo {
    ResourceInfo::new("samples.io", "v1", "Foo", "foos", true)
}

#[test]
fn imt_001_a_name_is_reserved_while_its_informer_lives() {
    let first = Identity::new("met-001", &foos());
    let second = Identity::new("met-001", &foos());
    assert_eq!((first.name(), second.name()), ("met-001", "met-001-2"));
    drop(first);
    assert_eq!(Identity::new("met-001", &foos()).name(), "met-001");
    assert_eq!(Identity::new("met-001", &foos()).name(), "met-001", "it was given back");
}

#[test]
fn imt_002_a_name_is_per_kind() {
    let first = Identity::new("met-002", &foos());
    let other = Identity::new("met-002", &ResourceInfo::new("samples.io", "v2", "Foo", "foos", true));
    assert_eq!((first.name(), other.name()), ("met-002", "met-002"));
}

#[test]
fn imt_003_dropping_an_informer_frees_its_name() {
    let first = Identity::new("met-003", &foos());
    let second = Identity::new("met-003", &foos());
    drop((first, second));
    assert_eq!(Identity::new("met-003", &foos()).name(), "met-003");
}

#[test]
fn txn_014_a_gauge_shows_the_last_fifteen_digits() {
    assert_eq!(last_digits(""), Some(0));
    assert_eq!(last_digits("42"), Some(42));
    assert_eq!(last_digits("9123456789012345678"), Some(456_789_012_345_678));
    assert_eq!(last_digits("abc"), None);
    assert_eq!(last_digits("é23456789012345"), None);
}
