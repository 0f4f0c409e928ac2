//! The sample controller of the Kubernetes project.
