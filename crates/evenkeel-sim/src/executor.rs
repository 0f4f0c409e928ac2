//! [`Executor`]: which task of which process runs next.
//!
//! Tasks are tokio's, on a runtime with one thread and a paused clock. A task that is woken reports here and waits for its turn
//! ([`evenkeel_base::task`]). When all woken tasks have reported, one is chosen, runs until it waits, and so on. When none is
//! left, tokio advances the clock to the next timer.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use evenkeel_base::task::{TaskId, TaskScheduler, Turn, scheduled};
use tokio::time::Instant;

use crate::decisions::{Decisions, Stream, mix};

/// The number of a process of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessId(pub(crate) u32);

impl ProcessId {
    /// The process of the harness: the workload and what observes the others. It neither crashes nor pauses.
    pub(crate) const HARNESS: ProcessId = ProcessId(0);
}

/// One life of a process: from a start to a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Incarnation {
    pub(crate) process: ProcessId,
    pub(crate) number: u32,
}

/// How the next task is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulePolicy {
    /// The task that has been ready for longest.
    Fifo,
    /// Any ready task.
    Random,
    /// The ready task with the highest random priority; at a few random steps the running task gets the lowest one (PCT).
    Priorities {
        /// The steps at which a priority changes: one in this many.
        change_every: u32,
    },
    /// Any ready task, but those of one process only if there is no other.
    Starve(ProcessId),
}

