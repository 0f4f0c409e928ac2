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
fn pieces_are_selected_by_their_tags() {
    let pieces = Pieces::new(2 * RUN + 5, |out, number| {
        out.extend_from_slice(format!("{number};").as_bytes());
        Ok(number)
    })
    .unwrap();
    // Neighbours across the end of a run, single ones, all and none.
    let selections: [fn(&usize) -> bool; 4] =
        [|number| (RUN - 2..RUN + 3).contains(number), |number| number % 3 == 1, |_| true, |_| false];
    for is_wanted in selections {
        for range in [0..0, 0..2 * RUN + 5, 5..RUN, RUN - 1..RUN + 1] {
            let wanted = range.clone().filter(is_wanted);
            let expected: String = wanted.map(|number| format!("{number};")).collect();
            assert_eq!(pieces.selected(range, is_wanted).collect::<Vec<_>>().concat(), expected.as_bytes());
        }
    }
    assert_eq!(pieces.selected(0..2 * RUN + 5, selections[0]).count(), 2, "one slice of each run");
}

#[test]
fn a_failed_piece_is_an_error() {
    let made = Pieces::<()>::new(10, |_, number| if number == 7 { Err("seven".into()) } else { Ok(()) });
    assert_eq!(made.err().map(|error| error.to_string()).as_deref(), Some("seven"));
}
