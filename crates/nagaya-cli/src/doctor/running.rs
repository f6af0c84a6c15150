//! The server that runs with these settings, if there is one.

use std::{net::SocketAddr, time::Duration};

use nagaya_server::http_agent;
use tokio::task::JoinError;

use super::{Check, Finding};
use crate::serve;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn examine(args: &serve::Args, findings: &mut Vec<Finding>) {
    let network = &args.network;
    let scheme = if network.has_tls() { "https" } else { "http" };
    let public = network.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", loopback(network.address())));
    let address = network.address();
    let admin =
        network.admin_address().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], address.port().wrapping_add(1))));
    let admin = format!("http://{}", loopback(admin));
    findings.extend(asked(tokio::task::spawn_blocking(move || ask(&public, &admin)).await));
}

/// The findings; a check that ended early has found a problem, not nothing.
fn asked(ended: Result<Vec<Finding>, JoinError>) -> Vec<Finding> {
    ended.unwrap_or_else(|error| {
        vec![Check::Running.problem(
            format!("the server could not be asked: {error}"),
            "this is a mistake in the program: report it, and look at /readyz and /metrics yourself",
        )]
    })
}

/// An address that can be connected to.
fn loopback(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

fn ask(public: &str, admin: &str) -> Vec<Finding> {
    let (readiness, _) = match get(&format!("{admin}/readyz")) {
        Ok(answer) => answer,
        Err(_) => {
            return vec![Check::Running.unknown(format!("no server answers at {admin}: start it, and run this again"))];
        }
    };
    let mut findings = Vec::new();
    if readiness != 200 {
        findings.push(Check::Running.problem("the server is not ready", "its log says why; see /readyz"));
    }
    if let Ok((200, metrics)) = get(&format!("{admin}/metrics")) {
        for (metric, found, remedy) in [
            (
                "nagaya_wall_breaches_total",
                "the store has returned items from behind another wall",
                "a program wrote to the tables without Nagaya: the log names the items",
            ),
            (
                "nagaya_follower_dead_letters",
                "events cannot be applied to a projection",
                "look at `nagaya events dlq list`",
            ),
        ] {
            if sum(&metrics, metric) > 0.0 {
                findings.push(Check::Running.problem(found, remedy));
            }
        }
    }
    match get(&format!("{public}/metrics")) {
        Ok((200, _)) => findings.push(Check::Running.problem(
            format!("{public}/metrics shows the metrics to everybody"),
            "let the proxy forward to the public address only, and not to the admin listener",
        )),
        Ok(_) => {}
        Err(why) => {
            findings.push(Check::Running.warning(
                format!("{public} does not answer here: {why}"),
                "verify from elsewhere that clients reach it",
            ))
        }
    }
    if findings.is_empty() {
        findings.push(Check::Running.ok("it is ready, no wall was breached, and clients do not see the metrics"));
    }
    findings
}

fn get(url: &str) -> Result<(u16, String), ureq::Error> {
    let mut answer = http_agent(TIMEOUT).get(url).call()?;
    let body = answer.body_mut().read_to_string()?;
    Ok((answer.status().as_u16(), body))
}

/// The sum of a metric over its labels.
fn sum(metrics: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = if rest.starts_with('{') { &rest[rest.rfind('}')? + 1..] } else { rest };
        rest.trim().split(' ').next()?.parse::<f64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_that_panics_is_a_problem() {
        let ended = tokio::spawn(async { panic!("this test wants it") }).await;
        assert_eq!(asked(ended).iter().map(|each| each.state).collect::<Vec<_>>(), [crate::doctor::State::Problem]);
    }

    #[test]
    fn a_metric_is_added_up_over_its_labels() {
        let metrics = "# TYPE a counter\na_total{system=\"x\"} 2\na_total{system=\"y}\"} 1\na_total_other 9\nb 4\n";
        assert!((sum(metrics, "a_total") - 3.0).abs() < f64::EPSILON);
        assert!((sum(metrics, "b") - 4.0).abs() < f64::EPSILON);
    }
}
