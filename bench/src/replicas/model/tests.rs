use super::*;
use crate::replicas::run::Scenario;
use crate::server::wire::Wire;

/// Runs of 1, 2 and 4 replicas over 8,000 objects that cost exactly what a model says: 5 MB and 1,024 bytes an object, 10 ms and
/// 20 µs an object, 30 µs an update, 4 µs for what is dropped in a list and 6 µs in a watch.
pub(crate) fn runs() -> Vec<Outcome> {
    let (objects, updates) = (8_000, 4_000);
    let mut runs = Vec::new();
    for replicas in [1, 2, 4] {
        for filters in [true, false] {
            let (kept, kept_updates) = (objects / replicas as usize, updates / replicas as usize);
            let (dropped, dropped_updates) = if filters { (0, 0) } else { (objects - kept, updates - kept_updates) };
            let replica = Replica {
                objects: kept,
                updates: kept_updates as u64,
                rss_steady_kb: 5_000 + kept as u64,
                rss_peak_kb: 5_000 + kept as u64,
                updated_rss_kb: 6_000 + 2 * kept as u64,
                sync_cpu_s: 0.01 + 20e-6 * kept as f64 + 4e-6 * dropped as f64,
                updates_cpu_s: 30e-6 * kept_updates as f64 + 6e-6 * dropped_updates as f64,
                out_of_range: dropped as u64,
                out_of_range_updates: dropped_updates as u64,
                ..Replica::default()
            };
            let copies = if filters { 1 } else { u64::from(replicas) };
            runs.push(Outcome {
                scenario: Scenario { wire: Wire::Json, filters, replicas, round: 0, updates },
                sync_bytes: 3_000 * objects as u64 * copies,
                storm_bytes: 4_000 * updates as u64 * copies,
                server_cpu_s: 0.1,
                each: vec![replica; replicas as usize],
            });
        }
    }
    runs
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-6 + 1e-9, "{found} instead of {expected}");
}

#[test]
fn shs_001_memory_is_a_fixed_part_and_one_for_each_object() {
    let runs = runs();
    let costs = Costs::fit(&runs.iter().collect::<Vec<_>>()).unwrap();
    assert_near(costs.fixed_bytes, 5_000.0 * 1024.0);
    assert_near(costs.bytes_per_object, 1024.0);
    assert_near(costs.updated_fixed_bytes, 6_000.0 * 1024.0);
    assert_near(costs.updated_bytes_per_object, 2048.0);
    assert_near(costs.memory_error, 0.0);
}

#[test]
fn shs_002_processor_time_is_for_what_is_kept_and_for_what_is_dropped() {
    let runs = runs();
    let costs = Costs::fit(&runs.iter().collect::<Vec<_>>()).unwrap();
    assert_near(costs.sync_cpu_s, 0.01);
    assert_near(costs.cpu_us_per_object, 20.0);
    assert_near(costs.cpu_us_per_dropped_object, 4.0);
    assert_near(costs.cpu_us_per_update, 30.0);
    assert_near(costs.cpu_us_per_dropped_update, 6.0);
}

#[test]
fn shs_003_traffic_is_for_what_each_recipient_receives() {
    let runs = runs();
    let costs = Costs::fit(&runs.iter().collect::<Vec<_>>()).unwrap();
    assert_near(costs.sent_bytes_per_object, 3_000.0);
    assert_near(costs.sent_bytes_per_update, 4_000.0);
}

#[test]
fn a_line_is_fitted_to_points_beside_it() {
    let points = [(1.0, 3.5), (2.0, 4.5), (3.0, 7.5), (4.0, 8.5)];
    let line = Line::fit(&points).unwrap();
    assert_near(line.each, 1.8);
    assert_near(line.fixed, 1.5);
    assert_near(line.error(&points), 0.6 / 4.5);
    assert_eq!(Line::fit(&[(2.0, 1.0), (2.0, 3.0)]), None, "a slope needs two numbers");
    assert_eq!(Line::fit(&[]), None);
}

#[test]
fn one_number_of_replicas_is_not_enough() {
    let runs = runs();
    assert!(Costs::fit(&runs.iter().take(2).collect::<Vec<_>>()).is_none());
}
