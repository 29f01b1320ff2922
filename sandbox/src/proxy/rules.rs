//! What may be reached, and what a refusal says.

use super::address::{AddressKind, embedded};
use super::endpoint::{Endpoint, Host, Target};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What may be reached. With no entry, nothing. What is denied is refused, whatever is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    allow: Vec<Endpoint>,
    deny: Vec<Endpoint>,
    place: Option<String>,
}

/// Why something may not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No entry allows it.
    NotListed,
    /// An entry denies it.
    Denied,
    /// It has an address that is special and not listed itself.
    Address {
        /// The address.
        address: IpAddr,
        /// What it is.
        kind: AddressKind,
    },
}

impl Rules {
    /// Nothing may be reached.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry of what may be reached.
    #[must_use]
    pub fn allow(mut self, endpoint: Endpoint) -> Self {
        self.allow.push(endpoint);
        self
    }

    /// Adds an entry of what may not.
    #[must_use]
    pub fn deny(mut self, endpoint: Endpoint) -> Self {
        self.deny.push(endpoint);
        self
    }

    /// Says where the list stands, for the advice that goes with a refusal.
    #[must_use]
    pub fn place(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Decides on what is asked for, before anything is resolved.
    pub fn check(&self, target: &Target) -> Result<(), Refusal> {
        self.check_denied(target)?;
        if self.lists(target) { Ok(()) } else { Err(Refusal::NotListed) }
    }

    /// The same for what is allowed in another way: only what is denied is refused.
    pub(super) fn check_denied(&self, target: &Target) -> Result<(), Refusal> {
        // Who denies an IPv4 address means every way to it.
        let within = match target.host {
            Host::Address(IpAddr::V6(address)) => embedded(address),
            _ => None,
        };
        let within = within.map(|address| Target { host: Host::Address(address.into()), port: target.port });
        let is_denied = |target: &Target| self.deny.iter().any(|entry| entry.matches(target));
        if is_denied(target) || within.as_ref().is_some_and(is_denied) { Err(Refusal::Denied) } else { Ok(()) }
    }

    fn lists(&self, target: &Target) -> bool {
        self.allow.iter().any(|entry| entry.matches(target))
    }

    /// Decides on the addresses of what is asked for: the first that may not be reached refuses them all.
    ///
    /// `own` are the addresses of this machine's interfaces, and `exempt` an address that counts as listed.
    pub(super) fn check_addresses(
        &self,
        addresses: &[IpAddr],
        port: u16,
        own: &BTreeSet<IpAddr>,
        exempt: Option<IpAddr>,
    ) -> Result<(), Refusal> {
        for address in addresses.iter().copied() {
            let literal = Target { host: Host::Address(address), port };
            self.check_denied(&literal)?;
            if self.lists(&literal) || exempt == Some(address) {
                continue;
            }
            if let Some(kind) = AddressKind::of(address).or_else(|| is_own(address, own)) {
                return Err(Refusal::Address { address, kind });
            }
        }
        Ok(())
    }

    /// Why `target` is refused, and what would let it through.
    pub fn explain(&self, target: &Target, refusal: Refusal) -> String {
        format!("`{target}` was refused: {}", self.reason_and_advice(target, refusal))
    }

    /// The same without what is refused.
    pub fn reason_and_advice(&self, target: &Target, refusal: Refusal) -> String {
        let place = self.place.as_deref().unwrap_or("the list of what may be reached");
        let reason = refusal.reason();
        match refusal {
            Refusal::NotListed => format!("{reason}; add \"{target}\" to {place}"),
            Refusal::Denied => reason,
            Refusal::Address { address, .. } => {
                let literal = Target { host: Host::Address(address), port: target.port };
                format!("{reason}; if it is meant, add \"{literal}\" to {place}")
            }
        }
    }
}

impl Refusal {
    /// Why, in a few words.
    pub fn reason(&self) -> String {
        match self {
            Self::NotListed => "not in the allow-list".to_owned(),
            Self::Denied => "in the deny-list".to_owned(),
            Self::Address { address, kind } => {
                format!("{address} is {kind}, which must be listed itself")
            }
        }
    }
}

fn is_own(address: IpAddr, own: &BTreeSet<IpAddr>) -> Option<AddressKind> {
    let inner = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => embedded(address).map(IpAddr::V4),
    };
    (own.contains(&address) || inner.is_some_and(|inner| own.contains(&inner))).then_some(AddressKind::Own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> Rules {
        let with = |rules: Rules, add: fn(Rules, Endpoint) -> Rules, all: &[&str]| {
            all.iter().fold(rules, |rules, entry| add(rules, entry.parse().unwrap()))
        };
        with(with(Rules::new(), Rules::allow, allow), Rules::deny, deny)
    }

    #[test]
    fn deny_wins_and_nothing_is_the_default() {
        let check = |allow: &[&str], deny: &[&str], target: &str| {
            rules(allow, deny).check(&Target::parse(target, None).unwrap())
        };
        assert_eq!(check(&[], &[], "a.example:443"), Err(Refusal::NotListed));
        assert_eq!(check(&["a.example:443"], &[], "a.example:443"), Ok(()));
        assert_eq!(check(&["a.example:443"], &[], "a.example:80"), Err(Refusal::NotListed));
        assert_eq!(check(&["*.example.com:443"], &["a.example.com:*"], "a.example.com:443"), Err(Refusal::Denied));
        assert_eq!(check(&["*.example.com:443"], &["a.example.com:*"], "b.example.com:443"), Ok(()));
        assert_eq!(check(&["a.example:443"], &["a.example:443"], "a.example:443"), Err(Refusal::Denied));
    }

    #[test]
    fn one_bad_address_refuses_them_all() {
        let own = BTreeSet::from(["8.8.4.4".parse().unwrap()]);
        let check = |allow: &[&str], deny: &[&str], addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            rules(allow, deny).check_addresses(&addresses, 443, &own, None).map_err(|refusal| match refusal {
                Refusal::Address { kind, .. } => kind.name(),
                Refusal::Denied => "denied",
                Refusal::NotListed => "not listed",
            })
        };
        assert_eq!(check(&[], &[], &["8.8.8.8", "2606:2800::1"]), Ok(()));
        assert_eq!(check(&[], &[], &["8.8.8.8", "127.0.0.1"]), Err("a loopback address"));
        assert_eq!(check(&["127.0.0.1:443"], &[], &["8.8.8.8", "127.0.0.1"]), Ok(()));
        assert_eq!(check(&["127.0.0.1:80"], &[], &["127.0.0.1"]), Err("a loopback address"));
        assert_eq!(check(&["127.0.0.1:443"], &[], &["::ffff:127.0.0.1"]), Err("a loopback address"));
        assert_eq!(check(&["127.0.0.1:443"], &[], &["64:ff9b::127.0.0.1"]), Err("a loopback address"));
        assert_eq!(check(&["127.0.0.1:443"], &["127.0.0.1:*"], &["127.0.0.1"]), Err("denied"));
        for way in ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "::8.8.8.8"] {
            assert_eq!(check(&[], &["8.8.8.8:443"], &[way]), Err("denied"), "{way}");
        }
        assert_eq!(check(&[], &[], &["8.8.4.4"]), Err("an address of this machine"));
        assert_eq!(check(&[], &[], &["64:ff9b::8.8.4.4"]), Err("an address of this machine"));
    }

    #[test]
    fn a_refusal_says_what_to_list() {
        let rules = Rules::new().place("`the.list`");
        let target = Target::parse("a.example:443", None).unwrap();
        assert_eq!(
            rules.explain(&target, Refusal::NotListed),
            "`a.example:443` was refused: not in the allow-list; add \"a.example:443\" to `the.list`"
        );
        let address = Refusal::Address { address: "fe80::1".parse().unwrap(), kind: AddressKind::LinkLocal };
        assert_eq!(
            rules.explain(&target, address),
            "`a.example:443` was refused: fe80::1 is a link-local address, which must be listed itself; if it is meant, \
             add \"[fe80::1]:443\" to `the.list`"
        );
        assert_eq!(rules.explain(&target, Refusal::Denied), "`a.example:443` was refused: in the deny-list");
    }
}
