//! Terrace's kinds: Tier, RoutingPolicy, LatencyBudget; their validation and their compilation to a snapshot.
