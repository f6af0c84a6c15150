//! Production mode, listeners, proxies and limits.

use std::net::SocketAddr;

use nagaya_server::raise_open_files_limit;

use super::{Check, Finding, files};
use crate::serve;

/// Open files below which many clients cannot connect.
const FEW_OPEN_FILES: u64 = 4_096;

pub(super) fn examine(args: &serve::Args, findings: &mut Vec<Finding>) {
    let network = &args.network;
    findings.push(match (network.is_production(), network.check()) {
        (true, Ok(())) => Check::Mode.ok("these settings turn off what is for development"),
        (true, Err(refused)) => Check::Mode.problem("`nagaya serve` refuses these settings", format!("{refused:#}")),
        (false, _) => Check::Mode.problem(
            "development: tokens of the local issuer are accepted, and one is printed at each start",
            "name your issuer with --issuer URL and --audience NAME",
        ),
    });
    findings.push(transport(args));
    findings.extend(network.tls_key().and_then(|key| files::key_file(Check::Transport, key)));
    let admin = network.admin_address();
    findings.push(match admin {
        Some(address) if is_taken_by(address, network.address()) => Check::AdminListener.problem(
            format!("--admin-listen and --listen want the same port: {address} and {}", network.address()),
            "`nagaya serve` cannot listen twice: give --admin-listen another port",
        ),
        Some(address) if !address.ip().is_loopback() => Check::AdminListener.warning(
            format!("others can reach health, readiness and metrics at {address}"),
            "let only your monitoring reach it, or listen on 127.0.0.1",
        ),
        _ => Check::AdminListener.ok("health, readiness and metrics are for this machine"),
    });
    findings.push(proxies(args));
    findings.push(match network.api.cors() {
        Ok(_) if network.api.cors_origins.is_empty() => Check::Cors.ok("no page of another origin may call the API"),
        Ok(_) => cors_origins(&network.api.cors_origins, network.api.cors_credentials),
        Err(error) => Check::Cors.problem(error.to_string(), "correct --cors-origin"),
    });
    findings.extend(limits(args));
}

/// Whether one address cannot be listened on beside the other.
fn is_taken_by(admin: SocketAddr, public: SocketAddr) -> bool {
    let is_same = admin.ip().to_canonical() == public.ip().to_canonical();
    let is_any = admin.ip().is_unspecified() || public.ip().is_unspecified();
    admin.port() != 0 && admin.port() == public.port() && (is_same || is_any)
}

fn transport(args: &serve::Args) -> Finding {
    let network = &args.network;
    match (network.tls(), network.behind_proxy) {
        (Err(error), _) => Check::Transport.problem(format!("{error:#}"), "correct --tls-cert and --tls-key"),
        (Ok(Some(_)), _) => Check::Transport.ok("the certificate and its key can be used"),
        (Ok(None), true) => Check::Transport.ok("a proxy in front does TLS (--behind-proxy); verify it there"),
        (Ok(None), false) if network.address().ip().is_loopback() => Check::Transport.warning(
            "the server listens on this machine only, without TLS",
            "put a proxy with TLS in front and give --behind-proxy, or give --tls-cert and --tls-key",
        ),
        (Ok(None), false) => Check::Transport.problem(
            "tokens and data can be read on their way",
            "give --tls-cert FILE and --tls-key FILE, or --behind-proxy if a proxy does TLS",
        ),
    }
}

fn proxies(args: &serve::Args) -> Finding {
    match (args.network.behind_proxy, args.network.trusted_proxies()) {
        (true, 0) => Check::Proxies.warning(
            "if the proxy connects from its own address, all clients share it, and its limit of refused tokens",
            "give --trusted-proxies N, the number of proxies that add to X-Forwarded-For",
        ),
        (false, 1..) => Check::Proxies.warning(
            "a client that reaches the server directly can choose its address (--trusted-proxies without --behind-proxy)",
            "let only the proxy reach the server, and give --behind-proxy",
        ),
        (_, number) => Check::Proxies.ok(format!("{number} trusted")),
    }
}

/// Whoever is between a page without TLS and its user can change the page.
fn cors_origins(origins: &[String], with_credentials: bool) -> Finding {
    let is_plain = |origin: &&String| origin.starts_with("http://");
    match origins.iter().find(is_plain) {
        Some(origin) if with_credentials => Check::Cors.problem(
            format!("pages of {origin} may send cookies, and anybody on their way can change such a page"),
            "list origins with https:// only, or leave out --cors-credentials",
        ),
        Some(origin) => Check::Cors.warning(
            format!("pages of {origin} may call the API, and anybody on their way can change such a page"),
            "list origins with https:// only",
        ),
        None => Check::Cors.ok(format!("pages of {} may call the API", origins.join(", "))),
    }
}

fn limits(args: &serve::Args) -> Vec<Finding> {
    let limits = args.limits.within(None);
    let mut findings = Vec::new();
    let unlimited = limits.tenant_rates.iter().find(|(_, rate)| **rate == 0).map(|(tenant, _)| tenant);
    let whose = match (limits.tenant_rate, unlimited) {
        (0, _) => Some("a tenant".to_owned()),
        (_, unlimited) => unlimited.map(|tenant| format!("tenant `{tenant}`")),
    };
    if let Some(whose) = whose {
        findings.push(Check::Limits.warning(
            format!("{whose} can send as many requests as it wants"),
            "give --tenant-rate N, and in --tenant-rates a higher rate to those who need more",
        ));
    }
    let shared = [
        ("--tenant-concurrent", limits.tenant_concurrent, "--max-requests", limits.concurrent),
        ("--tenant-bytes-in-flight", limits.tenant_bytes_in_flight, "--max-bytes-in-flight", limits.bytes_in_flight),
        ("--tenant-streams", limits.tenant_streams, "--max-streams", limits.streams),
    ];
    for (own, of_tenant, all, of_server) in shared.into_iter().filter(|(_, tenant, _, server)| tenant >= server) {
        findings.push(Check::Limits.warning(
            format!("one tenant can leave nothing to the others ({own} {of_tenant}, {all} {of_server})"),
            format!("give {own} far less than {all}"),
        ));
    }
    // As the server does when it starts.
    if let Some(files @ ..FEW_OPEN_FILES) = raise_open_files_limit() {
        findings.push(Check::Limits.warning(
            format!("the process may have {files} open files, so that few clients can connect"),
            "raise the hard limit: `LimitNOFILE=65536` in the unit file, or `ulimit -Hn`",
        ));
    }
    if findings.is_empty() {
        findings.push(Check::Limits.ok(format!("{} requests per second and tenant", limits.tenant_rate)));
    }
    findings
}
