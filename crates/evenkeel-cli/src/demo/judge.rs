//! Whether the world is as it should be, and if not, what is wrong with it, in words.
//!
//! The judge is told what the server has, and what was done. What the controller believes does not matter here.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Intent;

/// What the server has.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) foos: Vec<Foo>,
    pub(super) deployments: Vec<Deployment>,
    /// The names of Foos about which there is a warning that their Deployment is somebody else's.
    pub(super) warned: BTreeSet<String>,
}

/// What there is to know of a Foo.
#[derive(Clone, Debug, Default)]
pub(super) struct Foo {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) deployment: String,
    pub(super) replicas: i64,
    /// From the status; none if there is no status.
    pub(super) available: Option<i64>,
    /// The generation that the status is about.
    pub(super) observed: Option<i64>,
}

/// What there is to know of a Deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployment {
    pub(super) name: String,
    /// The name and the uid of the Foo that owns it.
    pub(super) owner: Option<(String, String)>,
    pub(super) replicas: i64,
    pub(super) available: i64,
    /// Somebody else made it, not the controller.
    pub(super) is_foreign: bool,
}

/// What is wrong, by the name of the Foo that it is about. Nothing is wrong if this is empty.
pub(super) type Gaps = BTreeMap<String, String>;

/// Compares the world with what was done. Foos that others have made are none of the judge's business.
pub(super) fn judge(intent: &Intent, world: &World) -> Gaps {
    let mut gaps = Gaps::new();
    let deployments: BTreeMap<&str, &Deployment> =
        world.deployments.iter().map(|deployment| (deployment.name.as_str(), deployment)).collect();
    let foos: BTreeMap<&str, &Foo> = world.foos.iter().map(|foo| (foo.name.as_str(), foo)).collect();

    for name in &intent.foos {
        let wrong = match foos.get(name.as_str()) {
            None => Some("it is not there, though it was created".to_owned()),
            Some(foo) => match deployments.get(foo.deployment.as_str()).copied() {
                Some(deployment) if deployment.is_foreign && intent.is_conflicting(name) => {
                    conflict(foo, deployment, &world.warned)
                }
                // If somebody has deleted what was in the way, the Foo has got what it asked for.
                deployment => mismatch(foo, deployment),
            },
        };
        gaps.extend(wrong.map(|wrong| (name.clone(), wrong)));
    }
    for name in intent.gone.iter().filter(|name| foos.contains_key(name.as_str())) {
        gaps.insert(name.clone(), "it is still there, though it was deleted".to_owned());
    }
    for deployment in &world.deployments {
        let Some((owner, uid)) = &deployment.owner else { continue };
        if !intent.foos.contains(owner) && !intent.gone.contains(owner) {
            continue;
        }
        let foo = foos.get(owner.as_str()).filter(|foo| foo.uid == *uid);
        let wrong = match foo {
            None => format!("its Deployment {} is left over", deployment.name),
            Some(foo) if foo.deployment != deployment.name => {
                format!("its old Deployment {} is still there", deployment.name)
            }
            Some(_) => continue,
        };
        gaps.entry(owner.clone()).or_insert(wrong);
    }
    gaps
}

/// What is wrong with a Foo and its Deployment, if anything is.
fn mismatch(foo: &Foo, deployment: Option<&Deployment>) -> Option<String> {
    let name = &foo.deployment;
    let Some(deployment) = deployment else { return Some(format!("its Deployment {name} is missing")) };
    match &deployment.owner {
        Some((_, uid)) if *uid == foo.uid => {}
        Some((owner, _)) => return Some(format!("its Deployment {name} belongs to {owner}, or to one that is gone")),
        None => return Some(format!("its Deployment {name} belongs to nobody")),
    }
    let (wanted, found) = (foo.replicas, deployment.replicas);
    if found != wanted {
        return Some(format!("its Deployment {name} is of size {found} instead of {wanted}"));
    }
    if deployment.available != wanted {
        return Some(format!("of its {wanted} replicas {} are available", deployment.available));
    }
    match foo.available {
        None => return Some("it has no status".to_owned()),
        Some(said) if said != wanted => return Some(format!("its status says {said} available instead of {wanted}")),
        Some(_) => {}
    }
    match foo.observed {
        Some(observed) if observed != foo.generation => {
            Some(format!("its status is about generation {observed} instead of {}", foo.generation))
        }
        _ => None,
    }
}

/// What is wrong with a Foo whose Deployment is somebody else's: that one must be left alone, and people must be told.
fn conflict(foo: &Foo, deployment: &Deployment, warned: &BTreeSet<String>) -> Option<String> {
    let name = &deployment.name;
    if deployment.owner.is_some() {
        return Some(format!("it took the Deployment {name} from somebody else"));
    }
    let is_told = warned.contains(&foo.name);
    (!is_told).then(|| format!("no event says that the Deployment {name} is somebody else's"))
}

/// The first few things that are wrong, in one line.
pub(super) fn in_words(gaps: &Gaps) -> String {
    const SHOWN: usize = 3;
    let mut words: Vec<String> = gaps.iter().take(SHOWN).map(|(foo, wrong)| format!("{foo}: {wrong}")).collect();
    if gaps.len() > SHOWN {
        words.push(format!("and {} more", gaps.len() - SHOWN));
    }
    words.join("; ")
}

#[cfg(test)]
mod tests;
