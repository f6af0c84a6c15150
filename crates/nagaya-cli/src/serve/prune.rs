//! Removes expired entries of the operator log while a server runs.

use std::time::Duration;

use nagaya_tenancy::Nagaya;

const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes expired entries, now and once a day. A table with expiry loses them by itself, so that little is left to do.
pub(super) async fn prune(nagaya: Nagaya, system: String) {
    loop {
        match nagaya.prune_operator_log().await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(system, removed, "expired entries of the operator log are removed"),
            Err(error) => tracing::warn!(system, %error, "expired entries of the operator log cannot be removed"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
