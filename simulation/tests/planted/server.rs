//! Defects of the API server.
