use super::*;

#[test]
fn parts_are_counted_from_one_and_cover_all_places() {
    let parts: Vec<Part> = (1..=3).map(|number| format!("{number}/3").parse().unwrap()).collect();
    assert_eq!(parts[1].to_string(), "2/3");
    assert_eq!((parts[0].range.start(), parts[2].range.end()), (0, ShardRange::FULL.end()));
    assert!(parts.windows(2).all(|pair| pair[0].range.end() == u128::from(pair[1].range.start())));
    assert!("1/1".parse::<Part>().unwrap().selector().ranges().is_full());
}

#[test]
fn other_texts_are_no_parts() {
    for text in ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b"] {
        let error = text.parse::<Part>().expect_err(text);
        assert!(error.contains("such as 2/4"), "{error}");
    }
}

#[test]
fn dropped_objects_of_all_kinds_are_added() {
    let text = "# HELP evenkeel_ring_out_of_range_total x\nevenkeel_ring_out_of_range_total{resource=\"pods\"} 5\n\
        evenkeel_ring_out_of_range_total{resource=\"jobs.batch\"} 2\nevenkeel_ring_shard_support{resource=\"pods\"} -1\n";
    assert_eq!(out_of_range(text).unwrap(), 7);
    assert!(out_of_range("# nothing\n").is_err());
}
