use super::super::measures::measure;
use super::super::results::tests::results;
use super::*;

const ALL: &[&str] = &[OURS, "client-go", "client-go-list", "kube-rs"];

#[test]
fn tables_have_values_ratios_and_failures() {
    let (cases, results) = results();
    let text = tables(&results, &cases, ALL);
    let titles: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(
        titles,
        [
            "50 pods, json (2 rounds)",
            "50 pods, protobuf (2 rounds)",
            "5 pods, json (2 rounds)",
            "5 pods, protobuf (2 rounds)"
        ]
    );
    let row: Vec<&str> = text.lines().find(|line| line.starts_with("| sync, CPU, s")).unwrap().split('|').collect();
    let row: Vec<&str> = row.into_iter().map(str::trim).collect();
    assert_eq!(row[1..6], ["sync, CPU, s", "2.00", "21.5 · 10.5× (10.0–11.0)", "failed", "40.0 · 20.0×"]);
    let protobuf = text.lines().skip_while(|line| !line.contains("protobuf")).nth(2).unwrap();
    assert!(protobuf.contains("kube-rs (json)"), "{protobuf}");
    assert!(!text.contains("relist"), "there is no figure of it");
    let lengths: Vec<usize> = text.lines().skip(3).take(4).map(|line| line.chars().count()).collect();
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{text}");
}

#[test]
fn the_legend_names_versions_and_failures() {
    let (_, results) = results();
    let text = legend(&results, ALL);
    assert!(text.contains("- client-go: x 1.0; its defaults"), "{text}");
    assert!(text.contains("FAILED: client-go-list, informer, json, round 1: it hangs"), "{text}");
}

#[test]
fn growth_is_a_ratio_of_costs() {
    let (mut cases, results) = results();
    cases.reverse();
    let text = growth(&results, &cases, measure("rss_steady_kb"));
    let json = text.lines().next().unwrap();
    assert!(json.ends_with("with 5, 51.2 with 50: 10.0 times (10.0–10.0)"), "{json}");
}

#[test]
fn numbers_have_their_significant_digits() {
    let shown = [0.0, 0.01234, 0.5, 12.34, 123.4, 1_234.0, 43_900.4, 1_250_000.0, 98_700_000.0].map(show);
    assert_eq!(shown, ["0.00", "0.012", "0.50", "12.3", "123", "1234", "43,900", "1.2M", "99M"]);
}
