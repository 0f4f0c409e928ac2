//! Servers that misbehave.

use super::*;
