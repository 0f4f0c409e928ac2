//! Compares the state of the server with the writes of the demo and describes the mismatches.
//!
//! Only the server's state counts, not that of the controller's caches.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Intent;

/// State of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerState {
    pub(super) foos: Vec<Foo>,
    pub(super) deployments: Vec<Deployment>,
    /// Names of Foos with a warning event that their Deployment is not controlled by them.
    pub(super) warned: BTreeSet<String>,
}

/// State of a Foo.
#[derive(Clone, Debug, Default)]
pub(super) struct Foo {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) deployment: String,
    pub(super) replicas: i64,
    /// From the status; none without a status.
    pub(super) available: Option<i64>,
    /// Observed generation of the status.
    pub(super) observed: Option<i64>,
}

/// State of a Deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployment {
    pub(super) name: String,
    /// Name and UID of the owning Foo.
    pub(super) owner: Option<(String, String)>,
    pub(super) replicas: i64,
    pub(super) available: i64,
    /// Created by another client, not by the controller.
    pub(super) is_foreign: bool,
}

/// Mismatches by the name of the Foo. Empty if the state is as expected.
pub(super) type Mismatches = BTreeMap<String, String>;

/// Compares the state with the writes. Foos of other clients are ignored.
pub(super) fn verify(intent: &Intent, state: &ServerState) -> Mismatches {
    let mut mismatches = Mismatches::new();
    let deployments: BTreeMap<&str, &Deployment> =
        state.deployments.iter().map(|deployment| (deployment.name.as_str(), deployment)).collect();
    let foos: BTreeMap<&str, &Foo> = state.foos.iter().map(|foo| (foo.name.as_str(), foo)).collect();

    for name in &intent.foos {
        let wrong = match foos.get(name.as_str()) {
            None => Some("missing, although it was created".to_owned()),
            Some(foo) => match deployments.get(foo.deployment.as_str()).copied() {
                Some(deployment) if deployment.is_foreign && intent.is_conflicting(name) => {
                    conflict(foo, deployment, &state.warned)
                }
                // If another client deleted the conflicting Deployment, the Foo has its own.
                deployment => mismatch(foo, deployment),
            },
        };
        mismatches.extend(wrong.map(|wrong| (name.clone(), wrong)));
    }
    for name in intent.gone.iter().filter(|name| foos.contains_key(name.as_str())) {
        mismatches.insert(name.clone(), "present, although it was deleted".to_owned());
    }
    for deployment in &state.deployments {
        let Some((owner, uid)) = &deployment.owner else { continue };
        if !intent.foos.contains(owner) && !intent.gone.contains(owner) {
            continue;
        }
        let foo = foos.get(owner.as_str()).filter(|foo| foo.uid == *uid);
        let wrong = match foo {
            None => format!("its Deployment {} is orphaned", deployment.name),
            Some(foo) if foo.deployment != deployment.name => {
                format!("its old Deployment {} still exists", deployment.name)
            }
            Some(_) => continue,
        };
        mismatches.entry(owner.clone()).or_insert(wrong);
    }
    mismatches
}

/// Returns the mismatch of a Foo and its Deployment, if any.
fn mismatch(foo: &Foo, deployment: Option<&Deployment>) -> Option<String> {
    let name = &foo.deployment;
    let Some(deployment) = deployment else { return Some(format!("its Deployment {name} is missing")) };
    match &deployment.owner {
        Some((_, uid)) if *uid == foo.uid => {}
        Some((owner, _)) => return Some(format!("its Deployment {name} is owned by {owner}, or by a deleted one")),
        None => return Some(format!("its Deployment {name} has no owner")),
    }
    let (wanted, found) = (foo.replicas, deployment.replicas);
    if found != wanted {
        return Some(format!("its Deployment {name} has {found} replicas instead of {wanted}"));
    }
    if deployment.available != wanted {
        return Some(format!("{} of its {wanted} replicas are available", deployment.available));
    }
    match foo.available {
        None => return Some("it has no status".to_owned()),
        Some(printed) if printed != wanted => {
            return Some(format!("its status reports {printed} available instead of {wanted}"));
        }
        Some(_) => {}
    }
    match foo.observed {
        Some(observed) if observed != foo.generation => {
            Some(format!("its status observed generation {observed} instead of {}", foo.generation))
        }
        _ => None,
    }
}

/// Returns the mismatch of a Foo whose Deployment has another owner: it must stay unchanged, with a warning event.
fn conflict(foo: &Foo, deployment: &Deployment, warned: &BTreeSet<String>) -> Option<String> {
    let name = &deployment.name;
    if deployment.owner.is_some() {
        return Some(format!("it took over the Deployment {name} of another owner"));
    }
    let is_told = warned.contains(&foo.name);
    (!is_told).then(|| format!("no event warns that the Deployment {name} has another owner"))
}

/// Formats the first few mismatches in one line.
pub(super) fn summarize(mismatches: &Mismatches) -> String {
    const SHOWN: usize = 3;
    let mut words: Vec<String> = mismatches.iter().take(SHOWN).map(|(foo, wrong)| format!("{foo}: {wrong}")).collect();
    if mismatches.len() > SHOWN {
        words.push(format!("and {} more", mismatches.len() - SHOWN));
    }
    words.join("; ")
}

#[cfg(test)]
mod tests;
