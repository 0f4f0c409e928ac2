//! The filter in paused time with a scripted reviewer; servers over sockets with an embedded API server.

mod filtered;
mod wire;
