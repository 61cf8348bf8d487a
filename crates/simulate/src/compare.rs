//! Strategies side by side, and the load at which one of them overflows so much.
