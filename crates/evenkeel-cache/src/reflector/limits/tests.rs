use super::*;

#[test]
fn sec_82_a_list_has_a_total_limit_of_objects_and_bytes() {
    let limits = ListLimits { objects: 10, bytes: 1000 };
    assert!(limits.check(10, 1000).is_ok());
    for (objects, bytes) in [(11, 0), (1, 1001)] {
        let error = limits.check(objects, bytes).unwrap_err();
        assert!(matches!(error, ReflectorError::ListTooLarge { .. }));
        assert!(error.to_string().contains("max_list_"), "{error}");
    }
}

#[test]
fn sec_82_pages_without_progress_are_an_error() {
    let mut pages = PageProgress::default();
    assert!(pages.page(1, "a").is_ok() && pages.page(1, "b").is_ok() && pages.page(0, "c").is_ok());
    assert!(matches!(pages.page(1, "a"), Err(ReflectorError::EndlessList)), "also by a detour");
    let mut pages = PageProgress::default();
    let mut tokens = (0..).map(|number: u32| number.to_string());
    for _ in 0..MAX_EMPTY_PAGES {
        assert!(pages.page(0, &tokens.next().unwrap()).is_ok());
        assert!(pages.page(1, &tokens.next().unwrap()).is_ok());
    }
    let error = pages.page(0, &tokens.next().unwrap()).unwrap_err();
    assert!(matches!(error, ReflectorError::EmptyPages { pages: 101 }), "{error}");
}
