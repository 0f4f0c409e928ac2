use super::*;

fn range(start: u64, end: u64) -> ShardRange {
    ShardRange::new(start, u128::from(end)).unwrap()
}

#[test]
fn shr_056_a_slice_is_divided_where_half_of_its_objects_are() {
    let places = [1, 2, 3, 4, 9, 9, 9, 9, 9, 12];
    let load = load_of(range(0, 5), &places);
    assert_eq!((load.start, load.objects, load.median), (0, 4, Some(3)));
    let load = load_of(range(5, 20), &places);
    assert_eq!((load.objects, load.median), (6, Some(12)), "the heavy place is divided from the rest");
    assert_eq!(load_of(range(1, 13), &places).median, Some(9));
    assert_eq!(load_of(range(5, 12), &places).median, None, "one place cannot be divided");
    let load = load_of(range(20, 30), &places);
    assert_eq!((load.objects, load.median), (0, None));
    assert_eq!(load_of(ShardRange::FULL, &[u64::MAX]).objects, 1);
}
