use super::*;

#[test]
fn sec_47_a_place_that_comes_twice_ends_it() {
    let mut walk = Walk::new(ListParams::default(), 500);
    assert_eq!(walk.turn("a"), Ok(true));
    assert_eq!(walk.turn("a"), Err(PagingError::Loop { page: 2 }));
    let mut round = Walk::new(ListParams::default(), 500);
    assert_eq!([round.turn("a"), round.turn("b"), round.turn("c")], [Ok(true); 3]);
    assert_eq!(round.turn("a"), Err(PagingError::Loop { page: 4 }), "also by a detour");
    let mut own = Walk::new(ListParams::default().continue_from("a"), 500);
    assert_eq!(own.turn("a"), Err(PagingError::Loop { page: 1 }), "also to where it was told to begin");
}

#[test]
fn sec_47_there_are_no_more_than_a_million_pages() {
    assert_eq!(Walk::new(ListParams::default(), 500).max_pages, 1_000_000);
    let mut walk = Walk { max_pages: 1000, ..Walk::new(ListParams::default(), 500) };
    for page in 1..1000 {
        assert_eq!(walk.turn(&page.to_string()), Ok(true));
    }
    assert_eq!(walk.turn("1000"), Err(PagingError::TooManyPages { limit: 1000 }));
    let mut exact = Walk { max_pages: 2, ..Walk::new(ListParams::default(), 500) };
    assert_eq!([exact.turn("1"), exact.turn("")], [Ok(true), Ok(false)], "exactly so many are fine");
}
