//! The client address of a request behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderMap;
use ballast_control_plane::api::ClientAddress;
use tokio::sync::watch;

use crate::config::Network;

/// The currently trusted proxies.
pub(crate) type TrustedProxies = watch::Receiver<Vec<Network>>;

/// Stores the client's address in the request's extensions.
pub(crate) fn record_client_address(trusted: &TrustedProxies, request: &mut Request) {
    if let Some(ConnectInfo(peer)) = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .copied()
    {
        let address = find_client(
            peer.ip().to_canonical(),
            request.headers(),
            &trusted.borrow(),
        );
        request.extensions_mut().insert(ClientAddress(address));
    }
}

/// Walks X-Forwarded-For from the last hop while each hop is a trusted proxy. Entries written by
/// others are ignored.
fn find_client(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let hops: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    let mut address = peer;
    for hop in hops.iter().rev() {
        if !is_trusted(address) {
            break;
        }
        match hop.trim().parse::<IpAddr>() {
            Ok(next) => address = next.to_canonical(),
            Err(_) => break,
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(peer: &str, forwarded: &'static str, trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", forwarded.parse().unwrap());
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        find_client(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        assert_eq!(judged("9.9.9.9", "1.1.1.1", &[]), "9.9.9.9");
        assert_eq!(judged("10.0.0.1", "1.1.1.1", &["10.0.0.0/8"]), "1.1.1.1");
        assert_eq!(
            judged("10.0.0.1", "6.6.6.6, 1.1.1.1", &["10.0.0.0/8"]),
            "1.1.1.1"
        );
        assert_eq!(
            judged("10.0.0.1", "1.1.1.1, 10.0.0.2", &["10.0.0.0/8"]),
            "1.1.1.1"
        );
        assert_eq!(judged("10.0.0.1", "nonsense", &["10.0.0.0/8"]), "10.0.0.1");
    }
}
