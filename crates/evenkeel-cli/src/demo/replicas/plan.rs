//! The phases of the demo of replicas, and the names of its objects.

/// Numbers of replicas that the demo runs at most.
pub(super) const REPLICAS: std::ops::RangeInclusive<usize> = 2..=8;
/// Number of replicas that the demo starts with.
const FIRST: usize = 2;
/// Number of Foos without an argument.
pub(super) const OBJECTS: u32 = 96;
/// Number of Foos per namespace, until there are as many namespaces as names.
const PER_NAMESPACE: usize = 3;

/// What happens to the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first replicas start a ring.
    Start(usize),
    /// More replicas join at once.
    Join(usize),
    /// The tasks of a replica are dropped.
    Crash,
    /// A replica is stopped.
    Leave,
    /// Each of the replicas is replaced by one of the next build, one after the other.
    Replace(usize),
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Start(_) => "start",
            Phase::Join(_) => "join",
            Phase::Crash => "crash",
            Phase::Leave => "leave",
            Phase::Replace(_) => "replace",
        }
    }

    pub(super) fn about(self) -> String {
        match self {
            Phase::Start(replicas) => format!("{} start a ring", count(replicas)),
            Phase::Join(replicas) => format!("{} join", count(replicas)),
            Phase::Crash => "one replica crashes: its tasks are dropped".to_owned(),
            Phase::Leave => "one replica leaves in order".to_owned(),
            Phase::Replace(replicas) => format!("{} replaced, one at a time", count(replicas)),
        }
    }

    /// Returns whether the owners of slices give them away themselves.
    pub(super) fn is_planned_move(self) -> bool {
        matches!(self, Phase::Join(_) | Phase::Leave | Phase::Replace(_))
    }
}

fn count(replicas: usize) -> String {
    if replicas == 1 { "1 replica".to_owned() } else { format!("{replicas} replicas") }
}

/// Returns the phases with at most this number of replicas. One replica at least is there all the time.
pub(super) fn plan(replicas: usize) -> Vec<Phase> {
    let more = replicas.saturating_sub(FIRST);
    let mut phases = vec![Phase::Start(FIRST)];
    phases.extend((more > 0).then_some(Phase::Join(more)));
    phases.push(Phase::Crash);
    // After the crash of one of two, another one joins, so that one can leave.
    phases.extend((more == 0).then_some(Phase::Join(1)));
    phases.push(Phase::Leave);
    let left = if more == 0 { 1 } else { replicas - 2 };
    phases.push(Phase::Replace(left));
    phases
}

/// First words of the names of namespaces. The hash of a namespace spreads well if the names differ early.
const COLOURS: [&str; 8] = ["amber", "black", "coral", "dusty", "ebony", "green", "ivory", "lilac"];
const ANIMALS: [&str; 6] = ["badger", "crane", "heron", "lynx", "otter", "raven"];

/// Returns the names of the namespaces for this number of Foos.
pub(super) fn namespaces(objects: u32) -> Vec<String> {
    let count = (objects as usize).div_ceil(PER_NAMESPACE);
    let names = ANIMALS.iter().flat_map(|animal| COLOURS.iter().map(move |colour| format!("{colour}-{animal}")));
    names.take(count.max(1)).collect()
}

/// Returns the namespace and the name of each Foo.
pub(super) fn objects(objects: u32) -> Vec<(String, String)> {
    let namespaces = namespaces(objects);
    let all = namespaces.iter().cycle().take(objects as usize).enumerate();
    all.map(|(number, namespace)| (namespace.clone(), format!("foo-{number}"))).collect()
}

#[cfg(test)]
mod tests;
