//! How a program reaches others: through the sockets of its machine ([`System`]), or through those that a simulation
//! gives it. Everything above, TLS and HTTP included, is the same code over either.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, lookup_host};

/// What a connection is made of.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// One connection.
pub type Stream = Box<dyn Io>;

/// Something of the network that comes later, or fails as the network does.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A place where connections come in.
pub trait Listen: Send + Sync + 'static {
    /// The address that it has.
    ///
    /// # Errors
    /// What the system says.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next connection, and where it comes from. Dropping the future loses no connection.
    fn accept(&self) -> Later<'_, (Stream, SocketAddr)>;
}

/// Sockets and names.
pub trait Network: Send + Sync + 'static {
    /// Listens at an address; port 0 takes a free one.
    fn listen(&self, address: SocketAddr) -> Later<'_, Box<dyn Listen>>;

    /// Connects to an address. No time limit: the caller knows its own.
    fn connect(&self, address: SocketAddr) -> Later<'_, Stream>;

    /// The addresses of a name, or the address that it is.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Later<'a, Vec<SocketAddr>>;
}

/// The sockets and names of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Network for System {
    fn listen(&self, address: SocketAddr) -> Later<'_, Box<dyn Listen>> {
        Box::pin(async move { Ok(Box::new(TcpListener::bind(address).await?) as Box<dyn Listen>) })
    }

    fn connect(&self, address: SocketAddr) -> Later<'_, Stream> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Stream)
        })
    }

    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Later<'a, Vec<SocketAddr>> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}

impl Listen for TcpListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }

    fn accept(&self) -> Later<'_, (Stream, SocketAddr)> {
        Box::pin(async move {
            let (stream, address) = TcpListener::accept(self).await?;
            // Tokens are small writes that must not wait for one another.
            let _ = stream.set_nodelay(true);
            Ok((Box::new(stream) as Stream, address))
        })
    }
}

impl Listen for Box<dyn Listen> {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        (**self).local_addr()
    }

    fn accept(&self) -> Later<'_, (Stream, SocketAddr)> {
        (**self).accept()
    }
}
