use super::*;

#[tokio::test(start_paused = true)]
async fn eventually_returns_the_value_or_an_error_that_names_the_condition() {
    let started = Instant::now();
    let value = eventually("a second has passed", async || (started.elapsed().as_secs() == 1).then_some("yes"));
    assert_eq!(value.await, Ok("yes"));
    let error = eventually::<()>("pigs fly", async || None).await.unwrap_err();
    assert_eq!((error.waited, error.checks), (TIMEOUT, 3001));
    assert_eq!(error.to_string(), "condition not met after 30s and 3001 checks: pigs fly");
}
