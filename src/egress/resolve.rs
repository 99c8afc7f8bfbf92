//! From an allowed target to a connection: the lookup outside, the check of every address, the race over those that
//! passed (NET-4).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::egress::decide::{Denial, Dial, vet};
use crate::egress::gate::Gate;
use crate::egress::limits::{Deadlines, MAX_ADDRESSES};
use crate::egress::upstream;
use crate::policy::authority::{Authority, Host};
use crate::policy::upstream::Proxy;

/// The machine's own table of names.
const HOSTS: &str = "/etc/hosts";

/// Looks names up. Only names that the policy allows ever get here.
pub(super) trait Lookup: Send + Sync {
    /// The addresses of `name`, best first.
    fn lookup(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// The system's own resolver.
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move {
            // The machine's own table knows no absolute names, and comes first everywhere.
            let wanted = name.clone();
            let read = tokio::task::spawn_blocking(move || {
                std::fs::read_to_string(HOSTS).map(|table| listed(&table, &wanted)).unwrap_or_default()
            });
            let listed = read.await.map_err(io::Error::other)?;
            if !listed.is_empty() {
                return Ok(listed);
            }
            // With its trailing dot a name is absolute: no search domain is put behind it.
            let found = tokio::net::lookup_host((format!("{name}."), 0)).await?;
            Ok(found.map(|addr| addr.ip()).collect())
        })
    }
}

/// The addresses that `table`, in the form of hosts(5), has for `name`, which is canonical.
fn listed(table: &str, name: &str) -> Vec<IpAddr> {
    let addresses = table.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let ip = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(ip)
    });
    addresses.take(MAX_ADDRESSES).collect()
}

/// A connection to a host outside, and the permit for its descriptor.
pub(super) struct Upstream {
    stream: TcpStream,
    descriptor: OwnedSemaphorePermit,
}

impl Upstream {
    /// The connection, and the permit, which has to live as long.
    pub(super) fn into_parts(self) -> (TcpStream, OwnedSemaphorePermit) {
        (self.stream, self.descriptor)
    }
}

impl Deref for Upstream {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

/// Why there is no connection. Each is one line.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// All addresses are ones that may not be dialled.
    #[error("{0}")]
    Denied(Denial),
    /// The name has no address.
    #[error("ai-jail: {target} is allowed, but its name cannot be resolved ({why})")]
    Lookup { target: Authority, why: String },
    /// No address answered.
    #[error("ai-jail: {target} is allowed, but cannot be connected to ({why})")]
    Connect { target: Authority, why: String },
}

/// Connects to `target`, which was allowed with `dial`, through the proxy outside where there is one for it. `--resolve` is
/// the user's word for this host, and direct.
pub(super) async fn connect(gate: &Gate, target: &Authority, dial: Dial) -> Result<Upstream, DialError> {
    let mapped = gate.policy.resolve.contains_key(&target.host.to_string());
    match gate.policy.upstream.of(target).filter(|_| !mapped) {
        Some(proxy) => through(gate, target, proxy).await,
        None => direct(gate, target, dial).await,
    }
}

/// Connects to `target` by the proxy, which looks its name up.
async fn through(gate: &Gate, target: &Authority, proxy: &Proxy) -> Result<Upstream, DialError> {
    let failed = |why: String| DialError::Connect {
        target: target.clone(),
        why: format!("through the proxy {}: {why}", proxy.at),
    };
    let addrs = match &proxy.at.host {
        Host::Ip(ip) => VecDeque::from([SocketAddr::new(*ip, proxy.at.port)]),
        Host::Name(_) => match timeout(gate.deadlines.lookup, lookup(gate, &proxy.at)).await {
            // The proxy is the user's, wherever it is.
            Ok(Ok(found)) => {
                let found = found.into_iter().take(MAX_ADDRESSES);
                alternate(found.map(|ip| SocketAddr::new(ip, proxy.at.port)).collect())
            }
            Ok(Err(error)) => return Err(failed(format!("its name cannot be resolved ({error})"))),
            Err(_) => return Err(failed("the lookup of its name took too long".to_owned())),
        },
    };
    let connected = async {
        let descriptor = Arc::clone(&gate.descriptors).acquire_owned().await.map_err(io::Error::other)?;
        let stream = race(addrs, &gate.deadlines).await?;
        upstream::ask(&stream, proxy, target).await?;
        Ok::<_, io::Error>(Upstream { stream, descriptor })
    };
    match timeout(gate.deadlines.connect, connected).await {
        Ok(Ok(upstream)) => Ok(upstream),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it took too long".to_owned())),
    }
}

