//! Locks and threads: the standard ones, or those of a scheduler that tries out many orders of events in tests.

#[cfg(not(shuttle))]
pub(crate) use std::{sync::Arc, sync::Mutex, sync::MutexGuard, sync::Weak, thread};

#[cfg(shuttle)]
pub(crate) use shuttle::{sync::Arc, sync::Mutex, sync::MutexGuard, sync::Weak, thread};
