//! Which addresses are not part of the public internet. From the registries of special addresses that IANA keeps
//! (RFC 6890 and what it was amended by), and the addresses by which clouds serve metadata.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// This machine, by its loopback.
    Loopback,
    /// This machine, by an address of one of its interfaces.
    Own,
    /// The link: where clouds serve metadata and keys.
    LinkLocal,
    /// A cloud's service for the machine itself, at an address that is not link-local.
    Metadata,
    /// A private network, a carrier's included.
    Private,
    /// No address in particular.
    Unspecified,
    /// Many machines.
    Multicast,
    /// Reserved, for documentation or for use in protocols.
    Reserved,
}

impl AddressKind {
    /// What it is, with an article.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Own => "an address of this machine",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "an address of cloud metadata",
            Self::Private => "a private address",
            Self::Unspecified => "an unspecified address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        }
    }

    /// What `address` is; `None` for an ordinary one.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Azure's service for virtual machines.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// A network: its first address, and how many bits of it count.
type Network = ([u8; 4], u32, AddressKind);

const NETWORKS: [Network; 18] = [
    ([0, 0, 0, 0], 8, AddressKind::Unspecified),
    ([10, 0, 0, 0], 8, AddressKind::Private),
    ([100, 64, 0, 0], 10, AddressKind::Private),
    ([127, 0, 0, 0], 8, AddressKind::Loopback),
    ([168, 63, 129, 16], 32, AddressKind::Metadata),
    ([169, 254, 0, 0], 16, AddressKind::LinkLocal),
    ([172, 16, 0, 0], 12, AddressKind::Private),
    ([192, 0, 0, 0], 24, AddressKind::Reserved),
    ([192, 0, 2, 0], 24, AddressKind::Reserved),
    ([192, 31, 196, 0], 24, AddressKind::Reserved),
    ([192, 52, 193, 0], 24, AddressKind::Reserved),
    ([192, 88, 99, 0], 24, AddressKind::Reserved),
    ([192, 168, 0, 0], 16, AddressKind::Private),
    ([198, 18, 0, 0], 15, AddressKind::Private),
    ([198, 51, 100, 0], 24, AddressKind::Reserved),
    ([203, 0, 113, 0], 24, AddressKind::Reserved),
    ([224, 0, 0, 0], 4, AddressKind::Multicast),
    ([240, 0, 0, 0], 4, AddressKind::Reserved),
];

fn of_v4(address: Ipv4Addr) -> Option<AddressKind> {
    if address == WIRE_SERVER {
        return Some(AddressKind::Metadata);
    }
    let bits = address.to_bits();
    NETWORKS.iter().find_map(|(network, prefix, kind)| {
        let shift = 32 - prefix;
        (bits >> shift == u32::from_be_bytes(*network) >> shift).then_some(*kind)
    })
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated (RFC 6052) or tunnelled (RFC 3056).
pub(super) fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bytes = |at: usize| {
        let octets = address.octets();
        octets.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok()).map(Ipv4Addr::from)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            bytes(12)
        }
        [0x2002, ..] => bytes(2),
        _ => None,
    }
}

fn of_v6(address: Ipv6Addr) -> Option<AddressKind> {
    if let Some(embedded) = embedded(address) {
        return of_v4(embedded);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(AddressKind::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressKind::Loopback),
        [0xfe80..=0xfebf, ..] => Some(AddressKind::LinkLocal),
        // Site-local ones are private by an older rule; the last is a translation of IPv4 whose form its owner chose.
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Some(AddressKind::Private),
        [0xff00..=0xffff, ..] => Some(AddressKind::Multicast),
        // For protocols (Teredo, ORCHID and others), and for documentation.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some(AddressKind::Reserved),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressKind::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_known_in_every_form() {
        use AddressKind::{LinkLocal, Loopback, Metadata, Multicast, Private, Reserved, Unspecified};
        let table: [(&str, Option<AddressKind>); 54] = [
            ("0.0.0.0", Some(Unspecified)),
            ("0.1.2.3", Some(Unspecified)),
            ("10.0.0.1", Some(Private)),
            ("9.255.255.255", None),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.1", Some(Private)),
            ("100.100.100.200", Some(Private)),
            ("100.128.0.0", None),
            ("127.0.0.1", Some(Loopback)),
            ("127.255.255.254", Some(Loopback)),
            ("168.63.129.16", Some(Metadata)),
            ("169.254.169.254", Some(LinkLocal)),
            ("172.15.0.1", None),
            ("172.16.0.1", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.1", None),
            ("192.0.0.192", Some(Reserved)),
            ("192.0.2.1", Some(Reserved)),
            ("192.168.1.1", Some(Private)),
            ("198.18.0.1", Some(Private)),
            ("198.51.100.7", Some(Reserved)),
            ("203.0.113.7", Some(Reserved)),
            ("224.0.0.1", Some(Multicast)),
            ("239.255.255.255", Some(Multicast)),
            ("240.0.0.1", Some(Reserved)),
            ("255.255.255.255", Some(Reserved)),
            ("8.8.8.8", None),
            ("93.184.216.34", None),
            ("::", Some(Unspecified)),
            ("::1", Some(Loopback)),
            ("::7f00:1", Some(Loopback)),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::ffff:10.0.0.1", Some(Private)),
            ("::ffff:8.8.8.8", None),
            ("::ffff:0:127.0.0.1", Some(Loopback)),
            ("64:ff9b::169.254.169.254", Some(LinkLocal)),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b:1::8.8.8.8", Some(Private)),
            ("2002:7f00:1::", Some(Loopback)),
            ("2002:a00:1::1", Some(Private)),
            ("2002:808:808::1", None),
            ("fe80::1", Some(LinkLocal)),
            ("fd00:ec2::254", Some(Private)),
            ("fc00::1", Some(Private)),
            ("fec0::1", Some(Private)),
            ("ff02::1", Some(Multicast)),
            ("2001::1", Some(Reserved)),
            ("2001:db8::1", Some(Reserved)),
            ("3fff::1", Some(Reserved)),
            ("100::1", Some(Reserved)),
            ("5f00::1", Some(Reserved)),
            ("2606:2800:220:1::1", None),
            ("2001:4860:4860::8888", None),
        ];
        for (address, kind) in table {
            assert_eq!(AddressKind::of(address.parse().unwrap()), kind, "{address}");
        }
    }
}
