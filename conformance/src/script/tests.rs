use super::*;

#[test]
fn steps_are_parsed_and_comments_are_skipped() {
    let steps = parse("create other/a app=web finalizer=x/y # why\n\n wait h 2 resync a\n").unwrap();
    let labels = vec![("app".to_owned(), "web".to_owned())];
    let target = Target {
        namespace: "other".into(),
        name: "a".into(),
        finalizer: Some("x/y".into()),
        labels,
        ..Target::default()
    };
    let wait = Step::Wait { handler: "h".into(), times: 2, what: NotificationKind::Resync, name: "a".into() };
    assert_eq!(steps, [Step::Create(target), wait]);
}

#[test]
fn an_invalid_step_is_named() {
    assert_eq!(parse("start\nbegin").unwrap_err(), "not a step: \"begin\"");
    assert!(parse("start now").is_err());
    assert!(parse("wait h many add").is_err());
}
