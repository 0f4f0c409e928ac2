//! The plan: the writes of each phase and the expected state after them. Pure.

use std::collections::BTreeSet;

/// The namespace of the demo.
pub(super) const NAMESPACE: &str = "default";
/// A Deployment of another owner that exists before a Foo requests its name.
const TAKEN: &str = "taken";
/// Label of objects that have another owner.
pub(super) const FOREIGN: &str = "example.com/foreign";
/// The Foo that requests the taken name.
const CONFLICTING: &str = "latecomer";
/// The Foo that is created during the outage.
const NEWCOMER: &str = "newcomer";
/// Number of Foos that are kept with `--stay`.
const KEPT: u32 = 3;

/// A phase of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Creates Foos.
    Create,
    /// Scales all of them.
    Scale,
    /// Another client changes Deployments.
    Break,
    /// Resolves the conflicts.
    Repair,
    /// Changes objects while all watches are closed.
    Outage,
    /// Deletes Foos.
    Delete,
    /// Creates a few Foos to keep.
    Stay,
}

impl Phase {
    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Scale => "scale",
            Phase::Break => "break",
            Phase::Repair => "repair",
            Phase::Outage => "outage",
            Phase::Delete => "delete",
            Phase::Stay => "stay",
        }
    }

    /// Returns a description.
    pub(super) fn about(self) -> &'static str {
        match self {
            Phase::Create => "create Foos; each gets a Deployment",
            Phase::Scale => "change the replicas of every Foo",
            Phase::Break => "delete and scale Deployments directly",
            Phase::Repair => "free a taken name, rename Deployments",
            Phase::Outage => "close watches, change objects meanwhile",
            Phase::Delete => "delete Foos and their Deployments",
            Phase::Stay => "keep a few Foos for kubectl",
        }
    }
}

/// A write of the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    CreateFoo {
        foo: String,
        deployment: String,
        replicas: i32,
    },
    ScaleFoo {
        foo: String,
        replicas: i32,
    },
    /// Changes the Deployment name of a Foo.
    RenameDeployment {
        foo: String,
        deployment: String,
    },
    DeleteFoo {
        foo: String,
    },
    /// Another client deletes the Deployment of this Foo.
    DeleteDeployment {
        foo: String,
        deployment: String,
    },
    /// Another client scales the Deployment of this Foo.
    ScaleDeployment {
        foo: String,
        deployment: String,
        replicas: i32,
    },
    /// Another client creates a Deployment of its own.
    CreateForeign {
        deployment: String,
    },
    /// Another client deletes it.
    DeleteForeign {
        deployment: String,
    },
}

impl Write {
    /// Returns the Foo that must be reconciled afterwards.
    pub(super) fn subject(&self) -> &str {
        match self {
            Write::CreateFoo { foo, .. }
            | Write::ScaleFoo { foo, .. }
            | Write::RenameDeployment { foo, .. }
            | Write::DeleteFoo { foo }
            | Write::DeleteDeployment { foo, .. }
            | Write::ScaleDeployment { foo, .. } => foo,
            Write::CreateForeign { .. } | Write::DeleteForeign { .. } => CONFLICTING,
        }
    }
}

/// A phase and its writes, in order.
#[derive(Clone, Debug)]
pub(super) struct PhasePlan {
    pub(super) phase: Phase,
    pub(super) writes: Vec<Write>,
}

/// Returns the plan for this number of Foos, with a final phase that keeps a few if `is_to_stay`.
pub(super) fn plan(objects: u32, is_to_stay: bool) -> Vec<PhasePlan> {
    let cast = PlannedFoos::new(objects);
    let mut phases = vec![
        PhasePlan { phase: Phase::Create, writes: cast.each(|one| one.create(1 + one.index % 3)) },
        PhasePlan { phase: Phase::Scale, writes: cast.each(|one| one.scale(4 - one.index % 3)) },
        PhasePlan { phase: Phase::Break, writes: cast.breaking() },
        PhasePlan { phase: Phase::Repair, writes: cast.repairing() },
        PhasePlan { phase: Phase::Outage, writes: cast.during_outage() },
        PhasePlan { phase: Phase::Delete, writes: cast.leaving() },
    ];
    if is_to_stay {
        let writes = (0..objects.min(KEPT)).map(|index| cast.one(index).create(2)).collect();
        phases.push(PhasePlan { phase: Phase::Stay, writes });
    }
    phases
}

/// The Foos of the plan.
struct PlannedFoos {
    objects: u32,
    /// Number of digits in names, so that they sort.
    digits: usize,
}

/// One Foo of the plan.
struct PlannedFoo {
    index: u32,
    foo: String,
    deployment: String,
}

impl PlannedFoos {
    fn new(objects: u32) -> Self {
        PlannedFoos { objects, digits: objects.saturating_sub(1).to_string().len().max(2) }
    }

