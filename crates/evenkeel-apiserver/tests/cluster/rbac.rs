//! RBAC.
