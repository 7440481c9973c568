//! HTTP caching as pure functions.
