//! Classes, detection, clearances: the only maker of a [`Cleared`] body.
//!
//! A request is walked once ([`segments`]), every text of it is looked at ([`detect`]), and the result with the
//! policy's floor, the caller's label and the conversation's earlier class is its class ([`classify`]). Only what was
//! classified can be cleared for a tier ([`clear`]), and only a cleared body's bytes can be had, each time after the
//! policy of that moment was asked again ([`Cleared::recheck`]). Where an endpoint's name resolves to is checked by
//! [`addresses`]; what leaves the device is written down by [`ledger`].
//!
//! Everything fails closed: what cannot be read, takes too long or makes the detector fail is Restricted. No type here
//! shows content when printed.

pub mod addresses;
mod borders;
pub mod classify;
pub mod clear;
pub mod detect;
pub mod ledger;
pub mod normalise;
mod readable;
pub mod segments;
mod words;
mod write;

pub use classify::{Classified, EntityError, Finding, Request, Rules};
pub use clear::{Cleared, Denied, Terms, clear};
