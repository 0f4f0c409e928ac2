//! Defects of the reflector.
