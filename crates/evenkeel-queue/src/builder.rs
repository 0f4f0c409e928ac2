//! [`QueueBuilder`].

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::time::Duration;

use rapidhash::quality::RandomState;

use crate::clock::{Clock, default_clock};
use crate::limiter::{Exponential, RateLimiter};
use crate::machine::ready_queue::OrderRules;
use crate::machine::{MachineSettings, OnReadd, Tenant};
use crate::metrics::QueueMetrics;
use crate::ready_order::ReadyOrder;
use crate::shared::Shared;
use crate::{Key, WorkQueue};

/// Builds a [`WorkQueue`]: see [`WorkQueue::builder`].
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

/// The default share of lower priorities: one of so many hand-outs.
const SHARE: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// The default backoff.
pub(crate) const DEFAULT_BACKOFF: Exponential = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));

/// How long failures of an idle key are kept if the limiter has no longest wait.
const MEMORY: Duration = Duration::from_secs(3600);

/// Failures are kept at least that long, so that a limiter with short waits does not lose them between two runs.
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

    /// Sets the name in metrics and logs. A queue without a name reports no metrics. Queues that share a name add up in metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_boxed_str()).filter(|name| !name.is_empty());
        self
    }

    /// Sets the rate limiter. Default: 5 ms after the first failure, doubling to 1,000 s.
    pub fn limiter(mut self, limiter: impl RateLimiter<K>) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Sets the clock. Default: tokio's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets what an add does to a delayed key. Default: [`OnReadd::Keep`].
    pub fn on_readd(mut self, on_readd: OnReadd) -> Self {
        self.on_readd = on_readd;
        self
    }

    /// Sets the share of lower priorities: one of `n` hand-outs takes the oldest key of a lower priority. Default: 8.
    ///
    /// With 1, each hand-out takes the oldest key whatever its priority. With `None`, keys of a lower priority may starve.
    pub fn share(mut self, n: impl Into<Option<NonZeroU32>>) -> Self {
        self.rules.share = n.into();
        self
    }

    /// Raises the priority of a ready key by one for each `step` it has waited. Default: off.
    ///
    /// The [`share`](Self::share) already prevents starvation; with ageing, a large old backlog overtakes all new keys.
    pub fn ageing(mut self, step: impl Into<Option<Duration>>) -> Self {
        self.rules.ageing = step.into();
        self
    }

    /// Hands out keys of one priority round-robin by tenant, such as the namespace.
    ///
    /// The function is called once for each new key, under the queue's lock: it must be quick and must not call the queue. If it
    /// panics, the add panics and the key is not added.
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

    /// Sets a custom order of ready keys. Priorities and tenants are then ignored.
    #[cfg(feature = "compat")]
    pub fn ready_order(mut self, ready_order: impl ReadyOrder<K>) -> Self {
        self.ready_order = Some(Box::new(ready_order));
        self
    }

    /// Sets how long the failures of an idle key are kept. Default: twice the longest wait of the limiter and at least a minute,
    /// or an hour if the limiter has no longest wait.
    ///
    /// They expire by time: a waiting worker removes them, and so does [`WorkQueue::stats`].
    pub fn remember_failures(mut self, memory: Duration) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Builds the queue.
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
        let clock = self.clock.unwrap_or_else(default_clock);
        WorkQueue::from(Shared::new(self.name, settings, limiter, clock, metrics))
    }
}
