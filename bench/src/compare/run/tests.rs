use super::*;

#[test]
fn figures_are_derived() {
    let Value::Object(mut figures) = json!({
        "objects": 1_000, "sync_cpu_s": 0.5, "typed_cpu_s": 0.25, "rss_steady_kb": 2_000, "updates": 100,
        "storm_cpu_s": 0.01, "written_ns": [1_000, 2_000, 3_000], "handled_ns": [11_000, 32_000, 23_000],
    }) else {
        panic!("no object")
    };
    derive(&mut figures);
    assert_eq!(figures["sync_cpu_us_per_object"], json!(500.0));
    assert_eq!(figures["steady_bytes_per_object"], json!(2_048.0));
    assert_eq!(figures["storm_cpu_us_per_event"], json!(100.0));
    assert_eq!(figures["sync_and_typed_cpu_s"], json!(0.75));
    assert_eq!((&figures["latency_p50_us"], &figures["latency_p99_us"]), (&json!(20.0), &json!(30.0)));
    assert!(!figures.contains_key("written_ns") && !figures.contains_key("sync_and_typed_wall_s"));
}

#[test]
fn without_figures_nothing_is_derived() {
    let mut figures = Figures::new();
    derive(&mut figures);
    assert!(figures.is_empty());
}
