use super::*;

#[test]
fn sec_47_a_repeated_token_ends_paging() {
    let mut cursor = PageCursor::new(ListParams::default(), 500);
    assert_eq!(cursor.advance("a"), Ok(true));
    assert_eq!(cursor.advance("a"), Err(PagingError::Loop { page: 2 }));
    let mut round = PageCursor::new(ListParams::default(), 500);
    assert_eq!([round.advance("a"), round.advance("b"), round.advance("c")], [Ok(true); 3]);
    assert_eq!(round.advance("a"), Err(PagingError::Loop { page: 4 }), "also by a detour");
    let mut own = PageCursor::new(ListParams::default().continue_from("a"), 500);
    assert_eq!(own.advance("a"), Err(PagingError::Loop { page: 1 }), "also the token of the caller");
}

#[test]
fn sec_47_there_are_no_more_than_a_million_pages() {
    assert_eq!(PageCursor::new(ListParams::default(), 500).max_pages, 1_000_000);
    let mut cursor = PageCursor { max_pages: 1000, ..PageCursor::new(ListParams::default(), 500) };
    for page in 1..1000 {
        assert_eq!(cursor.advance(&page.to_string()), Ok(true));
    }
    assert_eq!(cursor.advance("1000"), Err(PagingError::TooManyPages { limit: 1000 }));
    let mut exact = PageCursor { max_pages: 2, ..PageCursor::new(ListParams::default(), 500) };
    assert_eq!([exact.advance("1"), exact.advance("")], [Ok(true), Ok(false)], "exactly so many are fine");
}

#[test]
fn sec_82_pages_without_objects_end_paging() {
    let mut cursor = PageCursor::new(ListParams::default(), 500);
    for _ in 0..2 {
        assert!((0..MAX_EMPTY_PAGES).all(|_| cursor.received(0).is_ok()));
        assert_eq!(cursor.received(1), Ok(()), "an object is progress");
    }
    assert!((0..MAX_EMPTY_PAGES).all(|_| cursor.received(0).is_ok()));
    assert_eq!(cursor.received(0), Err(PagingError::NoProgress { pages: MAX_EMPTY_PAGES + 1 }));
}
