use super::*;

fn content(value: &str, is_selected: bool) -> Content {
    Content { value: value.to_owned(), is_selected }
}

fn state(version: u64, value: &str, is_selected: bool) -> ObjectState {
    ObjectState { version, uid: "uid".to_owned(), content: content(value, is_selected) }
}

/// Sends a request and receives its response.
fn request(history: &History, request: Request, reply: Reply) {
    let number = history.sent("client", "a", request);
    history.received(number, reply);
}

fn create(history: &History, version: u64, value: &str, is_selected: bool) {
    request(history, Request::Create(content(value, is_selected)), Reply::Object(state(version, value, is_selected)));
}

fn update(history: &History, version: u64, value: &str, is_selected: bool) {
    let update = Request::Update { content: content(value, is_selected), expected: None };
    request(history, update, Reply::Object(state(version, value, is_selected)));
}

fn list(history: &History, version: u64, objects: &[(&str, ObjectState)]) -> usize {
    let sent = history.now();
    history.listed(ListRecord {
        client: "client".to_owned(),
        sent,
        received: history.now(),
        freshness: Freshness::Latest,
        selection: Selection::All,
        version,
        objects: objects.iter().map(|(key, state)| ((*key).to_owned(), state.clone())).collect(),
        last_key: None,
    })
}

fn watch(history: &History, selection: Selection, start: StreamStart, frames: Vec<StreamFrame>) -> usize {
    let stream = history.watches("client", selection, start);
    frames.into_iter().for_each(|frame| history.frame(stream, frame));
    stream
}

fn added(version: u64, value: &str) -> StreamFrame {
    StreamFrame::Added("a".to_owned(), state(version, value, true))
}

fn modified(version: u64, value: &str) -> StreamFrame {
    StreamFrame::Modified("a".to_owned(), state(version, value, true))
}

fn deleted(version: u64, value: &str, is_selected: bool) -> StreamFrame {
    StreamFrame::Deleted("a".to_owned(), state(version, value, is_selected))
}

fn bookmark(version: u64) -> StreamFrame {
    StreamFrame::Bookmark { version, ends_initial: false }
}

fn end_of_initial(version: u64) -> StreamFrame {
    StreamFrame::Bookmark { version, ends_initial: true }
}

#[track_caller]
fn finds(checked: Result<(), String>, words: &str) {
    let message = checked.unwrap_err();
    assert!(message.contains(words), "{message:?} is not about {words:?}");
}

/// A history of one object: created at 11, updated at 12 and 13, without the label from 13 on.
fn three_writes() -> History {
    let history = History::default();
    create(&history, 11, "one", true);
    update(&history, 12, "two", true);
    update(&history, 13, "three", false);
    history
}

#[test]
fn inv_12_a_sequence_of_requests_is_linearizable() {
    let history = three_writes();
    request(&history, Request::Get(Freshness::Latest), Reply::Object(state(13, "three", false)));
    request(&history, Request::Create(content("four", true)), Reply::AlreadyExists);
    let update = |expected| Request::Update { content: content("five", true), expected: Some(expected) };
    request(&history, update(12), Reply::Conflict);
    request(&history, Request::Delete { expected: Some(13) }, Reply::Deleted);
    request(&history, update(13), Reply::NotFound);
    request(&history, Request::Get(Freshness::Latest), Reply::NotFound);
    list(&history, 14, &[]);
    check_linearizable(&history.records()).unwrap();
    check_lists_linearizable(&history.records()).unwrap();
}

#[test]
fn inv_12_a_stale_read_is_found() {
    let history = three_writes();
    request(&history, Request::Get(Freshness::Latest), Reply::Object(state(12, "two", true)));
    finds(check_linearizable(&history.records()), "nothing explains");
}

