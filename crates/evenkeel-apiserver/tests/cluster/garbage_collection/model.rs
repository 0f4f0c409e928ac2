//! The collector against a model that reads all objects until no rule applies.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::api::Api;

const OBJECTS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Policy {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug)]
enum Step {
    /// Creates an object with references to others, each with whether it blocks. A reference to an object that does not
    /// exist names the last one that did.
    Create {
        object: usize,
        owners: Vec<(usize, bool)>,
        held: bool,
    },
    Own {
        object: usize,
        owners: Vec<(usize, bool)>,
    },
    Delete {
        object: usize,
        policy: Policy,
    },
    Release {
        object: usize,
    },
}

fn owners() -> impl Strategy<Value = Vec<(usize, bool)>> {
    prop::collection::vec((0..OBJECTS, any::<bool>()), 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..OBJECTS;
    let policy = prop_oneof![Just(Policy::Background), Just(Policy::Foreground), Just(Policy::Orphan)];
    prop_oneof![
        4 => (object.clone(), owners(), prop::bool::weighted(0.3))
            .prop_map(|(object, owners, held)| Step::Create { object, owners, held }),
        2 => (object.clone(), owners()).prop_map(|(object, owners)| Step::Own { object, owners }),
        3 => (object.clone(), policy).prop_map(|(object, policy)| Step::Delete { object, policy }),
        2 => object.prop_map(|object| Step::Release { object }),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct ModelObject {
    uid: String,
    owners: BTreeMap<String, bool>,
    held: bool,
    deletion: Option<Policy>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

type Model = BTreeMap<usize, ModelObject>;

fn by_uid<'a>(model: &'a Model, uid: &str) -> Option<&'a ModelObject> {
    model.values().find(|object| object.uid == uid)
}

fn waits(object: &ModelObject) -> bool {
    object.deletion == Some(Policy::Foreground)
}

fn dependents(model: &Model, uid: &str) -> Vec<usize> {
    let is_dependent = |(_, object): &(&usize, &ModelObject)| object.owners.contains_key(uid);
    model.iter().filter(is_dependent).map(|(number, _)| *number).collect()
}

/// Returns whether waiting dependents lead from an object back to it.
fn is_in_cycle(model: &Model, uid: &str) -> bool {
    let mut open = vec![uid.to_owned()];
    let mut seen = Vec::new();
    while let Some(next) = open.pop() {
        for dependent in dependents(model, &next) {
            let found = &model[&dependent];
            if found.uid == uid && next != uid {
                return true;
            }
            if waits(found) && !seen.contains(&found.uid) {
                seen.push(found.uid.clone());
                open.push(found.uid.clone());
            }
        }
    }
    false
}

fn delete(model: &mut Model, number: usize, policy: Policy) {
    let Some(object) = model.get_mut(&number).filter(|object| object.deletion.is_none()) else { return };
    object.deletion = Some(policy);
    if policy == Policy::Background && !object.held {
        model.remove(&number);
    }
}

/// Applies one rule. Returns whether there was one to apply.
fn apply_rule(model: &mut Model) -> bool {
    for (number, object) in model.clone() {
        match object.deletion {
            Some(Policy::Background) => {}
            Some(policy) => {
                let dependents = dependents(model, &object.uid);
                if policy == Policy::Orphan && !dependents.is_empty() {
                    for dependent in dependents {
                        model.get_mut(&dependent).unwrap().owners.remove(&object.uid);
                    }
                    return true;
                }
                let blocks = |each: &usize| model[each].owners[&object.uid] && *each != number;
                let unblocked = !dependents.iter().any(blocks);
                if unblocked {
                    match object.held {
                        true => model.get_mut(&number).unwrap().deletion = Some(Policy::Background),
                        false => drop(model.remove(&number)),
                    }
                    return true;
                }
                let blocks_waiting = |(uid, blocks): (&String, &bool)| *blocks && by_uid(model, uid).is_some_and(waits);
                if object.owners.iter().any(blocks_waiting) && is_in_cycle(model, &object.uid) {
                    model.get_mut(&number).unwrap().owners.values_mut().for_each(|blocks| *blocks = false);
                    return true;
                }
            }
            None if object.owners.is_empty() => {}
            None => {
                let bad: Vec<&String> =
                    object.owners.keys().filter(|uid| by_uid(model, uid).is_none_or(waits)).collect();
                if bad.len() < object.owners.len() {
                    if !bad.is_empty() {
                        let owners = &mut model.get_mut(&number).unwrap().owners;
                        owners.retain(|uid, _| !bad.contains(&uid));
                        return true;
                    }
                } else {
                    let waiting = object.owners.keys().any(|uid| by_uid(model, uid).is_some_and(waits));
                    let foreground = waiting && !dependents(model, &object.uid).is_empty();
                    if foreground && is_in_cycle(model, &object.uid) {
                        model.get_mut(&number).unwrap().owners.values_mut().for_each(|blocks| *blocks = false);
                    }
                    delete(model, number, if foreground { Policy::Foreground } else { Policy::Background });
                    return true;
                }
            }
        }
    }
    false
}

fn settle(model: &mut Model) {
    let mut rules = 0;
    while apply_rule(model) {
        rules += 1;
        assert!(rules < 10_000, "the model does not settle: {model:?}");
    }
}

/// Reads the server into the form of the model.
async fn read(api: &Api) -> Model {
    let list = api.get(MAPS).await.expect(200);
    let mut model = Model::new();
    for item in list["items"].as_array().unwrap() {
        let Some(number) = item["metadata"]["name"].as_str().unwrap().strip_prefix('o') else { continue };
        let names = finalizers(item);
        let references = item["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owners = references.map(|reference| {
            let blocks = reference["blockOwnerDeletion"].as_bool().unwrap_or(false);
            (reference["uid"].as_str().unwrap().to_owned(), blocks)
        });
        model.insert(
            number.parse().unwrap(),
            ModelObject {
                uid: item["metadata"]["uid"].as_str().unwrap().to_owned(),
                owners: owners.collect(),
                held: names.contains(&"example.com/hold"),
                deletion: item["metadata"]["deletionTimestamp"].as_str().map(|_| match () {
                    () if names.contains(&"foregroundDeletion") => Policy::Foreground,
                    () if names.contains(&"orphan") => Policy::Orphan,
                    () => Policy::Background,
                }),
            },
        );
    }
    model
}

async fn run(steps: Vec<Step>) {
    let api = Api::start().await;
    let mut model = Model::new();
    let mut uids: BTreeMap<usize, String> = BTreeMap::new();
    for step in steps {
        let references = |owners: &[(usize, bool)]| {
            let known = owners.iter().filter_map(|(owner, blocks)| Some((*owner, uids.get(owner)?.clone(), *blocks)));
            let mut unique: BTreeMap<usize, (String, bool)> = BTreeMap::new();
            known.for_each(|(owner, uid, blocks)| drop(unique.insert(owner, (uid, blocks))));
            unique
        };
        let json_of = |references: &BTreeMap<usize, (String, bool)>| -> Vec<Value> {
            let one = |(owner, (uid, blocks)): (&usize, &(String, bool))| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{owner}"), "uid": uid,
                       "blockOwnerDeletion": blocks})
            };
            references.iter().map(one).collect()
        };
        match &step {
            Step::Create { object, owners, held } => {
                let references = references(owners);
                let mut body = map(&format!("o{object}"), &json_of(&references));
                if *held {
                    body = hold(body);
                }
                let response = api.post(MAPS, &body).await;
                assert_eq!(response.status == 201, !model.contains_key(object), "{step:?} {}", response.text);
                if response.status == 201 {
                    let uid = response.body["metadata"]["uid"].as_str().unwrap().to_owned();
                    uids.insert(*object, uid.clone());
                    let owners = references.into_values().collect();
                    model.insert(*object, ModelObject { uid, owners, held: *held, deletion: None });
                }
            }
            Step::Own { object, owners } => {
                let references = references(owners);
                let change = json!({"metadata": {"ownerReferences": json_of(&references)}});
                let response = api.patch(&format!("{MAPS}/o{object}"), &change).await;
                assert_eq!(response.status == 200, model.contains_key(object), "{step:?} {}", response.text);
                if let Some(object) = model.get_mut(object) {
                    object.owners = references.into_values().collect();
                }
            }
            Step::Delete { object, policy } => {
                let options = json!({"propagationPolicy": format!("{policy:?}")});
                let response = api.delete_with(&format!("{MAPS}/o{object}"), &options).await;
                assert_eq!(response.status == 200, model.contains_key(object), "{step:?} {}", response.text);
                delete(&mut model, *object, *policy);
            }
            Step::Release { object } => {
                let path = format!("{MAPS}/o{object}");
                let change = json!([{"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/hold"},
                                    {"op": "remove", "path": "/metadata/finalizers/0"}]);
                let json_patch = [("content-type", crate::api::JSON_PATCH)];
                let response = api.send("PATCH", &path, &json_patch, change.to_string()).await;
                if response.status == 200 {
                    let object_state = model.get_mut(object).unwrap();
                    object_state.held = false;
                    if object_state.deletion == Some(Policy::Background) {
                        model.remove(object);
                    }
                }
            }
        }
        settle(&mut model);
        let actual = read(&api).await;
        let mut stable = actual.clone();
        assert!(!apply_rule(&mut stable), "after {step:?} work is left in {actual:?}; expected {model:?}");
        // Which of two rules applies first may decide what an object that is held looks like meanwhile.
        let names = |model: &Model| model.keys().copied().collect::<Vec<_>>();
        if model.values().chain(actual.values()).all(|object| object.deletion.is_none()) {
            assert_eq!(names(&actual), names(&model), "after {step:?}");
        }
        model = actual;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn gc_2_gc_3_gc_4_the_collector_agrees_with_a_model(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
