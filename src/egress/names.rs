//! The addresses that stand for names inside the jail: one per name, never given to another.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use crate::egress::limits::{MAX_NAMES, NAMES_FOR_EXACT};
use crate::policy::authority::HostName;

/// The address that the namespace's loopback interface has in the pool's block; no name gets it.
pub const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The prefix length of the pool, 198.18.0.0/15: set aside for benchmarks (RFC 2544), so that no real host has one.
pub const POOL_PREFIX: u8 = 15;
/// The first address that a name can get, behind the network's own and [`OWN_ADDRESS`].
const FIRST: u32 = 0xc612_0002;

/// Names and their addresses, remembered for as long as the jail runs.
#[derive(Debug)]
pub struct NamePool {
    inner: Mutex<Inner>,
    /// How many names below one rule with a wildcard get an address.
    share: usize,
}

/// Whose share of the pool a name takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A rule spells the name out.
    Exact,
    /// The allow rule of this index covers it, as it covers others.
    Rule(usize),
}

#[derive(Debug, Default)]
struct Inner {
    by_name: HashMap<HostName, u32>,
    by_index: Vec<HostName>,
    by_rule: HashMap<usize, usize>,
}

impl NamePool {
    /// A pool that `wildcards` rules share, besides the names that rules spell out.
    pub fn new(wildcards: usize) -> Self {
        Self { inner: Mutex::default(), share: (MAX_NAMES - NAMES_FOR_EXACT) / wildcards.max(1) }
    }

    /// The address of `name`, a new one when it has none. `None` when the share of `owner` is used up: the addresses
    /// that are out keep their meaning.
    pub fn address_of(&self, name: &HostName, owner: Owner) -> Option<Ipv4Addr> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = inner.by_name.get(name) {
            return Some(Ipv4Addr::from(FIRST + index));
        }
        if inner.by_index.len() >= MAX_NAMES {
            return None;
        }
        if let Owner::Rule(rule) = owner {
            let taken = inner.by_rule.entry(rule).or_default();
            if *taken >= self.share {
                return None;
            }
            *taken += 1;
        }
        let index = inner.by_index.len() as u32;
        inner.by_index.push(name.clone());
        inner.by_name.insert(name.clone(), index);
        Some(Ipv4Addr::from(FIRST + index))
    }

    /// The name that `address` was given to.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        let index = u32::from(address).checked_sub(FIRST)?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.by_index.get(index as usize).cloned()
    }
}

/// Whether `address` lies in the pool, given out or not.
pub fn is_pooled(address: Ipv4Addr) -> bool {
    u32::from(address) >> (32 - u32::from(POOL_PREFIX)) == FIRST >> (32 - u32::from(POOL_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(index: usize) -> HostName {
        HostName::parse(format!("n{index}.test").as_bytes()).unwrap()
    }

    #[test]
    fn a_full_pool_gives_nothing_new_and_forgets_nothing() {
        let pool = NamePool::new(0);
        let mut seen = std::collections::HashSet::new();
        for index in 0..MAX_NAMES {
            let address = pool.address_of(&name(index), Owner::Exact).unwrap();
            assert!(is_pooled(address) && address != OWN_ADDRESS && seen.insert(address));
        }
        assert!(!seen.contains(&Ipv4Addr::new(198, 19, 255, 255)), "the block's last address is no host's");
        assert_eq!(pool.address_of(&name(MAX_NAMES), Owner::Exact), None);
        assert_eq!(pool.address_of(&name(0), Owner::Exact), Some(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(pool.name_of(Ipv4Addr::new(198, 18, 0, 3)), Some(name(1)));
        for address in
            [OWN_ADDRESS, Ipv4Addr::new(198, 18, 0, 0), Ipv4Addr::new(198, 19, 255, 255), Ipv4Addr::LOCALHOST]
        {
            assert_eq!(pool.name_of(address), None);
        }
        assert!(is_pooled(Ipv4Addr::new(198, 19, 255, 255)) && !is_pooled(Ipv4Addr::new(198, 20, 0, 0)));
    }

    #[test]
    fn a_wildcard_takes_its_share_and_no_more() {
        let pool = NamePool::new(2);
        let share = (MAX_NAMES - NAMES_FOR_EXACT) / 2;
        assert!((0..share).all(|index| pool.address_of(&name(index), Owner::Rule(7)).is_some()));
        assert_eq!(pool.address_of(&name(share), Owner::Rule(7)), None);
        assert!(pool.address_of(&name(0), Owner::Rule(7)).is_some(), "what is out stays");
        assert!(pool.address_of(&name(share), Owner::Rule(8)).is_some(), "the other rule has its own");
        assert!(pool.address_of(&name(share + 1), Owner::Exact).is_some());
    }
}