#[test]
fn inv_12_a_stale_read_during_a_write_is_right() {
    let history = History::default();
    create(&history, 11, "one", true);
    let update = Request::Update { content: content("two", true), expected: None };
    let writing = history.sent("writer", "a", update);
    request(&history, Request::Get(Freshness::Latest), Reply::Object(state(11, "one", true)));
    request(&history, Request::Get(Freshness::Latest), Reply::Object(state(12, "two", true)));
    history.received(writing, Reply::Object(state(12, "two", true)));
    check_linearizable(&history.records()).unwrap();
    // Once one client has seen the write, all do.
    request(&history, Request::Get(Freshness::Latest), Reply::Object(state(11, "one", true)));
    finds(check_linearizable(&history.records()), "nothing explains");
}

#[test]
fn inv_12_a_lost_object_is_found() {
    let history = three_writes();
    request(&history, Request::Get(Freshness::Latest), Reply::NotFound);
    finds(check_linearizable(&history.records()), "nothing explains");
    let history = three_writes();
    create(&history, 14, "again", true);
    finds(check_linearizable(&history.records()), "nothing explains");
    let history = three_writes();
    list(&history, 13, &[]);
    finds(check_lists_linearizable(&history.records()), "nothing explains");
}

#[test]
fn inv_12_rules_of_conflicts_are_checked() {
    let update = |expected| Request::Update { content: content("x", true), expected };
    for (expected, reply) in [
        (Some(13), Reply::Conflict),
        (None, Reply::Conflict),
        (Some(12), Reply::Object(state(14, "x", true))),
        (Some(13), Reply::NotFound),
        (None, Reply::Unexpected(422)),
    ] {
        let history = three_writes();
        request(&history, update(expected), reply);
        finds(check_linearizable(&history.records()), "nothing explains");
    }
}

#[test]
fn inv_12_a_request_without_a_response_may_be_done_later_or_never() {
    let lost = || {
        let history = three_writes();
        request(&history, Request::Delete { expected: None }, Reply::Unknown);
        request(&history, Request::Get(Freshness::Latest), Reply::Object(state(13, "three", false)));
        history
    };
    check_linearizable(&lost().records()).unwrap();
    let history = lost();
    request(&history, Request::Get(Freshness::Latest), Reply::NotFound);
    check_linearizable(&history.records()).unwrap();
    // It is done once.
    create(&history, 20, "four", true);
    request(&history, Request::Get(Freshness::Latest), Reply::NotFound);
    finds(check_linearizable(&history.records()), "nothing explains");
}

#[test]
fn inv_12_versions_rise_with_time() {
    let history = three_writes();
    let number = history.sent("client", "b", Request::Create(content("other", true)));
    history.received(number, Reply::Object(state(10, "other", true)));
    finds(check_linearizable(&history.records()), "after version 13 was confirmed");
    let history = three_writes();
    list(&history, 12, &[("a", state(13, "three", false))]);
    finds(check_linearizable(&history.records()), "lists at version 12");
}

#[test]
fn inv_12_a_tolerant_read_may_be_stale_up_to_its_version() {
    let history = three_writes();
    request(&history, Request::Get(Freshness::Any), Reply::Object(state(11, "one", true)));
    request(&history, Request::Get(Freshness::NotOlderThan(12)), Reply::Object(state(12, "two", true)));
    check_linearizable(&history.records()).unwrap();
    request(&history, Request::Get(Freshness::NotOlderThan(13)), Reply::Object(state(12, "two", true)));
    finds(check_linearizable(&history.records()), "not older than 13");
}

#[test]
fn inv_13_a_watch_of_all_changes_is_right() {
    let history = three_writes();
    let first = list(&history, 11, &[("a", state(11, "one", true))]);
    let start = StreamStart::After(11, Some(Known::List(first)));
    let labelled = watch(&history, Selection::Labelled, start, vec![modified(12, "two"), bookmark(12)]);
    let resumed = StreamStart::After(12, Some(Known::Stream(labelled)));
    watch(&history, Selection::Labelled, resumed, vec![deleted(13, "two", true), bookmark(14)]);
    let frames = vec![added(11, "one"), end_of_initial(11), modified(12, "two"), bookmark(12)];
    watch(&history, Selection::All, StreamStart::Initial(Freshness::Any), frames);
    check_watches(&history.records()).unwrap();
}

