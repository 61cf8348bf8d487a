//! The simulated network: turmoil's sockets behind the router's own seam, fixed addresses, and simulated time.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use terrace_identity::net::{Later, Listen, Network, Stream};
use turmoil::net::{TcpListener, TcpStream};

pub const ROUTER: IpAddr = ip(10, 0, 0, 1);
pub const OPERATOR: IpAddr = ip(10, 0, 0, 2);
pub const CLIENTS: IpAddr = ip(10, 0, 0, 9);
pub const EDGE: [IpAddr; 2] = [ip(10, 0, 1, 1), ip(10, 0, 1, 2)];
pub const NODE: IpAddr = ip(10, 0, 2, 1);
/// Outside of every private range: where the public endpoint is.
pub const CLOUD: IpAddr = ip(20, 0, 0, 7);
pub const CLOUD_NAME: &str = "cloud.example";
pub const OPERATOR_NAME: &str = "operator.example";

const fn ip(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

/// Simulated time passes. No real clock is waited for, here or anywhere in the simulation.
pub async fn pass(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}

/// What the simulation's clock says, since its start.
pub fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}

/// turmoil's sockets. Only what runs on a simulated host may use them.
pub struct Sea;

impl Network for Sea {
    fn listen(&self, address: SocketAddr) -> Later<'_, Box<dyn Listen>> {
        Box::pin(async move { Ok(Box::new(Harbour(TcpListener::bind(address).await?)) as Box<dyn Listen>) })
    }

    fn connect(&self, address: SocketAddr) -> Later<'_, Stream> {
        Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as Stream) })
    }

    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Later<'a, Vec<SocketAddr>> {
        let known = match host {
            CLOUD_NAME => Ok(CLOUD),
            OPERATOR_NAME => Ok(OPERATOR),
            other => other.parse().map_err(|_| io::Error::new(io::ErrorKind::NotFound, "no such name")),
        };
        Box::pin(std::future::ready(known.map(|ip| vec![SocketAddr::new(ip, port)])))
    }
}

struct Harbour(TcpListener);

impl Listen for Harbour {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn accept(&self) -> Later<'_, (Stream, SocketAddr)> {
        Box::pin(async move {
            let (stream, address) = self.0.accept().await?;
            Ok((Box::new(stream) as Stream, address))
        })
    }
}

/// A listener on the host that this runs on.
pub async fn listen(port: u16) -> Box<dyn Listen> {
    Sea.listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)).await.unwrap()
}
