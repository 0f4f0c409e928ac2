//! Defects of controllers.
