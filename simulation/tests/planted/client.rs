//! Defects of the client.
