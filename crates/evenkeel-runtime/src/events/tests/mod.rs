//! Recorders, broadcasters and sinks, in virtual time.
