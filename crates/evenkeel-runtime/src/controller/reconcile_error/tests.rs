//! Conversions of errors.

use anyhow::Context as _;

use super::*;

/// An error that shows its source as itself.
#[derive(Debug, thiserror::Error)]
enum Wrapper {
    #[error(transparent)]
    Transparent(TerminalError),
    #[error("wrapped")]
    Boxed(#[source] BoxError),
    #[error("wrapped: {0}")]
    Repeated(#[source] std::num::ParseIntError),
}

fn number(text: &str) -> Result<i32, std::num::ParseIntError> {
    text.parse()
}

#[test]
fn co_033_every_error_converts() {
    fn of_error() -> Result<(), ReconcileError> {
        number("x")?;
        Ok(())
    }
    fn of_anyhow() -> Result<(), ReconcileError> {
        number("x").context("reading the port")?;
        Ok(())
    }
    fn of_box() -> Result<(), ReconcileError> {
        let boxed: Result<(), BoxError> = Err("boxed".into());
        boxed?;
        Ok(())
    }
    fn of_text() -> Result<(), ReconcileError> {
        Err("text")?;
        Err(String::from("text"))?;
        Ok(())
    }
    let texts = [of_error(), of_anyhow(), of_box(), of_text()].map(|error| error.unwrap_err().to_string());
    let [error, anyhow, boxed, text] = texts;
    assert_eq!(error, "invalid digit found in string");
    assert_eq!(anyhow, "reading the port: invalid digit found in string", "with its causes");
    assert_eq!((&*boxed, &*text), ("boxed", "text"));
    assert_eq!(ReconcileError::from(number("x").unwrap_err()).retry(), Retry::Backoff);
}

#[test]
fn a_cause_that_is_part_of_the_message_is_not_repeated() {
    let error = ReconcileError::new(Wrapper::Repeated(number("x").unwrap_err()));
    assert_eq!(error.to_string(), "wrapped: invalid digit found in string");
}

#[test]
fn co_033_a_wrapped_terminal_error_is_terminal() {
    let terminal = || TerminalError::new(number("x").unwrap_err());
    let wrapped: [ReconcileError; 6] = [
        terminal().into(),
        anyhow::Error::from(terminal()).into(),
        anyhow::Error::from(terminal()).context("first").context("second").into(),
        Wrapper::Transparent(terminal()).into(),
        Wrapper::Boxed(terminal().into()).into(),
        BoxError::from(Wrapper::Transparent(terminal())).into(),
    ];
    for error in &wrapped {
        assert!(error.is_terminal(), "{error:?}");
        assert!(error.to_string().ends_with("terminal error: invalid digit found in string"), "{error}");
    }
    assert_eq!(wrapped[2].to_string(), "second: first: terminal error: invalid digit found in string");
    assert!(!ReconcileError::new(number("x").unwrap_err()).is_terminal());
}

#[test]
fn co_033_a_wrapped_error_keeps_its_time() {
    let wait = Duration::from_secs(7);
    let after = || RetryAfterError::new(wait, "quota exceeded");
    for error in [ReconcileError::from(after()), anyhow::Error::from(after()).into(), anyhow::anyhow!(after()).into()] {
        assert_eq!(error.retry(), Retry::After(wait));
        assert_eq!(error.to_string(), "to be retried after 7s: quota exceeded");
    }
    let outermost = ReconcileError::new(TerminalError::new(after()));
    assert!(outermost.is_terminal(), "the outermost error decides");
    assert_eq!(ReconcileError::retry_after(wait, TerminalError::new("x")).retry(), Retry::After(wait));
}
