//! Outcomes for people: a table, and a picture.

pub mod svg;
mod table;

pub use table::table;
