use super::*;

#[test]
fn quantities_in_all_notations_compare() {
    let of = |text: &str| billionths(&Value::from(text));
    assert_eq!(of("1"), of("1000m"));
    assert_eq!(of("1Ki"), of("1024"));
    assert_eq!(of("2e3"), of("2k"));
    assert_eq!(of("0.5"), of("500m"));
    assert_eq!(of("1.5Gi"), Some(1_610_612_736 * 1_000_000_000));
    assert_eq!(of("-1"), Some(-1_000_000_000));
    assert_eq!(billionths(&Value::from(2)), of("2"));
    assert!(of("64Gi") > of("64G"));
    for bad in ["", "x", "1x", "1.2.3", "--1", "1ee3"] {
        assert_eq!(of(bad), None, "{bad}");
    }
}
