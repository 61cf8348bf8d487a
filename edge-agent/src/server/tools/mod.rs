//! Tools: how a model is told of them ([`history`]), how its calls look ([`format`]), what makes it call ([`rules`]), and
//! how its calls are read back ([`reader`]).

pub(super) mod format;
pub(super) mod history;
pub(super) mod ids;
pub(super) mod reader;
pub(super) mod rules;
#[cfg(test)]
mod testing;
