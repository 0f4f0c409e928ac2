//! OpenAPI v2.
