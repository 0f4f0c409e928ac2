use std::sync::{Arc, Mutex};

use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::Deleted;

fn pod(name: &str, version: &str) -> Obj<Pod> {
    let info = Arc::new(ResourceInfo::of::<Pod>());
    let json = format!(r#"{{"metadata":{{"namespace":"ns","name":"{name}","resourceVersion":"{version}"}}}}"#);
    Obj::from_json(&info, json).unwrap()
}

/// Notifications of a handler, as text.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn handler(&self) -> impl Handler<Pod> + use<> {
        let notes = self.clone();
        move |event: Event<Pod>| notes.note(text(&event))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn text(event: &Event<Pod>) -> String {
    let name = event.key().name();
    match event {
        Event::Add { object, initial } => format!("add {name}@{} {initial}", object.resource_version()),
        Event::Update { old, new } => format!("update {name}@{}->{}", old.resource_version(), new.resource_version()),
        Event::Delete(deleted) => {
            let state = deleted.object().map_or("nothing", |object| object.resource_version());
            format!("delete {name}@{state} {}", deleted.is_final_state_unknown())
        }
    }
}

fn added(object: &Obj<Pod>, initial: bool) -> Event<Pod> {
    Event::Add { object: object.clone(), initial }
}

fn updated(old: &Obj<Pod>, new: &Obj<Pod>) -> Event<Pod> {
    Event::Update { old: old.clone(), new: new.clone() }
}

fn missed(object: Option<&Obj<Pod>>) -> Event<Pod> {
    let key = ObjectKey::namespaced("ns", "lost");
    Event::Delete(Deleted::Missed { key, last_known: object.cloned() })
}

#[test]
fn hnd_001_a_handler_receives_adds_updates_and_deletes() {
    let notes = Notes::default();
    let mut handler: Box<dyn Handler<Pod>> = Box::new(notes.handler());
    let (one, two) = (pod("a", "1"), pod("a", "2"));
    handler.handle(added(&one, true));
    handler.handle(updated(&one, &two));
    handler.handle(Event::Delete(Deleted::Observed(two)));
    handler.handle(missed(None));
    let expected = ["add a@1 true", "update a@1->2", "delete a@2 false", "delete lost@nothing true"];
    assert_eq!(notes.take(), expected);
}

#[test]
fn hnd_002_notifications_without_a_function_are_skipped() {
    let notes = Notes::default();
    let events = || {
        let (one, two) = (pod("a", "1"), pod("a", "2"));
        [added(&one, true), updated(&one, &two), Event::Delete(Deleted::Observed(two))]
    };
    let run = |mut handler: HandlerFuncs<Pod>| {
        events().into_iter().for_each(|event| handler.handle(event));
        notes.take()
    };
    let note = |prefix: &'static str| {
        let notes = notes.clone();
        move |text: String| notes.note(format!("{prefix} {text}"))
    };
    let add = note("added");
    let update = note("updated");
    let delete = note("deleted");
    assert_eq!(run(HandlerFuncs::new()), Vec::<String>::new());
    let only_adds = HandlerFuncs::new().on_add(move |object, initial| add(format!("{} {initial}", object.key())));
    assert_eq!(run(only_adds), ["added ns/a true"]);
    let rest = HandlerFuncs::new()
        .on_update(move |old, new| update(format!("{}->{}", old.resource_version(), new.resource_version())))
        .on_delete(move |deleted| delete(deleted.key().to_string()));
    assert_eq!(run(rest), ["updated 1->2", "deleted ns/a"]);
}

