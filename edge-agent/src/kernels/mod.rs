//! The arithmetic: what the network and the sampler spend their time on, in the fastest form the processor has, each
//! beside a plain form that the tests compare it with.

mod distribution;

pub use distribution::Distribution;