/// Connects to `target` itself.
pub(super) async fn direct(gate: &Gate, target: &Authority, dial: Dial) -> Result<Upstream, DialError> {
    let addrs = match dial {
        Dial::Address(addr) => VecDeque::from([addr]),
        Dial::Resolve => resolve(gate, target).await?,
    };
    let connected = async {
        let descriptor = Arc::clone(&gate.descriptors).acquire_owned().await.map_err(io::Error::other)?;
        let stream = race(addrs, &gate.deadlines).await?;
        Ok::<_, io::Error>(Upstream { stream, descriptor })
    };
    let why = match timeout(gate.deadlines.connect, connected).await {
        Ok(Ok(upstream)) => return Ok(upstream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it took too long".to_owned(),
    };
    Err(DialError::Connect { target: target.clone(), why })
}

async fn resolve(gate: &Gate, target: &Authority) -> Result<VecDeque<SocketAddr>, DialError> {
    let failed = |why: String| DialError::Lookup { target: target.clone(), why };
    let found = match timeout(gate.deadlines.lookup, lookup(gate, target)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed("it took too long".to_owned())),
    };
    let own = gate.own.now();
    let mut denial = None;
    let mut passed = Vec::new();
    for ip in found.into_iter().take(MAX_ADDRESSES).map(|ip| ip.to_canonical()) {
        match vet(&gate.policy, &own, target, ip) {
            Ok(()) => passed.push(SocketAddr::new(ip, target.port)),
            Err(refused) => denial = denial.or(Some(refused)),
        }
    }
    match (passed.is_empty(), denial) {
        (false, _) => Ok(alternate(passed)),
        (true, Some(denial)) => Err(DialError::Denied(denial)),
        (true, None) => Err(failed("it has no address".to_owned())),
    }
}

/// A lookup runs in a task of its own and keeps its permit until it is really over: one that was given up still
/// occupies a thread.
async fn lookup(gate: &Gate, target: &Authority) -> io::Result<Vec<IpAddr>> {
    let permit = Arc::clone(&gate.lookups).acquire_owned().await.map_err(io::Error::other)?;
    let work = gate.lookup.lookup(target.host.to_string());
    let task = tokio::spawn(async move {
        let found = work.await;
        drop(permit);
        found
    });
    task.await.map_err(io::Error::other)?
}

/// The families by turns, beginning with that of the first address (RFC 8305).
fn alternate(addrs: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first_is_v6 = addrs.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addrs.into_iter().partition(|addr| addr.is_ipv6() == first_is_v6);
    let mut second = second.into_iter();
    let mut order = VecDeque::new();
    for addr in first {
        order.push_back(addr);
        order.extend(second.next());
    }
    order.extend(second);
    order
}

async fn race(mut addrs: VecDeque<SocketAddr>, deadlines: &Deadlines) -> io::Result<TcpStream> {
    if let (Some(&only), 1) = (addrs.front(), addrs.len()) {
        return connect_one(only).await;
    }
    let mut attempts = JoinSet::new();
    let mut last_error = io::Error::other("it has no address");
    loop {
        if let Some(addr) = addrs.pop_front() {
            attempts.spawn(connect_one(addr));
        }
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last_error = error,
                Some(Err(error)) => last_error = io::Error::other(error),
                None => return Err(last_error),
            },
            () = sleep(deadlines.next_address), if !addrs.is_empty() => {}
        }
    }
}

async fn connect_one(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    if stream.peer_addr()? != addr {
        return Err(io::Error::other(
            "the connection leads to another address than the one that was checked",
        ));
    }
    // Both are improvements that no caller depends on: prompt small writes, and a dead peer that is noticed some day.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_table_is_read_as_others_read_it() {
        let table = "127.0.0.1 localhost\n# 10.9.9.9 git.corp\n10.0.0.1\tGit.Corp git # main\nfe80::1%eth0 git.corp\n\
                     fd00::1 git.corp\nnonsense git.corp\n10.0.0.3 xgit.corp\n";
        let ips: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(listed(table, "git.corp"), ips);
        assert_eq!(listed(table, "main"), [] as [IpAddr; 0]);
    }

    #[test]
    fn families_take_turns() {
        let addrs =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let order = alternate(addrs(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]));
        assert_eq!(Vec::from(order), addrs(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]));
        let order = alternate(addrs(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]));
        assert_eq!(Vec::from(order), addrs(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]));
    }
}
