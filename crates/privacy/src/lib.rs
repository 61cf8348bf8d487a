//! Classes, detection, clearances: the only maker of a Cleared body.
