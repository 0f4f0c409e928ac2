//! The pool against real and pretended servers.
