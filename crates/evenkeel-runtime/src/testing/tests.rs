use super::*;

#[tokio::test(start_paused = true)]
async fn what_comes_is_seen_and_what_does_not_is_told() {
    let begun = Instant::now();
    let come = eventually("a second has passed", async || (begun.elapsed().as_secs() == 1).then_some("yes"));
    assert_eq!(come.await, Ok("yes"));
    let error = eventually::<()>("pigs fly", async || None).await.unwrap_err();
    assert_eq!((error.waited, error.attempts), (TIMEOUT, 3001));
    assert!(error.to_string().ends_with("it never came that pigs fly"), "{error}");
}
