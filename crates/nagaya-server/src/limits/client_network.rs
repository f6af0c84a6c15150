//! What counts as one client where limits go by address.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv6Addr},
};

/// The network of a client: the address itself, or the /64 of an IPv6 address, of which one customer has 2^64 addresses.
/// An IPv4 address in the form of IPv6 (`::ffff:192.0.2.1`) is an IPv4 address.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// The same of an address in text form. A text that is no address is a client of its own.
pub(super) fn network_of_text(address: &str) -> Cow<'_, str> {
    match address.parse::<IpAddr>() {
        Ok(address @ IpAddr::V6(_)) => client_network(address).to_string().into(),
        _ => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_client_is_its_network_and_an_ipv4_client_its_address() {
        for (address, network) in [
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("::1", "::"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("::ffff:c000:201", "192.0.2.1"),
            ("unknown", "unknown"),
        ] {
            assert_eq!(network_of_text(address), network);
        }
    }
}
