//! CEL rules of definitions.
