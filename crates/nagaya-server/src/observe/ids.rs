//! The ids of a request, and the address that it came from.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::http::{HeaderMap, HeaderName};

use crate::RequestOrigin;

/// The header with the id of a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header with the id that all requests and events of one user action share.
pub(crate) const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
/// The header with the id of what caused a request.
pub(crate) const CAUSATION_ID: HeaderName = HeaderName::from_static("x-causation-id");
/// The header with the trace of AWS X-Ray. Load balancers and gateways of AWS add it.
pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-amzn-trace-id");
/// The header in which proxies report the address of the client.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The ids and the address of a request.
pub(super) fn origin(peer: &Arc<str>, trusted_proxies: usize, headers: &HeaderMap) -> RequestOrigin {
    let request = given(headers, &REQUEST_ID).map_or_else(new, Into::into);
    RequestOrigin {
        correlation: given(headers, &CORRELATION_ID).map_or_else(|| Arc::clone(&request), Into::into),
        causation: given(headers, &CAUSATION_ID).map(Into::into),
        trace: trace(headers).map(Into::into),
        address: Some(forwarded(trusted_proxies, headers).unwrap_or_else(|| Arc::clone(peer))),
        request,
    }
}

/// An id from the caller, if it is well-formed: it goes into logs, headers and stored items unchanged.
fn given<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let id = headers.get(name)?.to_str().ok()?;
    is_id(id).then_some(id)
}

/// The id of the trace, in `Root=1-67891233-abcdef012345678912345678;Parent=…;Sampled=1`.
fn trace(headers: &HeaderMap) -> Option<&str> {
    let parts = headers.get(TRACE_ID)?.to_str().ok()?.split(';');
    let root = parts.filter_map(|part| part.trim().strip_prefix("Root=")).next()?;
    is_id(root).then_some(root)
}

fn is_id(id: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || b"._:-".contains(&letter);
    (1..=128).contains(&id.len()) && id.bytes().all(fits)
}

/// A new ULID. It has to be unique, not hard to guess, so the generator of the thread is enough.
fn new() -> Arc<str> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(now.as_millis()).unwrap_or_default();
    let mut text = [0; ulid::ULID_LEN];
    Arc::from(&*ulid::Ulid::from_parts(millis, fastrand::u128(..)).array_to_str(&mut text))
}

/// The address that the outermost trusted proxy saw. Each proxy appends the address of its client to the right end of the
/// list; anything further left may be forged.
fn forwarded(trusted_proxies: usize, headers: &HeaderMap) -> Option<Arc<str>> {
    let furthest = trusted_proxies.checked_sub(1)?;
    let entries = headers.get_all(FORWARDED_FOR).iter().rev();
    let mut entries = entries.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',').map(str::trim));
    let mut found = entries.next()?;
    // A request may have come through fewer proxies.
    for entry in entries.take(furthest) {
        found = entry;
    }
    Some(address(found)?.to_string().into())
}

/// An address, with or without the port that some proxies add. A proxy that listens on IPv6 may write an IPv4 address in
/// the form of IPv6.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&HeaderName, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&HeaderName, &str)| ((*name).clone(), value.parse().expect("a header"));
        lines.iter().map(pair).collect()
    }

    #[test]
    fn an_id_is_taken_over_only_if_it_is_one() {
        let check = |id: &str, taken: bool| {
            let found = origin(&"::1".into(), 0, &headers(&[(&REQUEST_ID, id)]));
            assert_eq!(&*found.request == id, taken, "{id:?}");
            assert_eq!(found.correlation, found.request);
            assert!(taken || ulid::Ulid::from_string(&found.request).is_ok(), "a new one is a ULID");
        };
        check("a", true);
        check("Root=1-67891233:abcdef.012_345", false);
        check("1-67891233:abcdef.012-345", true);
        check(&"x".repeat(128), true);
        check(&"x".repeat(129), false);
        check("", false);
        check("ann@example.com", false);
        check("a b", false);
        check("a\tb", false);
    }

    #[test]
    fn correlation_and_causation_are_taken_over() {
        let found =
            origin(&"::1".into(), 0, &headers(&[(&REQUEST_ID, "r"), (&CORRELATION_ID, "c"), (&CAUSATION_ID, "d")]));
        assert_eq!((&*found.request, &*found.correlation, found.causation.as_deref()), ("r", "c", Some("d")));
        let found = origin(&"::1".into(), 0, &headers(&[(&CORRELATION_ID, "a b"), (&CAUSATION_ID, "")]));
        assert_eq!((found.correlation, found.causation), (found.request, None));
    }

    #[test]
    fn the_root_of_a_trace_is_its_id() {
        let check = |header: &str, expected: Option<&str>| {
            let found = origin(&"::1".into(), 0, &headers(&[(&TRACE_ID, header)]));
            assert_eq!(found.trace.as_deref(), expected, "{header}");
        };
        let root = "1-67891233-abcdef012345678912345678";
        check(&format!("Root={root}"), Some(root));
        check(&format!("Self=1-2-3; Root={root};Parent=53995c3f42cd8ad8;Sampled=1"), Some(root));
        check("Parent=53995c3f42cd8ad8", None);
        check("Root=ann@example.com", None);
        check("Root=", None);
    }

    #[test]
    fn proxies_are_believed_as_far_as_they_are_trusted() {
        let check = |trusted, lines: &[&str], expected: &str| {
            // A header that comes several times is one list.
            let mut all = HeaderMap::new();
            for line in lines {
                all.append(FORWARDED_FOR, line.parse().expect("a header"));
            }
            let found = origin(&"10.0.0.9".into(), trusted, &all).address.expect("there is always one");
            assert_eq!(&*found, expected, "{trusted} {all:?}");
        };
        check(0, &["192.0.2.1"], "10.0.0.9");
        check(1, &["192.0.2.1"], "192.0.2.1");
        check(1, &["6.6.6.6, 192.0.2.1"], "192.0.2.1");
        check(1, &["6.6.6.6", "192.0.2.1"], "192.0.2.1");
        check(2, &["6.6.6.6, 192.0.2.1, 10.0.0.8"], "192.0.2.1");
        check(2, &["6.6.6.6", "192.0.2.1,10.0.0.8"], "192.0.2.1");
        check(2, &["192.0.2.1"], "192.0.2.1");
        check(1, &["192.0.2.1:4711"], "192.0.2.1");
        check(1, &["[2001:db8::1]:4711"], "2001:db8::1");
        check(1, &["[2001:db8::1]"], "2001:db8::1");
        check(1, &["::ffff:192.0.2.1"], "192.0.2.1");
        check(1, &["[::ffff:192.0.2.1]:4711"], "192.0.2.1");
        check(1, &["unknown"], "10.0.0.9");
        check(1, &["<script>, "], "10.0.0.9");
        check(1, &[], "10.0.0.9");
    }
}
