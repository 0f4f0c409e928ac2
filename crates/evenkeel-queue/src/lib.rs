//! Work queues: what stands between the events of an informer and the workers of a controller.

pub mod limiter;

pub use limiter::RateLimiter;