#[derive(Debug)]
struct TaskState {
    incarnation: Incarnation,
    priority: u64,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct ProcessState {
    /// The current life, if the process runs.
    alive: Option<u32>,
    lives: u32,
    is_paused: bool,
    /// When the last pause ended.
    continued: Option<Duration>,
    /// Offset of its clock from the virtual time of day, in milliseconds.
    clock_offset: i64,
}

/// Chooses tasks, and knows the processes. One per run.
#[derive(Debug)]
pub(crate) struct Executor {
    start: Instant,
    decisions: Arc<Mutex<Decisions>>,
    state: Mutex<ExecutorState>,
}

#[derive(Debug)]
struct ExecutorState {
    policy: SchedulePolicy,
    next_task: u64,
    tasks: BTreeMap<TaskId, TaskState>,
    processes: BTreeMap<ProcessId, ProcessState>,
    /// By the step in which they became ready, then by number: the order in which one step wakes several tasks may be random, as that
    /// of the receivers of a `watch` channel is.
    ready: BTreeSet<(u64, TaskId)>,
    chosen: Option<TaskId>,
    /// The process of the task that runs.
    current: Incarnation,
    /// Wakes [`Executor::dispatch`].
    dispatcher: Option<Waker>,
    steps: u64,
}

/// The time of day at which every run starts: 2030-01-01T00:00:00Z.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_893_456_000);

const HARNESS: Incarnation = Incarnation { process: ProcessId::HARNESS, number: 1 };

impl Executor {
    pub(crate) fn new(decisions: Arc<Mutex<Decisions>>) -> Self {
        let harness = ProcessState { alive: Some(1), lives: 1, ..ProcessState::default() };
        let state = ExecutorState {
            policy: SchedulePolicy::Fifo,
            next_task: 0,
            tasks: BTreeMap::new(),
            processes: BTreeMap::from([(ProcessId::HARNESS, harness)]),
            ready: BTreeSet::new(),
            chosen: None,
            current: HARNESS,
            dispatcher: None,
            steps: 0,
        };
        Executor { start: Instant::now(), decisions, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, ExecutorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_policy(&self, policy: SchedulePolicy) {
        self.lock().policy = policy;
    }

    /// Returns the virtual time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns how many times a task has run.
    pub(crate) fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Returns the number of tasks of a process that have not ended.
    pub(crate) fn task_count(&self, process: ProcessId) -> usize {
        self.lock().tasks.values().filter(|task| task.incarnation.process == process).count()
    }

    /// Returns whether a life goes on and is scheduled. After a pause it is only when its tasks had a chance to notice the time.
    pub(crate) fn is_running(&self, incarnation: Incarnation) -> bool {
        let now = self.now();
        let state = self.lock();
        let is_held = |process: &ProcessState| process.is_paused || process.continued == Some(now);
        state.is_alive(incarnation) && !state.processes.get(&incarnation.process).is_some_and(is_held)
    }

    /// Returns the process whose task runs.
    pub(crate) fn current(&self) -> Incarnation {
        self.lock().current
    }

    /// Returns the current life of a process, if it runs.
    pub(crate) fn life(&self, process: ProcessId) -> Option<Incarnation> {
        let number = self.lock().processes.get(&process)?.alive?;
        Some(Incarnation { process, number })
    }

    /// Starts a new life of a process with this future as its main task.
    pub(crate) fn start<F>(&self, process: ProcessId, main: impl FnOnce(Incarnation) -> F) -> Incarnation
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (incarnation, before) = {
            let mut state = self.lock();
            let started = state.processes.entry(process).or_default();
            started.lives += 1;
            started.alive = Some(started.lives);
            started.is_paused = false;
            let incarnation = Incarnation { process, number: started.lives };
            (incarnation, std::mem::replace(&mut state.current, incarnation))
        };
        drop(tokio::spawn(scheduled(main(incarnation))));
        self.lock().current = before;
        incarnation
    }

    /// Ends the current life of a process: its tasks are dropped.
    pub(crate) fn crash(&self, process: ProcessId) {
        let wakers: Vec<Waker> = {
            let mut state = self.lock();
            if let Some(crashed) = state.processes.get_mut(&process) {
                crashed.alive = None;
            }
            let tasks = state.tasks.values().filter(|task| task.incarnation.process == process);
            tasks.filter_map(|task| task.waker.clone()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Stops or continues to schedule the tasks of a process. Its clock goes on.
    pub(crate) fn set_paused(&self, process: ProcessId, paused: bool) {
        let now = self.now();
        let mut state = self.lock();
        if let Some(process) = state.processes.get_mut(&process) {
            if process.is_paused && !paused {
                process.continued = Some(now);
            }
            process.is_paused = paused;
        }
        state.wake_dispatcher();
    }

    /// Moves the time of day of a process.
    pub(crate) fn jump_clock(&self, process: ProcessId, milliseconds: i64) {
        if let Some(process) = self.lock().processes.get_mut(&process) {
            process.clock_offset = process.clock_offset.saturating_add(milliseconds);
        }
    }

    /// Lets tasks run, one after the other, until `done` returns true.
    pub(crate) async fn dispatch(&self, done: impl Fn() -> bool) {
        let mut has_collected = false;
        poll_fn(|cx| {
            if done() {
                return Poll::Ready(());
            }
            let mut state = self.lock();
            state.dispatcher = Some(cx.waker().clone());
            if state.chosen.is_some() || !state.ready.iter().any(|(_, task)| state.is_candidate(*task)) {
                return Poll::Pending;
            }
            if !std::mem::replace(&mut has_collected, true) {
                // Once more, after all tasks that are awake have reported.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            has_collected = false;
            let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(task) = state.choose(&mut decisions) {
                state.chosen = Some(task);
                let waker = state.tasks.get(&task).and_then(|task| task.waker.clone());
                waker.into_iter().for_each(Waker::wake);
            }
            Poll::Pending
        })
        .await;
    }
}

impl ExecutorState {
    fn is_alive(&self, incarnation: Incarnation) -> bool {
        self.processes.get(&incarnation.process).is_some_and(|process| process.alive == Some(incarnation.number))
    }

    fn is_candidate(&self, task: TaskId) -> bool {
        let process = self.tasks.get(&task).and_then(|task| self.processes.get(&task.incarnation.process));
        process.is_some_and(|process| !process.is_paused)
    }

    fn choose(&mut self, decisions: &mut Decisions) -> Option<TaskId> {
        let candidates: Vec<TaskId> =
            self.ready.iter().map(|(_, task)| *task).filter(|task| self.is_candidate(*task)).collect();
        let bound = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
        let index = match bound {
            0 => return None,
            1 => 0,
            _ => decisions.choose(Stream::Task, bound, |random| self.draw(&candidates, random)),
        };
        let task = candidates.get(index as usize).copied()?;
        self.ready.retain(|(_, ready)| *ready != task);
        self.steps += 1;
        Some(task)
    }

    /// Returns the index of the task that the policy chooses.
    fn draw(&mut self, candidates: &[TaskId], random: u64) -> u32 {
        let any = |count: usize| (random % count.max(1) as u64) as usize;
        let index = match self.policy {
            SchedulePolicy::Fifo => 0,
            SchedulePolicy::Random => any(candidates.len()),
            SchedulePolicy::Starve(starved) => {
                let is_other =
                    |task: &TaskId| self.tasks.get(task).is_some_and(|task| task.incarnation.process != starved);
                let others = candidates.iter().enumerate().filter(|(_, task)| is_other(task)).map(|(index, _)| index);
                let others: Vec<usize> = others.collect();
                others.get(any(others.len())).copied().unwrap_or_else(|| any(candidates.len()))
            }
            SchedulePolicy::Priorities { change_every } => {
                let priority = |task: &TaskId| self.tasks.get(task).map_or(0, |task| task.priority);
                let highest = candidates.iter().enumerate().max_by_key(|(_, task)| priority(task));
                let (index, task) = highest.map_or((0, None), |(index, task)| (index, Some(*task)));
                if mix(random).is_multiple_of(u64::from(change_every.max(1)))
                    && let Some(task) = task.and_then(|task| self.tasks.get_mut(&task))
                {
                    task.priority = 0;
                }
                index
            }
        };
        u32::try_from(index).unwrap_or_default()
    }

    fn wake_dispatcher(&mut self) {
        self.dispatcher.take().into_iter().for_each(Waker::wake);
    }

    fn end(&mut self, task: TaskId) {
        self.tasks.remove(&task);
        self.ready.retain(|(_, ready)| *ready != task);
        self.stopped(task);
    }

    fn stopped(&mut self, task: TaskId) {
        if self.chosen == Some(task) {
            self.chosen = None;
        }
        self.wake_dispatcher();
    }
}

impl TaskScheduler for Executor {
    fn spawned(&self) -> TaskId {
        let mut state = self.lock();
        let id = TaskId(state.next_task);
        state.next_task += 1;
        // Not a decision: only the choice that follows from it is one.
        let priority = mix(id.0 ^ (state.steps << 32)).max(1);
        let task = TaskState { incarnation: state.current, priority, waker: None };
        state.tasks.insert(id, task);
        id
    }

    fn turn(&self, task: TaskId, waker: &Waker) -> Turn {
        let mut state = self.lock();
        let Some(incarnation) = state.tasks.get(&task).map(|task| task.incarnation) else { return Turn::Wait };
        if !state.is_alive(incarnation) {
            state.current = incarnation;
            return Turn::Drop;
        }
        if let Some(task) = state.tasks.get_mut(&task) {
            task.waker = Some(waker.clone());
        }
        if state.chosen == Some(task) {
            state.current = incarnation;
            return Turn::Run;
        }
        if !state.ready.iter().any(|(_, ready)| *ready == task) {
            let step = state.steps;
            state.ready.insert((step, task));
        }
        state.wake_dispatcher();
        Turn::Wait
    }

    fn ran(&self, task: TaskId, ended: bool) {
        let mut state = self.lock();
        state.current = HARNESS;
        if ended { state.end(task) } else { state.stopped(task) }
    }

    fn dropped(&self, task: TaskId) {
        self.lock().end(task);
    }

    fn time_of_day(&self) -> Duration {
        let state = self.lock();
        let offset = state.processes.get(&state.current.process).map_or(0, |process| process.clock_offset);
        let now = EPOCH.saturating_add(self.now());
        let shift = Duration::from_millis(offset.unsigned_abs());
        if offset < 0 { now.saturating_sub(shift) } else { now.saturating_add(shift) }
    }
}

#[cfg(test)]
mod tests;
