//! What may be chosen about a queue.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::time::Duration;

use rapidhash::quality::RandomState;

use crate::clock::{Clock, TokioClock};
use crate::limiter::{Exponential, RateLimiter};
use crate::machine::ready_queue::OrderRules;
use crate::machine::{MachineSettings, OnReadd, Tenant};
use crate::metrics::QueueMetrics;
use crate::ready_order::ReadyOrder;
use crate::shared::Shared;
use crate::{Key, WorkQueue};

/// Makes a [`WorkQueue`]: see [`WorkQueue::builder`].
#[must_use = "a builder does nothing until build is called"]
pub struct QueueBuilder<K: Key> {
    name: Option<Box<str>>,
    limiter: Option<Box<dyn RateLimiter<K>>>,
    clock: Option<Box<dyn Clock>>,
    rules: OrderRules,
    ready_order: Option<Box<dyn ReadyOrder<K>>>,
    tenant: Option<Tenant<K>>,
    on_readd: OnReadd,
    memory: Option<Duration>,
}

/// One of so many hand-outs goes to keys that would be passed over, unless told otherwise.
const SHARE: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// How long keys wait after a failure, unless told otherwise.
pub(crate) const DEFAULT_BACKOFF: Exponential = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));

/// How long the failures of an idle key are remembered if the limiter does not say how long it makes keys wait.
const MEMORY: Duration = Duration::from_secs(3600);

/// Failures are not forgotten before that, so that a limiter of short waits does not forget between one run and the next.
const SHORTEST_MEMORY: Duration = Duration::from_secs(60);

impl<K: Key> QueueBuilder<K> {
    pub(crate) fn new() -> Self {
        QueueBuilder {
            name: None,
            limiter: None,
            clock: None,
            rules: OrderRules { share: Some(SHARE), ageing: None, fair: false },
            ready_order: None,
            tenant: None,
            on_readd: OnReadd::default(),
            memory: None,
        }
    }

    /// What the queue is called in metrics and logs. A queue without a name reports no metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_boxed_str()).filter(|name| !name.is_empty());
        self
    }

    /// How long keys wait after a failure: 5 ms after the first, twice as long after each further one, and at most 1,000 s,
    /// unless told otherwise.
    pub fn limiter(mut self, limiter: impl RateLimiter<K>) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Where the time comes from: tokio, unless told otherwise.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// What an add means of a key that is waiting for its time.
    pub fn on_readd(mut self, on_readd: OnReadd) -> Self {
        self.on_readd = on_readd;
        self
    }

    /// While keys of a higher priority are handed out, one of `n` hand-outs goes to the key of a lower priority that has waited
    /// longest: one of 8, unless told otherwise. With 1, each goes to the key that has waited longest, whatever its priority.
    /// With `None`, keys of a lower priority may wait for ever.
    pub fn share(mut self, n: impl Into<Option<NonZeroU32>>) -> Self {
        self.rules.share = n.into();
        self
    }

    /// A key gains a point of priority each time it has waited for `step`. Off unless asked for: the share is enough for every
    /// key to have its turn, while a large backlog that ages overtakes all that is new.
    pub fn ageing(mut self, step: impl Into<Option<Duration>>) -> Self {
        self.rules.ageing = step.into();
        self
    }

    /// Tenants, such as namespaces, take turns: among keys of the same priority, one of each tenant is handed out before the
    /// second one of any.
    ///
    /// The function is called once for each key that is added and not known, under the queue's lock: it is quick and never calls
    /// the queue. If it panics, so does whoever adds the key, which is then not added.
    ///
    /// ```
    /// use evenkeel_queue::WorkQueue;
    ///
    /// let queue = WorkQueue::<String>::builder()
    ///     .fair_by(|key| key.split('/').next().unwrap_or_default())
    ///     .build();
    /// ```
    pub fn fair_by(mut self, tenant: impl Fn(&K) -> &str + Send + Sync + 'static) -> Self {
        let hasher = RandomState::default();
        self.rules.fair = true;
        self.tenant = Some(Box::new(move |key| hasher.hash_one(tenant(key))));
        self
    }

    /// An order of one's own, in which priorities and tenants mean nothing.
    pub fn ready_order(mut self, ready_order: impl ReadyOrder<K>) -> Self {
        self.ready_order = Some(Box::new(ready_order));
        self
    }

    /// How long the failures are remembered of a key that is neither added nor forgotten. Unless told otherwise, that is twice
    /// the longest wait that failures can lead to and at least a minute, or an hour if the limiter does not know.
    pub fn remember_failures(mut self, memory: Duration) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Makes the queue.
    pub fn build(self) -> WorkQueue<K> {
        let limiter = self.limiter.unwrap_or_else(|| Box::new(DEFAULT_BACKOFF));
        let memory = self.memory.unwrap_or_else(|| match limiter.longest() {
            Some(longest) => longest.saturating_mul(2).max(SHORTEST_MEMORY),
            None => MEMORY,
        });
        let settings = MachineSettings {
            rules: self.rules,
            ready_order: self.ready_order,
            tenant: self.tenant,
            on_readd: self.on_readd,
            memory,
        };
        let metrics = self.name.as_deref().map(QueueMetrics::new);
        let clock = self.clock.unwrap_or_else(|| Box::new(TokioClock));
        WorkQueue::from(Shared::new(self.name, settings, limiter, clock, metrics))
    }
}
