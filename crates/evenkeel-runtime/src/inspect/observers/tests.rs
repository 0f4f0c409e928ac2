use super::*;

#[test]
fn durations_have_three_significant_digits() {
    let shown = [5, 999, 1_000, 1_234, 12_345, 123_456, 5_000_000, 119_000_000, 600_000_000];
    let shown = shown.map(|micros| short(Duration::from_micros(micros)));
    assert_eq!(shown, ["5 µs", "999 µs", "1 ms", "1.23 ms", "12.3 ms", "123 ms", "5 s", "119 s", "10 min"]);
}
