//! The decision core: signals, constraints, forecasts, scores, plan. Pure: no clock, no randomness, no I/O.