    fn one(&self, index: u32) -> PlannedFoo {
        let digits = self.digits;
        PlannedFoo { index, foo: format!("foo-{index:0digits$}"), deployment: format!("web-{index:0digits$}") }
    }

    fn each(&self, write: impl Fn(PlannedFoo) -> Write) -> Vec<Write> {
        (0..self.objects).map(|index| write(self.one(index))).collect()
    }

    /// Deletes every other Deployment, scales the others, and takes one name.
    fn breaking(&self) -> Vec<Write> {
        let mut writes = vec![
            Write::CreateForeign { deployment: TAKEN.to_owned() },
            Write::CreateFoo { foo: CONFLICTING.to_owned(), deployment: TAKEN.to_owned(), replicas: 2 },
        ];
        writes.extend(self.each(|one| match one.index % 2 {
            0 => one.delete_deployment(),
            _ => Write::ScaleDeployment { foo: one.foo, deployment: one.deployment, replicas: 7 },
        }));
        writes
    }

    fn repairing(&self) -> Vec<Write> {
        let mut writes = vec![Write::DeleteForeign { deployment: TAKEN.to_owned() }];
        writes.extend((0..self.objects).step_by(4).map(|index| self.one(index).rename()));
        writes
    }

    /// Writes of every sort and to both kinds, so that every watch has an event to fail on.
    fn during_outage(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for index in 0..self.objects {
            writes.push(self.one(index).scale(1 + index % 3));
            if index % 4 == 0 {
                writes.push(self.one(index).renamed().delete_deployment());
            }
        }
        if self.objects > 1 {
            writes.push(Write::DeleteFoo { foo: self.one(self.objects - 1).foo });
        }
        writes.push(Write::CreateFoo { foo: NEWCOMER.to_owned(), deployment: NEWCOMER.to_owned(), replicas: 2 });
        writes
    }

    fn leaving(&self) -> Vec<Write> {
        // The last one was deleted during the outage, unless it is the only one.
        let left = if self.objects > 1 { self.objects - 1 } else { self.objects };
        let mut writes: Vec<Write> = (0..left).map(|index| Write::DeleteFoo { foo: self.one(index).foo }).collect();
        writes.extend([CONFLICTING, NEWCOMER].map(|foo| Write::DeleteFoo { foo: foo.to_owned() }));
        writes
    }
}

impl PlannedFoo {
    fn create(&self, replicas: u32) -> Write {
        Write::CreateFoo { foo: self.foo.clone(), deployment: self.deployment.clone(), replicas: size(replicas) }
    }

    fn scale(&self, replicas: u32) -> Write {
        Write::ScaleFoo { foo: self.foo.clone(), replicas: size(replicas) }
    }

    /// The same Foo after [`rename`](Self::rename).
    fn renamed(mut self) -> Self {
        self.deployment.push_str("-b");
        self
    }

    fn rename(self) -> Write {
        let one = self.renamed();
        Write::RenameDeployment { foo: one.foo, deployment: one.deployment }
    }

    fn delete_deployment(self) -> Write {
        Write::DeleteDeployment { foo: self.foo, deployment: self.deployment }
    }
}

fn size(replicas: u32) -> i32 {
    i32::try_from(replicas).unwrap_or(i32::MAX)
}

/// The expected state after all writes so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Intent {
    /// Foos that exist.
    pub(super) foos: BTreeSet<String>,
    /// Foos that were deleted.
    pub(super) gone: BTreeSet<String>,
    /// Foos that request a Deployment of another owner, with its name.
    pub(super) conflicting: Vec<(String, String)>,
    strangers: BTreeSet<String>,
}

impl Intent {
    /// Applies a write.
    pub(super) fn apply(&mut self, write: &Write) {
        match write {
            Write::CreateFoo { foo, deployment, .. } => {
                self.gone.remove(foo);
                self.foos.insert(foo.clone());
                if self.strangers.contains(deployment) {
                    self.conflicting.push((foo.clone(), deployment.clone()));
                }
            }
            Write::DeleteFoo { foo } => {
                self.foos.remove(foo);
                self.gone.insert(foo.clone());
                self.conflicting.retain(|(conflicting, _)| conflicting != foo);
            }
            Write::CreateForeign { deployment } => _ = self.strangers.insert(deployment.clone()),
            Write::DeleteForeign { deployment } => {
                self.strangers.remove(deployment);
                self.conflicting.retain(|(_, taken)| taken != deployment);
            }
            // Expected values are read from the Foo itself.
            Write::ScaleFoo { .. }
            | Write::RenameDeployment { .. }
            | Write::DeleteDeployment { .. }
            | Write::ScaleDeployment { .. } => {}
        }
    }

    /// Whether this Foo requests a Deployment of another owner.
    pub(super) fn is_conflicting(&self, foo: &str) -> bool {
        self.conflicting.iter().any(|(conflicting, _)| conflicting == foo)
    }
}

#[cfg(test)]
mod tests;
