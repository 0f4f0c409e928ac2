//! Runtimes that come and go, and pools that do.

use super::*;
