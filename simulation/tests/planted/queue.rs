//! Defects of the work queue.
