//! I am not written yet.
