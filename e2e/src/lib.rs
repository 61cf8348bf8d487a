//! Tests of the whole: scripted and real tiers, a real API server, a real two-node cluster.
