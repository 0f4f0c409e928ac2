use super::*;

const SCALE: Scale = Scale { objects: 50_000, updates: 100_000, latency: 1_000, rounds: 3 };
const BOTH: &[Wire] = &[Wire::Json, Wire::Protobuf];

#[test]
fn all_cases_run_unless_some_are_named() {
    let all = cases(&[], false, BOTH, SCALE).unwrap();
    assert_eq!(all.iter().map(|case| case.name).collect::<Vec<_>>(), NAMES);
    let pods: Vec<usize> = all.iter().filter(|case| case.data == Data::Pods).map(|case| case.objects).collect();
    assert_eq!(pods, [50_000, 5_000, 200_000, 50_000]);
    let documents = all.iter().find(|case| case.data == Data::Documents).unwrap();
    assert_eq!((documents.wires.as_slice(), documents.objects), (&[Wire::Json][..], 1_000));
    let some = cases(&["small".to_owned()], false, BOTH, SCALE).unwrap();
    assert_eq!(some.iter().map(|case| case.name).collect::<Vec<_>>(), ["small"]);
    assert!(cases(&["smal".to_owned()], false, BOTH, SCALE).unwrap_err().contains("endpointslices"));
}

#[test]
fn the_million_object_case_runs_only_evenkeel() {
    let both = cases(&[], true, &[Wire::Protobuf], SCALE).unwrap();
    assert_eq!(both.iter().map(|case| case.objects).collect::<Vec<_>>(), [50_000, 1_000_000]);
    assert!(both.iter().all(|case| case.alone));
}

#[test]
fn numbers_have_thousands_separators() {
    assert_eq!([7, 999, 1_000, 1_234_567].map(thousands), ["7", "999", "1,000", "1,234,567"]);
}
