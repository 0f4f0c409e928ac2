//! Defects of stores, handlers and informers.