#[test]
fn hnd_003_an_update_that_crosses_a_filter_is_an_add_or_a_delete() {
    let notes = Notes::default();
    let looked = Notes::default();
    let eyes = looked.clone();
    let accepts = move |object: &Obj<Pod>| {
        eyes.note(object.resource_version().to_owned());
        object.resource_version().starts_with('1')
    };
    let mut handler = Filter::new(accepts, notes.handler());
    let (yes, also, no, nor) = (pod("a", "10"), pod("a", "11"), pod("a", "20"), pod("a", "21"));
    let mut deliver = |event| {
        handler.handle(event);
        notes.take()
    };
    assert_eq!(deliver(added(&yes, true)), ["add a@10 true"], "the flag stays");
    assert!(deliver(added(&no, true)).is_empty());
    looked.take();
    assert_eq!(deliver(updated(&yes, &also)), ["update a@10->11"]);
    assert_eq!(looked.take(), ["11", "10"], "the new state first");
    assert_eq!(deliver(updated(&no, &yes)), ["add a@10 false"]);
    assert_eq!(deliver(updated(&yes, &no)), ["delete a@10 false"], "the state that was accepted");
    assert!(deliver(updated(&no, &nor)).is_empty());
    assert_eq!(looked.take(), ["10", "20", "20", "10", "21", "20"]);
    assert_eq!(deliver(Event::Delete(Deleted::Observed(yes))), ["delete a@10 false"]);
    assert!(deliver(Event::Delete(Deleted::Observed(no))).is_empty());
}

#[test]
fn hnd_004_a_filter_only_sees_objects() {
    let notes = Notes::default();
    let mut handler = Filter::new(|object: &Obj<Pod>| object.resource_version() == "1", notes.handler());
    handler.handle(missed(Some(&pod("lost", "1"))));
    assert_eq!(notes.take(), ["delete lost@1 true"], "judged by the last known state, and still a tombstone");
    handler.handle(missed(Some(&pod("lost", "2"))));
    assert!(notes.take().is_empty());
    handler.handle(missed(None));
    assert_eq!(notes.take(), ["delete lost@nothing true"], "passed on unseen");
}

#[test]
fn hnd_005_a_deletion_is_one_of_three_cases() {
    let object = pod("lost", "1");
    let of = |event: Event<Pod>| match event {
        Event::Delete(deleted) => (deleted.object().is_some(), deleted.is_final_state_unknown()),
        _ => panic!("no deletion"),
    };
    assert_eq!(of(Event::Delete(Deleted::Observed(object.clone()))), (true, false));
    assert_eq!(of(missed(Some(&object))), (true, true));
    assert_eq!(of(missed(None)), (false, true));
}

#[test]
fn hnd_007_only_a_tombstone_has_an_unknown_final_state() {
    let watched = Deleted::from(pod("a", "7").cast());
    assert!(!watched.is_final_state_unknown(), "what a watch tells of is known");
    let stale = missed(Some(&pod("lost", "3")));
    assert_eq!(stale.key().as_str(), "ns/lost");
    assert_eq!(stale.object().map(|object| object.resource_version()), Some("3"));
    assert_eq!(missed(None).key().as_str(), "ns/lost", "the key is known even if nothing else is");
}

struct Unnamed;

impl Handler<Pod> for Unnamed {
    fn handle(&mut self, _: Event<Pod>) {}
}

#[test]
fn hnd_008_the_default_name_of_a_handler_is_a_plain_word() {
    let funcs = HandlerFuncs::<Pod>::new;
    assert_eq!(funcs().on_add(|_, _| {}).on_delete(|_| {}).name(), "on_add+on_delete");
    assert_eq!(funcs().on_update(|_, _| {}).name(), "on_update");
    assert_eq!(funcs().name(), "handler");
    assert_eq!(Unnamed.name(), "handler");
    let boxed: Box<dyn Handler<Pod>> = Box::new(Unnamed);
    assert_eq!(Handler::name(&boxed), "handler");
    let closure = |_: Event<Pod>| {};
    assert_eq!(Handler::name(&closure), "handler");
    assert_eq!(Handler::<Pod>::name(&Filter::new(|_: &Obj<Pod>| true, funcs().on_add(|_, _| {}))), "on_add");
}

#[test]
fn hnd_008_a_name_is_given_without_other_options_being_lost() {
    let named = Unnamed.with(HandlerOptions::new().delivery(Delivery::Latest)).named("keys");
    assert_eq!(Handler::<Pod>::name(&named), "keys");
    assert_eq!(Handler::<Pod>::options(&named).delivery, Delivery::Latest);
}
