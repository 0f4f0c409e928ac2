//! What is going to be done to the world, and what the world should then be like. Nothing here does anything.

use std::collections::BTreeSet;

/// The namespace in which everything happens.
pub(super) const NAMESPACE: &str = "default";
/// The Deployment that somebody else had before a Foo asked for its name.
const TAKEN: &str = "taken";
/// The label of what belongs to somebody else.
pub(super) const FOREIGN: &str = "example.com/somebody-elses";
/// The Foo that asks for it.
const LATECOMER: &str = "latecomer";
/// The Foo that comes while nobody can watch.
const NEWCOMER: &str = "newcomer";
/// How many Foos are left for people to play with.
const TOYS: u32 = 3;

/// A part of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Foos come.
    Create,
    /// All of them are to have other sizes.
    Scale,
    /// Others meddle with Deployments.
    Break,
    /// They stop.
    Repair,
    /// Nobody hears what happens.
    Outage,
    /// Foos go.
    Delete,
    /// A few Foos come to stay.
    Stay,
}

impl Phase {
    /// What it is called.
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

    /// What it is about.
    pub(super) fn about(self) -> &'static str {
        match self {
            Phase::Create => "Foos come; each gets a Deployment",
            Phase::Scale => "every Foo is to have another size",
            Phase::Break => "others delete and scale Deployments",
            Phase::Repair => "a taken name is free, Foos ask for others",
            Phase::Outage => "watches break, things change unseen",
            Phase::Delete => "Foos go, and their Deployments with them",
            Phase::Stay => "a few Foos are left for kubectl",
        }
    }
}

/// One thing that somebody does.
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
    /// The Foo asks for a Deployment of another name.
    RenameDeployment {
        foo: String,
        deployment: String,
    },
    DeleteFoo {
        foo: String,
    },
    /// Somebody deletes the Deployment of this Foo.
    DeleteDeployment {
        foo: String,
        deployment: String,
    },
    /// Somebody scales the Deployment of this Foo.
    ScaleDeployment {
        foo: String,
        deployment: String,
        replicas: i32,
    },
    /// Somebody has a Deployment of their own.
    CreateStranger {
        deployment: String,
    },
    /// They need it no more.
    DeleteStranger {
        deployment: String,
    },
}

impl Write {
    /// The Foo that the controller has to do something about then.
    pub(super) fn subject(&self) -> &str {
        match self {
            Write::CreateFoo { foo, .. }
            | Write::ScaleFoo { foo, .. }
            | Write::RenameDeployment { foo, .. }
            | Write::DeleteFoo { foo }
            | Write::DeleteDeployment { foo, .. }
            | Write::ScaleDeployment { foo, .. } => foo,
            Write::CreateStranger { .. } | Write::DeleteStranger { .. } => LATECOMER,
        }
    }
}

/// A phase with what is done in it, in order.
#[derive(Clone, Debug)]
pub(super) struct Chapter {
    pub(super) phase: Phase,
    pub(super) writes: Vec<Write>,
}

/// The story of so many Foos; in the end a few are left over, if somebody wants to play with them.
pub(super) fn plan(objects: u32, is_to_stay: bool) -> Vec<Chapter> {
    let cast = Cast::new(objects);
    let mut chapters = vec![
        Chapter { phase: Phase::Create, writes: cast.each(|one| one.create(1 + one.index % 3)) },
        Chapter { phase: Phase::Scale, writes: cast.each(|one| one.scale(4 - one.index % 3)) },
        Chapter { phase: Phase::Break, writes: cast.breaking() },
        Chapter { phase: Phase::Repair, writes: cast.repairing() },
        Chapter { phase: Phase::Outage, writes: cast.in_the_dark() },
        Chapter { phase: Phase::Delete, writes: cast.leaving() },
    ];
    if is_to_stay {
        let writes = (0..objects.min(TOYS)).map(|index| cast.one(index).create(2)).collect();
        chapters.push(Chapter { phase: Phase::Stay, writes });
    }
    chapters
}