#[test]
fn inv_13_a_gap_is_found() {
    let history = three_writes();
    watch(&history, Selection::All, StreamStart::After(11, None), vec![bookmark(12)]);
    finds(check_watches(&history.records()), "without 12");
    // In a resumed watch, an object that leaves the selection must be deleted.
    let history = three_writes();
    let first = watch(&history, Selection::Labelled, StreamStart::After(11, None), vec![modified(12, "two")]);
    let resumed = StreamStart::After(12, Some(Known::Stream(first)));
    watch(&history, Selection::Labelled, resumed, vec![bookmark(13)]);
    finds(check_watches(&history.records()), "without 13");
}

#[test]
fn inv_13_events_out_of_order_and_twice_are_found() {
    for frames in [
        vec![modified(12, "two"), added(11, "one")],
        vec![modified(12, "two"), modified(12, "two")],
        vec![bookmark(12), modified(12, "two")],
        vec![bookmark(13), bookmark(12)],
    ] {
        let history = three_writes();
        watch(&history, Selection::Labelled, StreamStart::After(10, None), frames);
        check_watches(&history.records()).unwrap_err();
    }
}

#[test]
fn inv_13_an_object_that_leaves_a_selection_is_deleted_in_its_last_state() {
    let history = three_writes();
    watch(&history, Selection::Labelled, StreamStart::After(12, None), vec![deleted(13, "three", false)]);
    finds(check_watches(&history.records()), "which was not selected");
    let history = three_writes();
    let frames = vec![modified(12, "two"), deleted(13, "one", true)];
    watch(&history, Selection::Labelled, StreamStart::After(11, None), frames);
    finds(check_watches(&history.records()), "its last state was version 12");
}

#[test]
fn inv_13_the_type_of_an_event_is_that_of_the_change() {
    let history = three_writes();
    let empty = list(&history, 10, &[]);
    let start = StreamStart::After(10, Some(Known::List(empty)));
    watch(&history, Selection::All, start.clone(), vec![modified(11, "one")]);
    finds(check_watches(&history.records()), "was not there");
    let history = three_writes();
    list(&history, 10, &[]);
    watch(&history, Selection::All, start, vec![added(11, "one"), added(12, "two")]);
    finds(check_watches(&history.records()), "was there at version 11");
}

#[test]
fn inv_13_initial_objects_precede_the_bookmark_at_their_end() {
    let history = three_writes();
    let start = || StreamStart::Initial(Freshness::Latest);
    watch(&history, Selection::Labelled, start(), vec![end_of_initial(12), added(12, "two")]);
    finds(check_watches(&history.records()), "at version 12 it misses a");
    let history = History::default();
    watch(&history, Selection::All, start(), vec![end_of_initial(12), end_of_initial(12)]);
    finds(check_watches(&history.records()), "end again");
    let history = three_writes();
    watch(&history, Selection::All, start(), vec![added(11, "one"), end_of_initial(12)]);
    finds(check_watches(&history.records()), "but 12 is version 12");
}

#[test]
fn inv_13_a_list_that_misses_an_object_is_found() {
    let history = three_writes();
    let frames = vec![added(11, "one"), modified(12, "two"), bookmark(12)];
    watch(&history, Selection::All, StreamStart::After(10, None), frames);
    list(&history, 12, &[]);
    finds(check_watches(&history.records()), "misses a");
}

#[test]
fn inv_13_two_changes_of_one_revision_and_unwritten_objects_are_found() {
    let history = three_writes();
    watch(&history, Selection::All, StreamStart::After(11, None), vec![modified(12, "one")]);
    finds(check_watches(&history.records()), "revision 12 is both");
    let history = three_writes();
    watch(&history, Selection::All, StreamStart::After(13, None), vec![modified(14, "nine")]);
    finds(check_watches(&history.records()), "which nothing has written");
}
