//! HTTP/2: sharing, limits, pings.

use super::*;
