use super::*;

#[test]
fn pieces_are_returned_singly_and_by_range() {
    let pieces = Pieces::new(3 * RUN + 5, |out, number| {
        out.extend_from_slice(format!("{number};").as_bytes());
        Ok(())
    })
    .unwrap();
    assert_eq!((pieces.len(), pieces.get(RUN)), (3 * RUN + 5, format!("{RUN};").as_bytes()));
    for range in [0..0, 0..1, 7..9, RUN - 1..RUN + 1, 5..3 * RUN + 5, 2 * RUN..3 * RUN, RUN..RUN] {
        let expected: String = range.clone().map(|number| format!("{number};")).collect();
        assert_eq!(pieces.slices(range).collect::<Vec<_>>().concat(), expected.as_bytes());
    }
}

#[test]
fn a_failed_piece_is_an_error() {
    let made = Pieces::new(10, |_, number| if number == 7 { Err("seven".into()) } else { Ok(()) });
    assert_eq!(made.err().map(|error| error.to_string()).as_deref(), Some("seven"));
}
