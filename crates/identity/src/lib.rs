//! Who speaks: the fleet's certificate authority, SPIFFE identities, mutual TLS with reload, signed snapshots.