/// Who plays.
struct Cast {
    objects: u32,
    /// How many digits names have, so that they sort.
    digits: usize,
}

/// One Foo of the cast.
struct Member {
    index: u32,
    foo: String,
    deployment: String,
}

impl Cast {
    fn new(objects: u32) -> Self {
        Cast { objects, digits: objects.saturating_sub(1).to_string().len().max(2) }
    }

    fn one(&self, index: u32) -> Member {
        let digits = self.digits;
        Member { index, foo: format!("foo-{index:0digits$}"), deployment: format!("web-{index:0digits$}") }
    }

    fn each(&self, write: impl Fn(Member) -> Write) -> Vec<Write> {
        (0..self.objects).map(|index| write(self.one(index))).collect()
    }

    /// Every other Deployment goes, the others get a size that nobody asked for, and one name is somebody else's.
    fn breaking(&self) -> Vec<Write> {
        let mut writes = vec![
            Write::CreateStranger { deployment: TAKEN.to_owned() },
            Write::CreateFoo { foo: LATECOMER.to_owned(), deployment: TAKEN.to_owned(), replicas: 2 },
        ];
        writes.extend(self.each(|one| match one.index % 2 {
            0 => one.delete_deployment(),
            _ => Write::ScaleDeployment { foo: one.foo, deployment: one.deployment, replicas: 7 },
        }));
        writes
    }

    fn repairing(&self) -> Vec<Write> {
        let mut writes = vec![Write::DeleteStranger { deployment: TAKEN.to_owned() }];
        writes.extend((0..self.objects).step_by(4).map(|index| self.one(index).rename()));
        writes
    }

    /// Something of everything, and of every kind at once, so that every watch has news to break on.
    fn in_the_dark(&self) -> Vec<Write> {
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
        // The last one has gone in the dark, unless it is the only one.
        let left = if self.objects > 1 { self.objects - 1 } else { self.objects };
        let mut writes: Vec<Write> = (0..left).map(|index| Write::DeleteFoo { foo: self.one(index).foo }).collect();
        writes.extend([LATECOMER, NEWCOMER].map(|foo| Write::DeleteFoo { foo: foo.to_owned() }));
        writes
    }
}

impl Member {
    fn create(&self, replicas: u32) -> Write {
        Write::CreateFoo { foo: self.foo.clone(), deployment: self.deployment.clone(), replicas: size(replicas) }
    }

    fn scale(&self, replicas: u32) -> Write {
        Write::ScaleFoo { foo: self.foo.clone(), replicas: size(replicas) }
    }

    /// The same Foo, after [`rename`](Self::rename).
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

/// What the world should be like after everything that was done so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Intent {
    /// The Foos that there should be.
    pub(super) foos: BTreeSet<String>,
    /// Foos that there were, and that nobody should find.
    pub(super) gone: BTreeSet<String>,
    /// Foos that ask for what belongs to somebody else, and the Deployment that they ask for.
    pub(super) conflicting: Vec<(String, String)>,
    strangers: BTreeSet<String>,
}

impl Intent {
    /// This was done.
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
            Write::CreateStranger { deployment } => _ = self.strangers.insert(deployment.clone()),
            Write::DeleteStranger { deployment } => {
                self.strangers.remove(deployment);
                self.conflicting.retain(|(_, taken)| taken != deployment);
            }
            // What the Foo asks for is in the Foo.
            Write::ScaleFoo { .. }
            | Write::RenameDeployment { .. }
            | Write::DeleteDeployment { .. }
            | Write::ScaleDeployment { .. } => {}
        }
    }

    /// Whether this Foo asks for what belongs to somebody else.
    pub(super) fn is_conflicting(&self, foo: &str) -> bool {
        self.conflicting.iter().any(|(conflicting, _)| conflicting == foo)
    }
}

#[cfg(test)]
mod tests;
