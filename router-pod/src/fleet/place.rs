//! Where one attempt goes: a device or an endpoint, with the request already counted there.
//!
//! Dropping a [`Place`] takes the count back, whatever way the attempt ended.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use terrace_contract::load::Load;
use terrace_contract::tier::{self, Tier};
use terrace_decide::breaker::Event;
use terrace_identity::Identity;

use super::device::DeviceGuard;
use super::endpoint::EndpointGuard;
use crate::dispatch::target::Target;
use crate::queue::{Bell, Waiters};

/// Where one attempt goes.
#[derive(Debug)]
pub struct Place {
    /// The tier.
    pub tier: Arc<Tier>,
    /// What of it.
    pub site: Site,
    guard: Guard,
    /// Dropped after the guard: whoever is woken finds the room that it gave back.
    bell: Bell,
}

/// What of a tier.
#[derive(Debug, Clone)]
pub enum Site {
    /// An agent: dialled by address, proved by its SPIFFE identity.
    Device {
        /// Where.
        address: SocketAddr,
        /// Who.
        identity: Identity,
        /// Its node.
        node: String,
        /// UID of its pod.
        pod_uid: String,
    },
    /// An endpoint.
    Endpoint(Arc<Target>),
}

#[derive(Debug)]
enum Guard {
    Device(DeviceGuard),
    Endpoint(EndpointGuard),
}

impl Place {
    /// A device of a fleet tier.
    pub fn device(tier: Arc<Tier>, fleet: &tier::Fleet, guard: DeviceGuard, waiters: &Arc<Waiters>) -> Option<Self> {
        let facts = guard.device().facts();
        let device = &facts.device;
        let ip: IpAddr = device.address.parse().ok()?;
        let name = if device.server_name.is_empty() { &fleet.server_name } else { &device.server_name };
        let site = Site::Device {
            address: SocketAddr::new(ip, device.port),
            identity: name.parse().ok()?,
            node: device.node.clone(),
            pod_uid: device.pod_uid.clone(),
        };
        Some(Self { tier, site, guard: Guard::Device(guard), bell: Bell(Arc::clone(waiters)) })
    }

    /// A tier's endpoint.
    pub fn endpoint(tier: Arc<Tier>, target: Arc<Target>, guard: EndpointGuard, waiters: &Arc<Waiters>) -> Self {
        let bell = Bell(Arc::clone(waiters));
        Self { tier, site: Site::Endpoint(target), guard: Guard::Endpoint(guard), bell }
    }

    /// The device's node, or the endpoint's host.
    pub fn name(&self) -> &str {
        match &self.site {
            Site::Device { node, .. } => node,
            Site::Endpoint(target) => &target.host,
        }
    }

    /// Whether it is one of our own devices.
    pub fn is_device(&self) -> bool {
        matches!(self.site, Site::Device { .. })
    }

    /// A load line came with an answer.
    pub fn reported(&self, load: Load, now_us: u64) {
        if let Guard::Device(guard) = &self.guard {
            guard.device().reported(load, now_us);
            self.bell.0.wake();
        }
    }

    /// A connection was made in this time.
    pub fn connected(&self, connect_us: u64) {
        if let Guard::Endpoint(guard) = &self.guard {
            guard.connected(connect_us);
        }
    }

    /// No connection could be made: a reason of the condition `Reachable`.
    pub fn unreachable(&self, reason: &'static str) {
        match &self.guard {
            Guard::Device(guard) => guard.device().unreachable(reason),
            Guard::Endpoint(guard) => guard.endpoint().unreachable(reason),
        }
    }

    /// The first token came; teaches the forecast.
    pub fn first_token(&mut self, prompt_tokens: u64, forecast_us: f64, actual_us: u64, now_us: u64) {
        // That it ends well is said by `rest`.
        let event = match Event::of(forecast_us, actual_us) {
            Event::Ok => Event::Began,
            other => other,
        };
        match &mut self.guard {
            Guard::Device(guard) => {
                guard.first_token(forecast_us, actual_us, now_us);
                guard.record(event, now_us);
            }
            Guard::Endpoint(guard) => {
                guard.first_token(prompt_tokens, forecast_us, actual_us, now_us);
                guard.record(event, now_us);
            }
        }
    }

    /// The rest of the answer came: it ended well.
    pub fn rest(&mut self, output_tokens: u64, all_tokens: u64, us: u64, now_us: u64) {
        match &mut self.guard {
            Guard::Device(guard) => {
                guard.rest(output_tokens.saturating_sub(1), us, now_us);
                guard.ended(now_us);
            }
            Guard::Endpoint(guard) => {
                guard.rest(output_tokens, all_tokens, us);
                guard.ended(now_us);
            }
        }
    }

    /// The attempt failed by the other side's fault.
    pub fn failed(&mut self, now_us: u64) {
        match &mut self.guard {
            Guard::Device(guard) => guard.record(Event::Failed, now_us),
            Guard::Endpoint(guard) => guard.record(Event::Failed, now_us),
        }
    }

    /// Another attempt at the same request answered first: this one's first token takes at least so long.
    pub fn outrun(&mut self, forecast_us: f64, at_least_us: u64, now_us: u64) {
        // A time below the forecast says nothing yet.
        if (at_least_us as f64) <= forecast_us {
            return;
        }
        let slow = Event::of(forecast_us, at_least_us) == Event::Slow;
        match &mut self.guard {
            Guard::Device(guard) => {
                guard.outrun(forecast_us, at_least_us, now_us);
                if slow {
                    guard.record(Event::Slow, now_us);
                }
            }
            Guard::Endpoint(guard) => {
                guard.outrun(forecast_us, at_least_us, now_us);
                if slow {
                    guard.record(Event::Slow, now_us);
                }
            }
        }
    }

    /// It said that it is full. A device's load line says more; an endpoint is left alone for as long as it asks.
    pub fn full(&mut self, retry_after_us: Option<u64>, now_us: u64) {
        if let Guard::Endpoint(guard) = &mut self.guard {
            guard.cool(retry_after_us, now_us);
        }
    }

    /// It refused the credential.
    pub fn credential_refused(&mut self, now_us: u64) {
        if let Guard::Endpoint(guard) = &mut self.guard {
            guard.credential_refused(now_us);
        }
    }
}

impl Place {
    /// Who is called.
    pub fn peer(&self) -> Peer {
        match &self.site {
            Site::Device { address, .. } => Peer::Address(*address),
            Site::Endpoint(target) => Peer::Endpoint(Arc::clone(target)),
        }
    }
}

/// Who is called.
#[derive(Debug, Clone)]
pub enum Peer {
    /// A device.
    Address(SocketAddr),
    /// An endpoint.
    Endpoint(Arc<Target>),
}

impl Peer {
    /// `server.address` and `server.port`.
    pub fn address(self) -> (String, u16) {
        match self {
            Peer::Address(address) => (address.ip().to_string(), address.port()),
            Peer::Endpoint(target) => (target.host.clone(), target.port),
        }
    }
}
